// step_directory.cc -- lists, describes and removes steps.
#include <cairn/orbax/manager/step_directory.h>

#include <cairn/base/json/json.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

// Follows kTemporaryMark, as older versions of Orbax name temporary folders.
constexpr std::string_view kRemovedMark = "-removed";

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

}  // namespace

std::vector<std::int64_t> steps_in(const Directory& root, const StepNameFormat& format) {
  std::vector<std::int64_t> steps;
  for (const DirectoryEntry& entry : root.list()) {
    if (entry.kind != EntryKind::kDirectory && entry.kind != EntryKind::kLink) continue;
    const auto step = parse_step_name(entry.name, format);
    if (step && (entry.kind == EntryKind::kDirectory || directory_exists(root.path_of(entry.name))))
      steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

StepInfo read_step(const std::string& folder, std::int64_t step) {
  return {.step = step, .time = committed(folder), .metrics = read_metrics(folder)};
}

std::optional<Metrics> read_metrics(const std::string& folder) {
  const std::string file = join(join(folder, kMetricsItem), kMetricsItem);
  if (!file_exists(file)) return std::nullopt;
  return with_context([&] { return file; },
                      [&]() -> std::optional<Metrics> {
                        const Json json = parse_json(as_text(read_file(file, kMaxMetadataFile)));
                        Metrics metrics;
                        if (const JsonObject* object = json.as_object())
                          for (const auto& [name, value] : *object)
                            if (const auto number = value.as_double()) metrics[name] = *number;
                        return metrics;
                      });
}

std::string metrics_text(const Metrics& metrics) {
  JsonObject object;
  for (const auto& [name, value] : metrics) object.emplace_back(name, value);
  return to_text(Json(std::move(object)), JsonStyle::kPython);
}

void check_step_removable(const Directory& root, const std::string& name) {
  const EntryKind kind = root.kind(name);
  if (kind != EntryKind::kDirectory)
    throw Error(Code::kAlreadyExists, root.path_of(name) + ": is " +
                                          std::string(entry_kind_text(kind)) +
                                          ", not a checkpoint, and is not removed");
  check_only_checkpoint(root.child(name), DirectoryRole::kTarget);
}

void remove_step(const Directory& root, const std::string& name) {
  if (root.kind(name) == EntryKind::kAbsent) return;
  check_step_removable(root, name);
  const std::string leftover = name + std::string(kTemporaryMark) + std::string(kRemovedMark);
  if (root.kind(leftover) != EntryKind::kAbsent) {
    check_only_checkpoint(root.child(leftover), DirectoryRole::kTemporary);
    root.remove(leftover);
  }
  root.rename(name, leftover);
  root.remove(leftover);
  root.sync();
}

void set_step_aside(const Directory& root, const std::string& name, const std::string& subfolder) {
  if (root.kind(name) == EntryKind::kAbsent) return;
  check_step_removable(root, name);
  make_directories(root.path_of(subfolder));
  const std::string aside = subfolder + "/" + name;
  if (root.kind(aside) != EntryKind::kAbsent) {
    check_step_removable(root, aside);
    root.remove(aside);
  }
  root.rename(name, aside);
  root.child(subfolder).sync();
  root.sync();
}

}  // namespace cairn::inline v0::orbax
