// step_directory.cc -- lists and describes steps; reads and writes what the directory records.
#include <cairn/orbax/manager/step_directory.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/completeness.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/save/step_format.h>

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

using Time = std::chrono::system_clock::time_point;

Time at(std::chrono::nanoseconds since_1970) {
  return Time(std::chrono::duration_cast<Time::duration>(since_1970));
}

Time changed(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return {};
  return at(std::chrono::seconds(status.st_mtim.tv_sec) +
            std::chrono::nanoseconds(status.st_mtim.tv_nsec));
}

Time committed(const std::string& folder) {
  const auto metadata =
      try_call([&] { return read_checkpoint_metadata(join(folder, kCheckpointMetadataFile)); });
  if (!metadata || !metadata.value().commit_time_ns) return changed(folder);
  return at(std::chrono::nanoseconds(*metadata.value().commit_time_ns));
}

std::string metrics_file(const std::string& folder) {
  return join(join(folder, kMetricsItem), kMetricsItem);
}

// Calls `visit` with the name and value of each member of an object or a list.
template <class Visit>
void for_each_member(const Json& json, Visit visit) {
  if (const JsonObject* object = json.as_object())
    for (const auto& [name, value] : *object) visit(name, value);
  if (const JsonArray* list = json.as_array())
    for (std::size_t i = 0; i < list->size(); ++i) visit(std::to_string(i), (*list)[i]);
}

// Adds the numbers below `json`. The parser bounds the depth. The member "a.b" comes after the
// member "b" of "a", so it counts if both are there.
void add_numbers(const Json& json, const std::string& prefix, Metrics& metrics) {
  for_each_member(json, [&](const std::string& name, const Json& value) {
    add_numbers(value, prefix + name + ".", metrics);
  });
  for_each_member(json, [&](const std::string& name, const Json& value) {
    if (const auto number = value.as_double()) metrics[prefix + name] = *number;
  });
}

}  // namespace

Metrics numbers_of(const Json& json) {
  Metrics metrics;
  add_numbers(json, "", metrics);
  return metrics;
}

namespace {

template <class Read>
Metrics parse_metrics(const std::string& file, Read read) {
  const auto text = read();
  const Json json = with_context([&] { return file; }, [&] { return parse_json(as_text(text)); });
  return numbers_of(json);
}

}  // namespace

namespace {

// The folders with the names of steps, in ascending order.
std::vector<StepFolder> named_folders(const RunRoot& root, const StepNameFormat& format) {
  std::vector<StepFolder> folders;
  for (std::string& name : root.folder_names())
    if (const auto step = parse_step_name(name, format))
      folders.push_back({*step, std::move(name)});
  std::ranges::stable_sort(folders, {}, &StepFolder::step);
  return folders;
}

std::vector<StepFolder> committed_folders(const RunRoot& root, const StepNameFormat& format,
                                          CommitRule rule, Executor& executor) {
  std::vector<StepFolder> folders = named_folders(root, format);
  std::vector<char> counts(folders.size());
  root.for_each(folders.size(), executor, [&](std::size_t i) {
    counts[i] = root.presence(folders[i].name, rule) == StepPresence::kCommitted ? 1 : 0;
  });
  std::size_t i = 0;
  std::erase_if(folders, [&](const StepFolder& /*folder*/) { return counts[i++] == 0; });
  return folders;
}

// Why the step is not complete; "" also if it cannot be read.
std::string flaw_of(const RunRoot& root, const StepFolder& folder, const StepFormat* format) {
  const auto why = try_call([&] {
    const FolderPtr step = root.open_step(folder.name);
    return format != nullptr ? format->why_incomplete(step) : why_incomplete(step);
  });
  if (why) return why.value();
  return root.is_gone(folder.name) ? "it has been removed" : "";
}

}  // namespace

FoundSteps find_steps(const RunRoot& root, const StepRule& rule, Executor& executor) {
  const std::vector<StepFolder> folders =
      committed_folders(root, rule.names, rule.commit, executor);
  std::vector<std::string> flaws(folders.size());
  root.for_each(folders.size(), executor,
                [&](std::size_t i) { flaws[i] = flaw_of(root, folders[i], rule.format.get()); });
  FoundSteps found;
  for (std::size_t i = 0; i < folders.size(); ++i)
    if (flaws[i].empty())
      found.complete.push_back(folders[i].step);
    else
      found.incomplete.push_back(
          {folders[i].step, root.path_of(folders[i].name), std::move(flaws[i])});
  return found;
}

