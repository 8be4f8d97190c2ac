// layout.cc -- detects the kind of checkpoint in a directory.
#include <cairn/orbax/layout/layout.h>

#include <cairn/base/errors.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/completeness.h>
#include <cairn/orbax/layout/detect.h>
#include <cairn/orbax/layout/records.h>
#include <cairn/orbax/layout/retry.h>
#include <cairn/orbax/layout/unfinished.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace cairn::inline v0::orbax {
namespace {

namespace fs = std::filesystem;

// Orbax's latest_step returns such a step, and its restore returns nothing.
constexpr const char* kEmptyStep = "the folder is empty (Orbax counts it as a step)";
constexpr const char* kNoCheckpoint = "the folder holds no checkpoint";
constexpr std::size_t kMaxListedSteps = 20;  // the maximum number of steps in messages
// How often a directory is looked at that others change meanwhile.
constexpr int kMaxLooks = 6;

// A writer that cannot rename folders writes the first of these files last, and removes it first.
constexpr std::array kMarkers = {kCommitFile, kV1Marker, kCheckpointMetadataFile};
constexpr std::array<std::string_view, 3> kMarkersAbove = {
    "../commit_success.txt", "../orbax.checkpoint", "../_CHECKPOINT_METADATA"};

// Lets the folder notice that its checkpoint is replaced or removed file by file.
void watch_markers(const FolderHandle& folder) {
  folder.watch(kMarkers);
  // If it is an item, the files are in the folder above.
  if (std::ranges::none_of(kMarkers, [&](std::string_view name) {
        return folder.exists(join(folder.path(), name));
      }))
    folder.watch(kMarkersAbove);
}

std::string refuse_text(const std::string& path, const std::string& why) {
  return path + " is not a finished checkpoint: " + why +
         ". Open it anyway with --allow-uncommitted (allow_uncommitted), at your own risk";
}

// A folder of a root whose name is a step name.
struct Step {
  std::int64_t number = 0;
  std::string folder;
};

std::vector<Step> step_folders(const Listing& listing) {
  std::vector<Step> steps;
  for (const auto& name : listing.folders)
    if (const auto number = parse_step(name)) steps.push_back({*number, name});
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.number < b.number; });
  return steps;
}

// Announces the small files that describe a checkpoint and its items: they are read one after
// another, which takes long in a store.
void prefetch_records(const Layout& layout, const std::string& aggregate) {
  if (layout.folder->is_local()) return;
  std::vector<std::string> files = {join(layout.path, kCheckpointMetadataFile)};
  for (const Item& item : layout.items) {
    for (const std::string_view name : {kTreeMetadataFile, kManifestFile, kShardingFile,
                                        kStringsFile, std::string_view(aggregate)})
      files.push_back(join(item.path, name));
    const std::string metadatas = join(item.path, kArrayMetadataFolder);
    files.push_back(join(metadatas, std::string(kArrayMetadataPrefix) + "0"));
  }
  layout.folder->prefetch(files);
}

// What is wrong with a folder that should be a complete checkpoint.
enum class FlawKind : std::uint8_t { kNone, kForeign, kUnfinished, kLacksFiles };
struct Flaw {
  FlawKind kind = FlawKind::kNone;
  std::string why;
};
Flaw flaw_of(const Listing& listing) {
  Layout layout;
  if (!look_at_checkpoint(listing, layout) || layout.kind == LayoutKind::kZarr)
    return {FlawKind::kForeign, is_empty(listing) ? kEmptyStep : kNoCheckpoint};
  prefetch_records(layout, std::string(kAggregateFile));
  if (std::string why = unfinished_part(layout, listing); !why.empty())
    return {FlawKind::kUnfinished, std::move(why)};
  std::string why = find_missing(layout);
  return why.empty() ? Flaw() : Flaw{FlawKind::kLacksFiles, std::move(why)};
}

// As above, for a step of a root.
Flaw flaw_of(const Listing& root, const std::string& name) {
  const std::string path = join(root.path, name);
  const auto opened = try_call([&] { return root.folder->open_below(path); });
  if (!opened && opened.error().code() == Code::kNotFound)
    return {FlawKind::kUnfinished, "it has been removed"};
  if (!opened) throw Error(opened.error());
  return flaw_of(list_directory(opened.value(), path));
}

bool is_complete(const Listing& root, const std::string& name) {
  return flaw_of(root, name).kind == FlawKind::kNone;
}

