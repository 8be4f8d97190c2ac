// consistency.cc -- compares intents as digests; if they differ, finds the difference in words.

#include <cairn/tools/source/consistency.h>

#include <cairn/base/byte_io.h>

#include <fmt/format.h>

namespace cairn::inline v0 {
namespace {

std::string tensor_text(const Checkpoint& checkpoint, std::size_t index) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  std::string text = fmt::format("{} {}{} at {}, {} bytes, {} stored", tensor.kind,
                                 tensor.dtype_name, shape_text(tensor.shape),
                                 path_text(tensor.path), tensor.nbytes, tensor.stored_nbytes);
  if (!tensor.chunk_shape.empty()) text += ", in chunks of " + shape_text(tensor.chunk_shape);
  if (const std::string key = checkpoint.random_key_impl(index); !key.empty())
    text += ", PRNG keys of " + key;
  if (!tensor.sharding.empty()) text += ", as " + tensor.sharding;
  if (!tensor.error.empty()) text += ", unreadable: " + tensor.error;
  return text;
}

}  // namespace

void check_consistency(const distributed::ProcessGroup& group, std::string_view step,
                       const std::function<void()>& prepare,
                       const std::function<void(ToolConsistencyCheck&)>& say) {
  ToolConsistencyCheck intent;
  const auto said = group.gather(step, distributed::StepKind::kIo, [&] {
    prepare();
    if (!group.is_single()) say(intent);
    return std::move(ByteWriter().u64(intent.asked.digest()).u64(intent.opened.digest())).take();
  });
  std::vector<std::uint64_t> asked, opened;
  for (const Bytes& digests : said) {
    ByteReader in(digests);
    asked.push_back(in.u64());
    opened.push_back(in.u64());
  }
  intent.asked.check(asked, group, std::string(step) + ": what is asked for");
  check_opened(opened, intent.opened, group, step);
}

void add_opened(const Checkpoint& checkpoint, const std::string& which,
                distributed::ConsistencyCheck& opened) {
  const CheckpointInfo& info = checkpoint.info();
  opened.add(which + "the format", info.format);
  opened.add(which + "the step", option_text(info.step));
  for (const auto* pairs : {&info.revision, &info.facts})
    for (const auto& [label, text] : *pairs) opened.add(which + label, text);
  opened.add(which + "the custom metadata", info.custom_metadata);
  for (std::size_t i = 0; i < checkpoint.tensors().size(); ++i)
    opened.add(which + checkpoint.tensors()[i].full_name(), tensor_text(checkpoint, i));
}

void check_opened(std::span<const std::uint64_t> digests,
                  const distributed::ConsistencyCheck& opened,
                  const distributed::ProcessGroup& group, std::string_view step) {
  try {
    opened.check(digests, group, std::string(step) + ": what is seen");
  } catch (const Error& e) {
    if (e.code() != Code::kInvalidArgument) throw;
    throw Error(
        Code::kFailedPrecondition,
        e.message() +
            "; all processes must see the same files, and nobody may write them meanwhile (of a "
            "root "
            "that grows, say which step; a copy on each host must keep the times of the files)");
  }
}

std::string option_text(bool flag) { return flag ? "true" : "false"; }
std::string option_text(double number) { return fmt::format("{}", number); }
std::string option_text(const std::string& text) { return "'" + text + "'"; }
std::string option_text(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts)
    out.append(out.empty() ? "" : ", ").append(option_text(text));
  return out.empty() ? "none" : out;
}
std::string option_text(const std::vector<std::pair<std::string, std::string>>& rules) {
  std::string out;
  for (const auto& [from, to] : rules)
    out.append(out.empty() ? "" : ", ").append(option_text(from) + " to " + option_text(to));
  return out.empty() ? "none" : out;
}
std::string option_text(const std::optional<std::string>& text) {
  return text ? option_text(*text) : "none";
}

}  // namespace cairn::inline v0
