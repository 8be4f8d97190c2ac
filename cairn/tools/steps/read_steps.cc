// read_steps.cc -- describes the steps of a directory.
#include <cairn/steps.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/distributed/completeness.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/completeness.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/orbax/manager/step_directory.h>
#include <cairn/tools/dcp/dcp_plan.h>
#include <cairn/tools/dcp/dcp_run.h>
#include <cairn/tools/report/json_text.h>
#include <cairn/tools/steps/bundle_steps.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace cairn::inline v0 {
namespace {

using orbax::join;

using FileId = std::pair<dev_t, ino_t>;

// What is known of one step before the files of the others are known.
struct StepFiles {
  std::uint64_t alone = 0;                               // bytes of files that have one name
  std::vector<std::pair<FileId, std::uint64_t>> shared;  // files with several names, each once
  bool is_linked = false;  // behind a symbolic link, so that its removal frees nothing
};

// Adds one file of the step. On a file system it may have names in several steps.
void add_file(const FolderHandle& step, const std::string& name, StepFiles& files) {
  const auto* const local = LocalFolder::of(step);
  if (local == nullptr) {
    files.alone += step.file_size(join(step.path(), name)).value_or(0);
    return;
  }
  struct stat status {};
  if (::fstatat(local->descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (status.st_nlink == 1)
    files.alone += size;
  else
    files.shared.push_back({{status.st_dev, status.st_ino}, size});
}

// Adds the files below a folder of the step; `folder` is its path below the step, with a final
// '/', or "". Links are not followed. Nothing is added for what disappears meanwhile: the training
// job that saves the steps removes them, too.
void add_files(const FolderHandle& step, const std::string& folder, StepFiles& files) {
  const std::string path =
      folder.empty() ? step.path() : join(step.path(), folder.substr(0, folder.size() - 1));
  for (const FolderEntry& entry : step.entries(path)) {
    const std::string name = folder + entry.name;
    if (entry.kind == EntryKind::kDirectory) {
      add_files(step, name + "/", files);
    } else if (entry.kind == EntryKind::kFile) {
      add_file(step, name, files);
    }
  }
}

// Leaves each file of a step once.
void drop_doubles(StepFiles& files) {
  std::ranges::sort(files.shared);
  const auto doubles = std::unique(files.shared.begin(), files.shared.end());
  files.shared.erase(doubles, files.shared.end());
}

void set_sizes(const std::vector<StepFiles>& files, std::vector<StepRecord>& steps) {
  std::map<FileId, std::size_t> owners;  // how many steps have the file
  for (const StepFiles& of_step : files)
    for (const auto& [id, size] : of_step.shared) owners[id] += of_step.is_linked ? 0 : 1;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].nbytes = steps[i].unique_nbytes = files[i].alone;
    for (const auto& [id, size] : files[i].shared) {
      steps[i].nbytes += size;
      if (owners[id] == 1) steps[i].unique_nbytes += size;
    }
    if (files[i].is_linked) steps[i].unique_nbytes = 0;
  }
}

bool has_metrics(const FolderHandle& step) {
  return std::ranges::any_of(step.entries(step.path()), [](const FolderEntry& entry) {
    return entry.is_folder && entry.name == orbax::kMetricsItem;
  });
}

// Returns the message. Throws the error if the store did not answer: then nobody knows about the
// step.
std::string reason_of(const Error& error, const std::string& path) {
  const bool says_nothing = error.code() == Code::kIo || error.code() == Code::kCancelled ||
                            error.code() == Code::kDeadlineExceeded;
  if (says_nothing && is_store_url(path)) throw Error(error);
  return error.message();
}

// What the records of the step name and the step lacks; "" if nothing.
std::string lacking(const orbax::Layout& layout, const std::string& path) {
  auto missing = try_call([&] { return orbax::find_missing(layout); });
  return missing ? std::move(missing).value() : reason_of(missing.error(), path);
}

// Adds what the step records about itself: when it was committed, and its metrics.
void add_records(StepRecord& record, const FolderPtr& step) {
  const auto metadata = try_call([&] {
    return orbax::read_checkpoint_metadata(*step,
                                           join(record.path, orbax::kCheckpointMetadataFile));
  });
  if (metadata)
    record.committed_at_ns = metadata.value().commit_time_ns;
  else
    (void)reason_of(metadata.error(), record.path);
  if (!has_metrics(*step)) return;
  auto metrics = try_call([&] { return orbax::read_metrics(*step); });
  if (metrics)
    record.metrics = std::move(metrics).value();
  else
    (void)reason_of(metrics.error(), record.path);
}

void describe_orbax(StepRecord& record, const FolderPtr& step) {
  auto layout = try_call(
      [&] { return orbax::try_find_layout(step, record.path, {.allow_uncommitted = true}); });
  if (!layout || !layout.value()) {
    record.reason =
        layout ? "the folder holds no checkpoint" : reason_of(layout.error(), record.path);
    return;
  }
  record.reason = layout.value()->uncommitted;
  if (record.reason.empty()) record.reason = lacking(*layout.value(), record.path);
  record.complete = record.reason.empty();
  for (const orbax::Item& item : layout.value()->items)
    if (!item.name.empty()) record.items.push_back(item.name);
  std::ranges::sort(record.items);
  add_records(record, step);
}

void describe(StepRecord& record, const std::string& name, const FolderPtr& step) {
  if (name.find(orbax::kTemporaryMark) != std::string::npos) {
    record.reason = "its save was interrupted or is in progress";
    return;
  }
  const FileTree tree(step);
  if (!is_distributed(tree, step->path()) && !is_unfinished_distributed(tree, step->path()))
    return describe_orbax(record, step);
  auto why = try_call([&] { return pytorch::why_incomplete(tree, step->path()); });
  record.reason = why ? std::move(why).value() : reason_of(why.error(), record.path);
  record.complete = record.reason.empty();
  add_records(record, step);
}

// Describes a step that may be a symbolic link. Takes its path away if it has disappeared.
void read_step(const orbax::RunRoot& root, const std::string& name, StepRecord& record,
               StepFiles& files) {
  // Everything of a step is read through one handle, and each of its folders is listed once.
  const auto step = try_call([&] { return root.open_step(name); });
  if (step) {
    describe(record, name, step.value());
    add_files(*step.value(), "", files);
    drop_doubles(files);
  } else {
    record.reason = reason_of(step.error(), record.path);
  }
  if (!root.exists(name)) record.path.clear();
  files.is_linked = root.is_link(name);
}

// Opens the directory of steps.
std::unique_ptr<orbax::RunRoot> open_steps(const std::string& path, const StoreOptions& options) {
  if (const StorePtr store = orbax::open_run_store(path, options)) {
    auto root = orbax::make_store_root(store, normal_path(path));
    if (root->exists()) return root;
    throw Error(Code::kNotFound, path + ": no object has this prefix");
  }
  refuse_url(path);
  if (!file_exists(path)) throw Error(Code::kNotFound, path + ": there is no such directory");
  if (!directory_exists(path))
    invalid_argument(path + ": is " + kind_at(path) + "; steps are folders in a directory");
  return orbax::make_local_root(Directory::open(path));
}

// The step that a folder is, or would be when its save has ended. More names are those of steps if
// the folders are Distributed Checkpoints of PyTorch.
std::optional<std::int64_t> step_of(const orbax::RunRoot& root, const std::string& name) {
  const std::string base = name.substr(0, name.find(orbax::kTemporaryMark));
  if (const auto step = orbax::parse_step(base)) return step;
  const auto step = dcp_step_of(base);
  const auto has = [&](std::string_view file) { return root.has_file(join(name, file)); };
  const bool is_dcp =
      step && (has(orbax::kDistributedFile) || has("__0.metadata") || has(dcp_data_file(0)));
  return is_dcp ? step : std::nullopt;
}

// Whether a folder is a checkpoint of its own: recent ones have this file, and the items of a
// checkpoint do not.
bool is_checkpoint(const orbax::RunRoot& root, const std::string& name) {
  return root.has_file(join(name, orbax::kCheckpointMetadataFile));
}

}  // namespace