// Returns a text for messages, for example "complete steps are 1, 2, 3".
std::string steps_text(const Listing& root, const std::vector<Step>& steps) {
  std::vector<std::string> complete;
  for (auto it = steps.rbegin(); it != steps.rend() && complete.size() <= kMaxListedSteps; ++it)
    if (is_complete(root, it->folder)) complete.push_back(std::to_string(it->number));
  if (complete.empty()) return "it has no complete step";
  std::string text = complete.size() > kMaxListedSteps ? "..." : "";
  for (std::size_t i = std::min(complete.size(), kMaxListedSteps); i-- > 0;)
    text += (text.empty() ? "" : ", ") + complete[i];
  return "complete steps are " + text;
}

[[noreturn]] void refuse_two_folders(const Listing& root, const Step& a, const Step& b) {
  throw Error(Code::kInvalidArgument, "step " + std::to_string(a.number) + " of " + root.path +
                                          " is in two folders, '" + a.folder + "' and '" +
                                          b.folder + "': open one of them directly");
}

Step choose_named_step(const Listing& root, const std::vector<Step>& steps, std::int64_t wanted) {
  const Step* chosen = nullptr;
  for (const auto& step : steps) {
    if (step.number != wanted) continue;
    if (chosen != nullptr) refuse_two_folders(root, *chosen, step);
    chosen = &step;
  }
  if (chosen == nullptr)
    throw Error(Code::kNotFound, "step " + std::to_string(wanted) + " is not in " + root.path +
                                     "; " + steps_text(root, steps));
  return *chosen;
}

// The latest complete step. If there is none, the latest that lacks files: opening it says which.
Step choose_latest_step(const Listing& root, const std::vector<Step>& steps, Layout& layout) {
  std::optional<Step> lacking;
  std::size_t later = 0;  // those of passed_over that are later than `lacking`
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
    if (Flaw flaw = flaw_of(root, it->folder); flaw.kind != FlawKind::kNone) {
      if (flaw.kind == FlawKind::kLacksFiles && !lacking) {
        lacking = *it;
        later = layout.passed_over.size();
      }
      layout.passed_over.push_back(
          {it->folder, std::move(flaw.why), flaw.kind == FlawKind::kLacksFiles});
      continue;
    }
    for (auto same = it + 1; same != steps.rend() && same->number == it->number; ++same)
      if (is_complete(root, same->folder)) refuse_two_folders(root, *same, *it);
    return *it;
  }
  if (lacking) {
    layout.passed_over.resize(later);
    return *lacking;
  }
  throw Error(Code::kFailedPrecondition,
              "none of the " + std::to_string(steps.size()) + " steps of " + root.path +
                  " is complete; step " + std::to_string(steps.back().number) + ": " +
                  layout.passed_over.front().why +
                  ". Open one with --step N --allow-uncommitted, at your own risk");
}

// A root contains folders with step names, and at least one of them is a checkpoint.
bool is_root(const Listing& root, const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
    Layout ignored;
    return look_at_checkpoint(list_below(root, step.folder), ignored) &&
           ignored.kind != LayoutKind::kZarr;
  });
}

void require_committed(Layout& layout, const Listing& listing, const OpenOptions& options) {
  layout.uncommitted = unfinished_name(layout.path);
  if (layout.uncommitted.empty()) layout.uncommitted = unfinished_part(layout, listing);
  if (!layout.uncommitted.empty() && !options.allow_uncommitted)
    throw Error(Code::kFailedPrecondition, refuse_text(layout.path, layout.uncommitted));
}

// Completes the layout of a checkpoint that was recognised.
void finish(Layout& layout, const Listing& listing, const OpenOptions& options) {
  prefetch_records(layout, options.aggregate_filename);
  read_records(layout);
  require_committed(layout, listing, options);
  find_lost_parts(layout, options.aggregate_filename);
}

Layout find_step(const Listing& root, const std::vector<Step>& steps, const OpenOptions& options) {
  Layout layout;
  const Step step = options.step ? choose_named_step(root, steps, *options.step)
                                 : choose_latest_step(root, steps, layout);
  const std::string folder = join(root.path, step.folder);
  const FolderPtr opened = root.folder->open_below(folder);
  watch_markers(*opened);
  const Listing listing = list_directory(opened, folder);
  if (!look_at_checkpoint(listing, layout))
    throw Error(Code::kFailedPrecondition,
                "step " + std::to_string(step.number) + " in " + folder +
                    " is not a checkpoint: " + (is_empty(listing) ? kEmptyStep : "it has no item"));
  layout.root = root.path;
  layout.root_folder = root.folder;
  layout.step = step.number;
  layout.step_count = steps.size();
  finish(layout, listing, options);
  return layout;
}