Bytes message_of(const FoundSteps& found) {
  ByteWriter message;
  message.u64(found.complete.size());
  for (const std::int64_t step : found.complete) message.u64(static_cast<std::uint64_t>(step));
  for (const IncompleteStep& folder : found.incomplete) {
    message.u64(static_cast<std::uint64_t>(folder.step));
    for (const std::string& text : {folder.path, folder.reason})
      message.u64(text.size()).text(text);
  }
  return std::move(message).take();
}

FoundSteps found_steps_of(ByteView message) {
  FoundSteps found;
  ByteReader in(message);
  for (std::uint64_t n = in.u64(); n > 0; --n)
    found.complete.push_back(static_cast<std::int64_t>(in.u64()));
  while (!in.at_end()) {
    IncompleteStep& folder = found.incomplete.emplace_back();
    folder.step = static_cast<std::int64_t>(in.u64());
    folder.path = in.text(in.u64());
    folder.reason = in.text(in.u64());
  }
  return found;
}

std::optional<std::int64_t> find_latest_step(const RunRoot& root, const StepRule& rule,
                                             std::optional<std::int64_t> least) {
  const std::vector<StepFolder> folders = named_folders(root, rule.names);
  for (auto it = folders.rbegin(); it != folders.rend() && (!least || it->step >= *least); ++it)
    if (root.presence(it->name, rule.commit) == StepPresence::kCommitted &&
        flaw_of(root, *it, rule.format.get()).empty())
      return it->step;
  return std::nullopt;
}

StepInfo read_step(const std::string& folder, std::int64_t step) {
  return {.step = step, .time = committed(folder), .metrics = read_metrics(folder)};
}

std::optional<Metrics> read_metrics(const std::string& folder) {
  const std::string file = metrics_file(folder);
  if (!file_exists(file)) return std::nullopt;
  return parse_metrics(file, [&] { return read_text_file(file, kMaxMetadataFile); });
}

std::optional<Metrics> read_metrics(const FolderHandle& step) {
  const std::string file = metrics_file(step.path());
  if (!step.exists(file)) return std::nullopt;
  return parse_metrics(file, [&] { return step.read_text(file, kMaxMetadataFile); });
}

std::string metrics_text(const Metrics& metrics) {
  JsonObject object;
  for (const auto& [name, value] : metrics) object.emplace_back(name, value);
  return to_text(Json(std::move(object)), JsonStyle::kPython);
}

std::string json_object_text(const std::string& text, std::string_view what) {
  return to_text(given_object(text, what), JsonStyle::kPython);
}

std::string root_metadata_text(const std::string& custom_metadata) {
  return "{\"internal_metadata\": {}, \"custom_metadata\": " +
         json_object_text(custom_metadata, "the root metadata") + "}";
}

void write_root_metadata(const Directory& root, const std::string& custom_metadata) {
  const std::string text = root_metadata_text(custom_metadata);
  const std::string name(kRootMetadataFolder);
  (void)root.make(name);
  const Directory folder = root.child(name);
  if (folder.kind(std::string(kRootMetadataFile)) != EntryKind::kAbsent) return;
  AtomicFile file(folder.path_of(kRootMetadataFile));
  file.append(as_bytes(text));
  try {
    file.commit_output(IfExists::kFail);
  } catch (const Error& e) {
    // Another process has stored its own meanwhile.
    if (e.code() != Code::kAlreadyExists) throw;
  }
  root.sync();
}

std::string read_root_metadata(const std::string& root) {
  const std::string folder = join(root, kRootMetadataFolder);
  for (const std::string_view name : {kRootMetadataFile, kLegacyRootMetadataFile}) {
    const std::string file = join(folder, name);
    if (!file_exists(file)) continue;
    const auto text = read_text_file(file, kMaxMetadataFile);
    const Json custom =
        with_context([&] { return file; }, [&] { return parse_root_metadata(as_text(text)); });
    return custom.is_null() ? "" : to_text(custom, JsonStyle::kPython);
  }
  return "";
}

}  // namespace cairn::inline v0::orbax

namespace cairn::inline v0 {

std::vector<StepFolder> list_step_folders(const std::string& directory,
                                          const StepNameFormat& format, CommitProtocol protocol,
                                          bool allow_legacy_atomic_rename,
                                          const StoreOptions& store) {
  const orbax::CommitRule rule{protocol, allow_legacy_atomic_rename};
  const StorePtr opened = orbax::open_run_store(directory, store);
  const auto root = opened != nullptr
                        ? orbax::make_store_root(opened, normal_path(directory))
                        : orbax::make_local_root(Directory::open(absolute_path(directory)));
  return orbax::committed_folders(*root, format, rule, default_executor());
}

}  // namespace cairn::inline v0