std::vector<std::string> find_unnamed_steps(const std::string& path, const StoreOptions& store) {
  const auto root = open_steps(path, store);
  std::vector<std::string> names;
  if (root->has_file(orbax::kCheckpointMetadataFile)) return names;
  for (std::string& name : root->folder_names())
    if (!step_of(*root, name) && !root->is_link(name) && is_checkpoint(*root, name))
      names.push_back(std::move(name));
  return names;
}

std::vector<StepRecord> read_steps(const std::string& path, const StoreOptions& store) {
  const auto root = open_steps(path, store);
  std::vector<StepRecord> steps;
  std::vector<std::string> names;
  for (const std::string& name : root->folder_names()) {
    const auto step = step_of(*root, name);
    if (!step) continue;
    steps.push_back({.step = *step, .path = root->path_of(name)});
    names.push_back(name);
  }
  const std::string& where = is_store_url(path) ? root->path() : path;
  const auto is_one = [&] {
    return steps.empty()
               ? find_unnamed_steps(path, store).empty() &&
                     orbax::try_find_layout(where, {.allow_uncommitted = true, .store = store})
               : orbax::has_checkpoint_markers(where, store);
  };
  if (steps.empty() && !is_store_url(path))
    if (std::vector<StepRecord> bundles = read_bundle_steps(path); !bundles.empty()) return bundles;
  if (is_one()) invalid_argument(path + ": is one checkpoint, not a directory of steps");
  std::vector<StepFiles> files(steps.size());
  root->for_each(steps.size(), default_executor(),
                 [&](std::size_t i) { read_step(*root, names[i], steps[i], files[i]); });
  set_sizes(files, steps);
  std::erase_if(steps, [](const StepRecord& record) { return record.path.empty(); });
  std::ranges::stable_sort(steps, {}, &StepRecord::step);
  return steps;
}

std::string incomplete_reason(const std::string& path, const StoreOptions& store) {
  const FolderPtr folder = is_store_url(path) ? open_folder(normal_path(path), store)
                                              : LocalFolder::open(absolute_path(path));
  const FileTree tree(folder);
  if (is_distributed(tree, folder->path()) || is_unfinished_distributed(tree, folder->path()))
    return pytorch::why_incomplete(tree, folder->path());
  return orbax::why_incomplete(folder);
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
