// read_steps.cc -- describes the steps of a directory.
#include <cairn/steps.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
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

// A file of a step. Steps may share files, under names of their own.
struct StepFile {
  std::pair<dev_t, ino_t> id;
  std::uint64_t size = 0;
};

// Adds the files below the folder `name`. Links are not followed. Nothing is added for what
// disappears meanwhile: the training job that saves the steps removes them, too.
void add_files(const Directory& above, const std::string& name, std::vector<StepFile>& files) {
  const auto opened = try_call([&] { return above.child(name); });
  if (!opened && opened.error().code() == Code::kNotFound) return;
  const Directory& folder = opened.value();
  for (const DirectoryEntry& entry : folder.list()) {
    if (entry.kind == EntryKind::kDirectory) {
      add_files(folder, entry.name, files);
    } else if (entry.kind == EntryKind::kFile) {
      struct stat status {};
      if (::lstat(folder.path_of(entry.name).c_str(), &status) == 0)
        files.push_back(
            {{status.st_dev, status.st_ino}, static_cast<std::uint64_t>(status.st_size)});
    }
  }
}

// Leaves each file of a step once.
void drop_doubles(std::vector<StepFile>& files) {
  std::ranges::sort(files, {}, &StepFile::id);
  files.erase(std::unique(files.begin(), files.end(),
                          [](const StepFile& a, const StepFile& b) { return a.id == b.id; }),
              files.end());
}

void set_sizes(const std::vector<std::vector<StepFile>>& files, std::vector<StepRecord>& steps) {
  std::map<std::pair<dev_t, ino_t>, std::size_t> owners;  // how many steps have the file
  for (const auto& of_step : files)
    for (const StepFile& file : of_step) ++owners[file.id];
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const StepFile& file : files[i]) {
      steps[i].nbytes += file.size;
      if (owners[file.id] == 1) steps[i].unique_nbytes += file.size;
    }
}

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
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : root.list()) {
    if (entry.kind != EntryKind::kDirectory) continue;
    const auto step =
        orbax::parse_step(entry.name.substr(0, entry.name.find(orbax::kTemporaryMark)));
    if (!step) continue;
    steps.push_back({.step = *step, .path = root.path_of(entry.name)});
    names.push_back(entry.name);
  }
  std::vector<std::vector<StepFile>> files(steps.size());
  default_executor().for_each(steps.size(), [&](std::size_t i) {
    describe(steps[i], names[i]);
    add_files(root, names[i], files[i]);
    drop_doubles(files[i]);
    if (root.kind(names[i]) == EntryKind::kAbsent) steps[i].path.clear();
  });
  if (steps.empty() && orbax::try_find_layout(path, {.allow_uncommitted = true}))
    invalid_argument(path + ": is one checkpoint, not a directory of steps");
  set_sizes(files, steps);
  std::erase_if(steps, [](const StepRecord& record) { return record.path.empty(); });
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