// As find_step. If a step has appeared or disappeared in the meantime, it throws
// Error(kUnavailable) in place of its errors.
Layout find_step_of(const Listing& root, const std::vector<Step>& steps,
                    const OpenOptions& options) {
  try {
    return find_step(root, steps, options);
  } catch (const Error&) {
    const std::vector<Step> now = step_folders(list_directory(root.folder, root.path));
    if (!std::ranges::equal(steps, now, {}, &Step::folder, &Step::folder))
      throw Error(Code::kUnavailable,
                  root.path + ": its steps changed while Cairn read it; open it again");
    throw;
  }
}

// Returns the path without "." and "..", and without a final slash. After a symbolic link, ".." is
// the parent of the link's target, so the system resolves it.
std::string absolute_path(const std::string& path) {
  std::error_code ignored;
  fs::path absolute = fs::absolute(path, ignored);
  if (std::find(absolute.begin(), absolute.end(), "..") != absolute.end())
    absolute = fs::weakly_canonical(absolute, ignored);
  std::string normal = absolute.lexically_normal().string();
  if (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

// As absolute_path; a URL is one already.
std::string full_path(const std::string& path) {
  return is_store_url(path) ? path : absolute_path(path);
}

// Throws failed_precondition if the folder has nothing but empty steps or unfinished checkpoints.
void check_not_only_unfinished(const std::string& path, const Listing& listing) {
  const auto steps = step_folders(listing);
  const bool only_steps = steps.size() == listing.folders.size() && listing.files.empty();
  if (only_steps && !steps.empty() &&
      std::all_of(steps.begin(), steps.end(),
                  [&](const Step& step) { return is_empty(list_below(listing, step.folder)); }))
    throw Error(Code::kFailedPrecondition, path + " has no complete step: step " +
                                               std::to_string(steps.back().number) + ": " +
                                               kEmptyStep);
  std::vector<std::string> unfinished;
  for (const auto& name : listing.folders)
    if (is_temporary(name) || is_partial(name)) unfinished.push_back(name);
  if (!unfinished.empty())
    throw Error(
        Code::kFailedPrecondition,
        path + " has only unfinished checkpoints: '" + unfinished.front() + "'" +
            (unfinished.size() > 1 ? " and " + std::to_string(unfinished.size() - 1) + " more"
                                   : "") +
            ". Open one of them with --allow-uncommitted (allow_uncommitted), at your own risk");
}

[[noreturn]] void fail_unrecognised(const std::string& path) {
  throw Error(
      Code::kInvalidArgument,
      path +
          " is not a checkpoint: looked for _METADATA, manifest.ocdbt, a msgpack file named "
          "'checkpoint', _CHECKPOINT_METADATA, "
          "orbax.checkpoint, folders of steps or items with these, and Zarr arrays "
          "(.zarray, zarr.json)");
}

// Returns the pending folder of a partial save. Throws if there are several, because Cairn cannot
// choose between them.
std::string pending_folder(const Listing& listing) {
  const std::string& path = listing.path;
  std::vector<std::string> pending;
  for (const auto& name : listing.folders)
    if (name.find(kPendingMark) != std::string::npos) pending.push_back(name);
  if (pending.size() == 1) return join(path, pending[0]);
  if (pending.empty()) return "";
  throw Error(Code::kFailedPrecondition,
              path + " holds " + std::to_string(pending.size()) +
                  " partial saves that were not finalized; open one of them: '" + pending.front() +
                  "' ...");
}

// Opens a directory that a user gave.
FolderPtr open_to_look(const std::string& path, const StoreOptions& store) {
  if (is_store_url(path)) return open_checkpoint_folder(path, store);
  if (!file_exists(path)) throw Error(Code::kNotFound, path + " does not exist");
  if (!directory_exists(path)) {
    const std::string kind = kind_at(path);
    if (!file_exists(path)) throw Error(Code::kNotFound, path + " does not exist");
    throw Error(Code::kInvalidArgument,
                path + " is " + kind + "; an Orbax checkpoint is a directory");
  }
  return open_checkpoint_folder(absolute_path(path));
}

// Looks at the directory once. Throws Error(kUnavailable) if it is replaced or removed meanwhile.
// Sets `is_unwritten` if it has no file that is complete.
std::optional<Layout> look_once(const std::string& path, const OpenOptions& options,
                                bool& is_unwritten) {
  const FolderPtr folder = open_to_look(path, options.store);
  std::optional<Layout> layout =
      in_folder(folder.get(), [&] { return try_find_layout(folder, path, options); });
  folder->check_still_in_use();
  if (layout) layout->folder->check_still_in_use();
  is_unwritten = !layout && std::ranges::all_of(
                                folder->list(folder->path()),
                                [](const auto& entry) { return is_temporary_name(entry.first); });
  return layout;
}

}  // namespace

FolderPtr open_checkpoint_folder(const std::string& path, const StoreOptions& store) {
  FolderPtr folder = open_folder(path, store);
  watch_markers(*folder);
  return folder;
}

std::optional<Layout> try_find_layout(const std::string& path, const OpenOptions& options) {
  for (int looks_left = kMaxLooks;; --looks_left) {
    bool is_unwritten = false;
    auto layout = try_call([&] { return look_once(path, options, is_unwritten); });
    // A folder without files may be one that is being made or removed.
    const bool is_changing = layout ? is_unwritten : layout.error().code() == Code::kUnavailable;
    if (!is_changing || looks_left <= 1) {
      if (!layout) throw Error(layout.error());
      return std::move(layout).value();
    }
    wait_before_retry(kMaxLooks - looks_left);
  }
}

std::optional<Layout> try_find_layout(const FolderPtr& directory, const std::string& path,
                                      const OpenOptions& options) {
  const std::string& folder = directory->path();
  const Listing listing = list_directory(directory, folder);
  Layout layout;
  const bool marked = look_at_marked(listing, layout);
  if (const auto steps = step_folders(listing); !marked && is_root(listing, steps))
    return find_step_of(listing, steps, options);
  if (marked || look_at_unmarked(listing, layout)) {
    if (options.step && parse_step(fs::path(folder).filename().string()) != options.step)
      throw Error(Code::kInvalidArgument, "step " + std::to_string(*options.step) +
                                              " was requested, but " + path +
                                              " is one checkpoint, not a root of steps");
    finish(layout, listing, options);
    return layout;
  }
  if (const std::string pending = pending_folder(listing); !pending.empty())
    return try_find_layout(directory->open_below(pending), path, options);
  const std::string& key = options.metadata_key;
  const bool is_array = !key.empty() && listing.folder->exists(join(folder, key));
  if (!is_array && !has_arrays_below(listing, key)) {
    check_not_only_unfinished(path, listing);
    return std::nullopt;
  }
  layout.kind = LayoutKind::kZarr;
  layout.path = folder;
  layout.folder = listing.folder;
  layout.items = {Item{"", folder, ItemKind::kPytree, "", listing.folder}};
  // The remains of an interrupted save into folders look like arrays without metadata.
  require_committed(layout, listing, options);
  return layout;
}

Layout find_layout(const std::string& path, const OpenOptions& options) {
  std::optional<Layout> layout = try_find_layout(path, options);
  if (layout) return *std::move(layout);
  fail_unrecognised(path);
}

std::string why_incomplete(const FolderPtr& folder) {
  const Listing listing = list_directory(folder, folder->path());
  std::string why = flaw_of(listing).why;
  return why == kNoCheckpoint && has_other_items(listing) ? "" : why;
}

std::string why_unfinished(const FolderPtr& folder) {
  return unfinished_content(list_directory(folder, folder->path()));
}

bool has_checkpoint_markers(const std::string& path, const StoreOptions& store) {
  Layout ignored;
  return look_at_marked(list_directory(full_path(path), store), ignored);
}

std::string root_metadata_file(const FolderHandle& root) {
  for (const std::string_view name : {kRootMetadataFile, kLegacyRootMetadataFile}) {
    std::string file = join(join(root.path(), kRootMetadataFolder), name);
    if (root.exists(file) && !root.is_folder(file)) return file;
  }
  return "";
}

std::vector<std::string> list_steps(const std::string& path, const StoreOptions& store) {
  const std::string folder = full_path(path);
  const Listing listing = list_directory(folder, store);
  const auto steps = step_folders(listing);
  Layout ignored;
  std::vector<std::string> folders;
  if (look_at_marked(listing, ignored) || !is_root(listing, steps)) return folders;
  for (const auto& step : steps) folders.push_back(join(folder, step.folder));
  return folders;
}

}  // namespace cairn::inline v0::orbax
