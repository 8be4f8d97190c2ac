// read_steps.cc -- describes the steps of a directory.
#include <cairn/steps.h>

#include <cairn/base/errors.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/manager/step_directory.h>
#include <cairn/tools/report/json_text.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::inline v0 {
namespace {

using orbax::join;

// Finds the sizes of files, and how many steps have each file.
class FileSizes {
 public:
  // Adds the files of a step. Links are not followed.
  void add(std::size_t step, const Directory& folder) {
    for (const DirectoryEntry& entry : folder.list()) {
      if (entry.kind == EntryKind::kDirectory)
        add(step, folder.child(entry.name));
      else if (entry.kind == EntryKind::kFile)
        add_file(step, folder.path_of(entry.name));
    }
  }
  void fill(std::vector<StepRecord>& steps) const {
    for (const auto& [id, file] : files_) {
      for (const std::size_t step : file.steps) steps[step].nbytes += file.size;
      if (file.steps.size() == 1) steps[file.steps.front()].unique_nbytes += file.size;
    }
  }

 private:
  struct File {
    std::uint64_t size = 0;
    std::vector<std::size_t> steps = {};  // each once
  };

  void add_file(std::size_t step, const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return;  // removed meanwhile
    File& file = files_[{status.st_dev, status.st_ino}];
    file.size = static_cast<std::uint64_t>(status.st_size);
    if (file.steps.empty() || file.steps.back() != step) file.steps.push_back(step);
  }

  std::map<std::pair<dev_t, ino_t>, File> files_;
};

void describe(StepRecord& record, const std::string& name) {
  if (name.find(orbax::kTemporaryMark) != std::string::npos) {
    record.reason = "its save was interrupted or is in progress";
    return;
  }
  auto layout =
      try_call([&] { return orbax::try_find_layout(record.path, {.allow_uncommitted = true}); });
  if (!layout || !layout.value()) {
    record.reason = layout ? "the folder holds no checkpoint" : layout.error().message();
    return;
  }
  record.reason = layout.value()->uncommitted;
  record.complete = record.reason.empty();
  for (const orbax::Item& item : layout.value()->items)
    if (!item.name.empty()) record.items.push_back(item.name);
  std::ranges::sort(record.items);
  const auto metadata = try_call([&] {
    return orbax::read_checkpoint_metadata(join(record.path, orbax::kCheckpointMetadataFile));
  });
  if (metadata) record.committed_at_ns = metadata.value().commit_time_ns;
  auto metrics = try_call([&] { return orbax::read_metrics(record.path); });
  if (metrics) record.metrics = std::move(metrics).value();
}

}  // namespace

std::vector<StepRecord> read_steps(const std::string& path) {
  if (!file_exists(path)) throw Error(Code::kNotFound, path + ": there is no such directory");
  if (!directory_exists(path))
    invalid_argument(path + ": is a file; steps are folders in a directory");
  const Directory root = Directory::open(path);
  std::vector<StepRecord> steps;
  FileSizes sizes;
  for (const DirectoryEntry& entry : root.list()) {
    if (entry.kind != EntryKind::kDirectory) continue;
    const auto step =
        orbax::parse_step(entry.name.substr(0, entry.name.find(orbax::kTemporaryMark)));
    if (!step) continue;
    StepRecord record{.step = *step, .path = root.path_of(entry.name)};
    describe(record, entry.name);
    sizes.add(steps.size(), root.child(entry.name));
    steps.push_back(std::move(record));
  }
  if (steps.empty() && orbax::try_find_layout(path, {.allow_uncommitted = true}))
    invalid_argument(path + ": is one checkpoint, not a directory of steps");
  sizes.fill(steps);
  std::ranges::stable_sort(steps, {}, &StepRecord::step);
  return steps;
}

std::string steps_json(const std::vector<StepRecord>& steps) {
  JsonArray list;
  for (const StepRecord& record : steps) {
    JsonArray items;
    for (const std::string& item : record.items) items.push_back(text_json(item));
    Json metrics;
    if (record.metrics) {
      JsonObject members;
      for (const auto& [name, value] : *record.metrics) members.emplace_back(name, value);
      metrics = std::move(members);
    }
    list.push_back(JsonObject{
        {"step", record.step},
        {"path", text_json(record.path)},
        {"committed_at", record.committed_at_ns ? Json(*record.committed_at_ns) : Json()},
        {"nbytes", record.nbytes},
        {"unique_nbytes", record.unique_nbytes},
        {"items", std::move(items)},
        {"metrics", std::move(metrics)},
        {"complete", record.complete},
        {"reason", record.complete ? Json() : text_json(record.reason)}});
  }
  return to_text(Json(std::move(list)), JsonStyle::kPretty);
}

}  // namespace cairn::inline v0
