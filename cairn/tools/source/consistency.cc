// consistency.cc -- describes options and open checkpoints as named values.

#include <cairn/tools/source/consistency.h>

#include <cairn/base/byte_io.h>

#include <fmt/format.h>

namespace cairn::inline v0 {
namespace {

std::string tensor_text(const Checkpoint& checkpoint, std::size_t index) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  std::string text = fmt::format("{} {}{} at {}, {} bytes, {} stored", tensor.typestr,
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
                       const std::function<void(ToolConsistencyCheck&)>& add_values) {
  ToolConsistencyCheck check;
  const auto messages = group.gather(step, distributed::StepKind::kIo, [&] {
    prepare();
    if (!group.is_single()) add_values(check);
    return std::move(ByteWriter().u64(check.options.digest()).u64(check.opened.digest())).take();
  });
  check.options.check(messages, group, std::string(step) + ": other options");
  check_opened(messages, check.opened, group, step, sizeof(std::uint64_t));
}

void add_opened(const Checkpoint& checkpoint, const std::string& which,
                distributed::ConsistencyCheck& opened) {
  const CheckpointInfo& info = checkpoint.info();
  opened.add(which + "the format", info.format);
  opened.add(which + "the step", option_text(info.step));
  for (const auto* pairs : {&info.revision, &info.facts})
    for (const auto& [label, text] : *pairs) opened.add(which + label, text);
  opened.add(which + "the custom metadata", info.custom_metadata);
  for (const auto& [item, text] : info.item_metadata)
    opened.add(which + "the metadata of item '" + item + "'", text);
  for (std::size_t i = 0; i < checkpoint.tensors().size(); ++i)
    opened.add(which + checkpoint.tensors()[i].full_name(), tensor_text(checkpoint, i));
}

void check_opened(std::span<const Bytes> messages, const distributed::ConsistencyCheck& opened,
                  const distributed::ProcessGroup& group, std::string_view step, std::size_t at) {
  try {
    opened.check(messages, group, std::string(step) + ": other checkpoints", at);
  } catch (const Error& e) {
    if (e.code() != Code::kInvalidArgument) throw;
    throw Error(
        Code::kFailedPrecondition,
        e.message() +
            "; all processes must see the same files, and no program may write to them meanwhile "
            "(for a root that grows, give the step; copies on each host must keep the "
            "times of the files)");
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
