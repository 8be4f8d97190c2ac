// layout.cc -- detects the kind of checkpoint in a directory.
#include <cairn/orbax/layout/layout.h>

#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/completeness.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/layout/records.h>
#include <cairn/orbax/layout/retry.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

namespace cairn::inline v0::orbax {
namespace {

namespace fs = std::filesystem;

// Orbax's latest_step returns such a step, and its restore returns nothing.
constexpr const char* kEmptyStep = "the folder is empty (Orbax counts it as a step)";
constexpr const char* kNoCheckpoint = "the folder holds no checkpoint";
constexpr std::size_t kMaxListedSteps = 20;  // the maximum number of steps in messages
// The maximum number of folders that a search for arrays visits in a directory without metadata.
constexpr std::size_t kMaxFoldersLookedAt = 2000;

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

bool is_temporary(std::string_view name) {
  return name.find(kTemporaryMark) != std::string_view::npos;
}

bool is_partial(std::string_view name) {
  return name.ends_with(kPartialMark) || name.find(kPendingMark) != std::string_view::npos;
}

bool is_empty(const Listing& listing) { return listing.files.empty() && listing.folders.empty(); }

bool has_array_metadata(const Listing& listing) {
  return listing.has_file(".zarray") || listing.has_file("zarr.json");
}

// The aggregate file is a msgpack map. TensorFlow keeps a text file of the same name, which starts
// with a letter. Any other content is treated as a damaged map: ignoring the file would silently
// lose the values in it.
bool has_aggregate(const Listing& listing) {
  if (!listing.has_file(kAggregateFile)) return false;
  const auto first = try_call([&] {
    std::byte byte{};
    listing.folder->open_file(join(listing.path, kAggregateFile))
        .read_into(0, MutableByteView(&byte, 1));
    return std::to_integer<char>(byte);
  });
  return !first || first.value() < 'a' || first.value() > 'z';
}

Listing list_below(const Listing& listing, std::string_view name) {
  return list_directory(listing.folder, join(listing.path, name));
}

// Returns true if the directory has the database of a process.
bool has_process_database(const Listing& listing) {
  const auto is_database = [&](const std::string& name) {
    if (!name.starts_with(kProcessPrefix)) return false;
    const auto listed = try_call([&] { return list_below(listing, name); });
    if (!listed) return true;
    const auto& [path, files, folders, handle] = listed.value();
    return std::ranges::all_of(files, [](const auto& n) { return is_database_entry(n, false); }) &&
           std::ranges::all_of(folders, [](const auto& n) { return is_database_entry(n, true); });
  };
  return std::any_of(listing.folders.begin(), listing.folders.end(), is_database);
}

// Returns true if the folder contains a file that marks it as a pytree.
bool is_marked_item(const Listing& listing) {
  return listing.has_file(kTreeMetadataFile) || listing.has_file(kManifestFile) ||
         has_aggregate(listing) || has_process_database(listing);
}

bool is_marked_checkpoint(const Listing& listing) {
  return listing.has_file(kCheckpointMetadataFile) || listing.has_file(kV1Marker);
}

// Searches the folders below for arrays, breadth first. Parameter names may contain '/', so arrays
// can lie in deeper folders. Each folder is listed once, even if several symbolic links lead to it.
bool has_arrays_below(const Listing& listing, const std::string& metadata_key = "") {
  if (listing.folder == nullptr) return false;
  std::vector<std::string> queue;
  std::set<FileIdentity> seen;
  const auto add = [&](const Listing& above) {
    for (const auto& name : above.folders) queue.push_back(join(above.path, name));
  };
  add(listing);
  for (std::size_t i = 0; i < queue.size() && i < kMaxFoldersLookedAt; ++i) {
    const auto identity = listing.folder->identity(queue[i]);
    if (!identity || !seen.insert(*identity).second) continue;
    const Listing below = list_directory(listing.folder, queue[i]);
    if (has_array_metadata(below) ||
        (!metadata_key.empty() && listing.folder->exists(join(below.path, metadata_key))))
      return true;
    if (queue.size() < kMaxFoldersLookedAt) add(below);
  }
  return false;
}

std::string without_temporary_mark(std::string_view name) {
  return std::string(name.substr(0, name.find(kTemporaryMark)));
}

// A random key item stores its array one folder level deeper.
std::optional<Item> random_key_item(const Item& item, const Listing& listing) {
  for (const auto& [folder, note] : {std::pair{kJaxRandomKeyFolder, "JAX random key"},
                                     std::pair{kNumpyRandomKeyFolder, "NumPy random state"}})
    for (const auto& name : listing.folders)
      if (without_temporary_mark(name) == folder)
        return Item{item.name, join(item.path, name), ItemKind::kPytree, note, listing.folder};
  return std::nullopt;
}

bool holds_only_folders(const Listing& listing) {
  return std::all_of(listing.files.begin(), listing.files.end(),
                     [](const auto& name) { return name == kCommitFile; });
}

Item look_at_item(const Listing& above, const std::string& name) {
  Item item{without_temporary_mark(name), join(above.path, name), ItemKind::kOther, "",
            above.folder};
  const auto listed = try_call([&] { return list_below(above, name); });
  if (!listed) {
    // This may be a pytree. Opening the item reports why the folder cannot be listed, and the other
    // items can still be opened.
    item.kind = ItemKind::kPytree;
    return item;
  }
  const Listing& listing = listed.value();
  if (is_marked_item(listing)) {
    item.kind = ItemKind::kPytree;
  } else if (auto key = random_key_item(item, listing)) {
    return *std::move(key);
  } else if (holds_only_folders(listing) && has_arrays_below(listing)) {
    // The item has only parameter folders: it is of the oldest kind, or its metadata is missing.
    item.kind = ItemKind::kPytree;
  }
  return item;
}

std::vector<Item> look_at_items(const Listing& listing) {
  std::vector<Item> items;
  for (const auto& name : listing.folders) items.push_back(look_at_item(listing, name));
  return items;
}

bool is_pytree(const Item& item) { return item.kind == ItemKind::kPytree; }

// Returns why the directory at `path` is unfinished, judging by its name; "" if it is finished.
std::string unfinished_name(const fs::path& path) {
  for (const auto& part : path) {
    const std::string name = part.string();
    if (is_temporary(name))
      return "its name has the mark of a temporary directory, '" + std::string(kTemporaryMark) +
             "'";
    if (is_partial(name)) return "it is a partial save that was not finalized";
  }
  return "";
}

// A save to a store writes to the final names, and its marker last. On gs:// Orbax asks for the
// marker. Elsewhere a checkpoint may have been uploaded from a folder in which an older version of
// Orbax wrote none; then it has a commit time, or no record of a save.
std::string unfinished_in_store(const Listing& listing) {
  if (listing.folder == nullptr || listing.folder->is_local()) return "";
  const std::string no_marker = "there is no " + std::string(kCommitFile);
  const bool is_recorded = listing.has_file(kCheckpointMetadataFile);
  if (listing.path.starts_with("gs://") && (is_recorded || listing.has_file(kTreeMetadataFile)))
    return no_marker + ", which a save to gs:// writes last";
  if (!is_recorded || listing.has_file(kV1Marker)) return "";
  const auto metadata = try_call([&] {
    return read_checkpoint_metadata(*listing.folder, join(listing.path, kCheckpointMetadataFile));
  });
  const bool is_started =
      metadata && metadata.value().init_time_ns && !metadata.value().commit_time_ns;
  return is_started ? no_marker + ", and " + std::string(kCheckpointMetadataFile) +
                          " has no commit time: its save has not ended"
                    : "";
}

// Orbax judges a directory by its name only. It records the start time first, the handlers after
// the data, and the commit time last. So a start time alone means that the data is incomplete. A
// commit time that is merely absent does not: Orbax lists it among the metadata that may be absent.
std::string unfinished_content(const Listing& listing) {
  if (listing.has_file(kCommitFile)) return "";
  if (std::string why = unfinished_in_store(listing); !why.empty()) return why;
  if (listing.has_file(kCheckpointMetadataFile) && !listing.has_file(kV1Marker)) {
    const auto metadata = try_call([&] {
      return read_checkpoint_metadata(*listing.folder, join(listing.path, kCheckpointMetadataFile));
    });
    if (metadata && is_unfinished(metadata.value()))
      return "its save was started but never committed: no " + std::string(kCommitFile) + ", and " +
             std::string(kCheckpointMetadataFile) + " has no commit time and no handlers";
  }
  if (!listing.has_file(kManifestFile) && has_process_database(listing))
    return "the databases of its processes were not merged: there is no " +
           std::string(kManifestFile);
  return "";
}

// Fills `layout` if files in the directory mark it as a checkpoint; otherwise returns false.
bool look_at_marked(const Listing& listing, Layout& layout) {
  const std::string& path = listing.path;
  layout.path = path;
  layout.folder = listing.folder;
  layout.v1 = listing.has_file(kV1Marker);
  if (is_marked_item(listing)) {
    layout.kind = LayoutKind::kDirect;
    layout.items = {Item{"", path, ItemKind::kPytree, "", listing.folder}};
    return true;
  }
  if (has_array_metadata(listing)) {
    layout.kind = LayoutKind::kZarr;
    layout.items = {Item{"", path, ItemKind::kPytree, "", listing.folder}};
    return true;
  }
  if (!is_marked_checkpoint(listing)) return false;
  layout.kind = LayoutKind::kComposite;
  layout.items = look_at_items(listing);
  if (std::any_of(layout.items.begin(), layout.items.end(), is_pytree)) return true;
  const bool parameters =
      std::any_of(listing.folders.begin(), listing.folders.end(),
                  [&](const auto& name) { return has_array_metadata(list_below(listing, name)); });
  if (parameters) {
    layout.kind = LayoutKind::kDirect;  // the oldest kind: only parameter folders
    layout.items = {Item{"", path, ItemKind::kPytree, "", listing.folder}};
  }
  return true;
}

// A composite checkpoint that is older than _CHECKPOINT_METADATA: only its items have marker files.
// Unfinished items count only in a folder that is itself unfinished; elsewhere they are separate
// checkpoints.
bool look_at_unmarked(const Listing& listing, Layout& layout) {
  const bool temporary = is_temporary(fs::path(listing.path).filename().string());
  const auto marked = [&](const std::string& name) {
    if (is_temporary(name) && !temporary) return false;
    const Listing below = list_below(listing, name);
    return is_marked_item(below) && (temporary || unfinished_content(below).empty());
  };
  if (std::none_of(listing.folders.begin(), listing.folders.end(), marked)) return false;
  layout.path = listing.path;
  layout.folder = listing.folder;
  layout.kind = LayoutKind::kComposite;
  layout.is_marked = false;
  layout.items = look_at_items(listing);
  return true;
}

// Whether a folder holds items that are not trees, in a checkpoint that is older than
// _CHECKPOINT_METADATA.
bool has_other_items(const Listing& listing) {
  return std::ranges::any_of(listing.folders, [&](const std::string& name) {
    const auto listed = try_call([&] { return list_below(listing, name); });
    if (!listed) return false;
    const auto& [path, files, folders, handle] = listed.value();
    const auto is_content = [&](const std::string& file) {
      return is_json_file(file, name) || file == kProtoItemFile;
    };
    return std::ranges::any_of(files, is_content) ||
           random_key_item({.name = name, .path = path}, listed.value());
  });
}

// Fills `layout` if `path` is a checkpoint (not a root); otherwise returns false.
bool look_at_checkpoint(const Listing& listing, Layout& layout) {
  return look_at_marked(listing, layout) || look_at_unmarked(listing, layout);
}

// As unfinished_content, also for the items of the checkpoint `layout`.
std::string unfinished_part(const Layout& layout, const Listing& listing) {
  std::string why = unfinished_content(listing);
  for (const auto& item : layout.items) {
    if (!why.empty()) break;
    if (is_temporary(fs::path(item.path).filename().string()))
      why = "its item '" + item.name + "' has the mark of a temporary directory";
    else if (const auto listed =
                 try_call([&] { return list_directory(listing.folder, item.path); });
             listed && is_pytree(item) && !listing.has_file(kCommitFile)) {
      why = unfinished_content(listed.value());
      if (!why.empty() && !item.name.empty()) why.insert(0, item.path + ": ");
    }
  }
  return why;
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
  layout.uncommitted = unfinished_name(fs::path(layout.path));
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

// As find_step. If a step has appeared or disappeared in the meantime, it throws Error(kUnavailable)
// in place of its errors.
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

bool is_item_file(std::string_view name) {
  for (const auto known : {kTreeMetadataFile, kCheckpointMetadataFile, kShardingFile, kStringsFile,
                           kAggregateFile, kCommitFile, kV1Marker, kDeletionFile})
    if (name == known) return true;
  return false;
}

bool is_database_entry(std::string_view name, bool is_folder) {
  if (is_folder)
    return name.starts_with(kProcessPrefix) ||
           std::find(kDataFolders.begin(), kDataFolders.end(), name) != kDataFolders.end();
  return name.starts_with("manifest.") || is_temporary_name(name) || name.ends_with(".__lock");
}

bool Listing::has_file(std::string_view name) const {
  return std::binary_search(files.begin(), files.end(), name);
}
bool Listing::has_folder(std::string_view name) const {
  return std::binary_search(folders.begin(), folders.end(), name);
}

Listing list_directory(const std::string& path, const StoreOptions& store) {
  auto folder = try_call([&] { return open_folder(path, store); });
  if (folder) return list_directory(std::move(folder).value(), path);
  if (folder.error().code() != Code::kNotFound) throw Error(folder.error());
  return {path, {}, {}};
}

Listing list_directory(const FolderPtr& folder, const std::string& path) {
  Listing listing{path, {}, {}, folder};
  for (auto& [name, is_folder] : folder->list(path))
    (is_folder ? listing.folders : listing.files).push_back(std::move(name));
  std::sort(listing.files.begin(), listing.files.end());
  std::sort(listing.folders.begin(), listing.folders.end());
  return listing;
}

std::string join(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.ends_with('/')) path += '/';
  return path += name;
}

const char* flaw_of_folder_name(std::string_view name) {
  if (name == "/") return "is a slash, so Orbax cannot restore it from a folder of its own";
  constexpr std::string_view kTaken[] = {kTreeMetadataFile, kShardingFile,
                                         kStringsFile,      kArrayMetadataFolder,
                                         kCommitFile,       kCheckpointMetadataFile};
  const std::string_view folder = name.substr(0, name.find('/'));
  if (std::find(std::begin(kTaken), std::end(kTaken), folder) != std::end(kTaken))
    return "begins with the name of a file that Orbax keeps beside the folders of the arrays";
  if (folder.starts_with(kProcessPrefix))
    return "begins as the folder of a process's database, which a save would merge and remove";
  // TensorStore's file paths take a backslash as a slash, so Orbax would look elsewhere.
  return name.find('\\') == std::string_view::npos
             ? nullptr
             : "has a backslash, so Orbax cannot restore it from a folder of its own";
}

std::optional<std::int64_t> parse_step(std::string_view name) {
  const std::size_t last_other = name.find_last_not_of("0123456789");
  const std::string_view digits =
      last_other == std::string_view::npos ? name : name.substr(last_other + 1);
  if (digits.empty() ||
      (last_other != std::string_view::npos && (name[last_other] != '_' || last_other == 0)))
    return std::nullopt;
  if (is_temporary(name) || is_partial(name)) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return status == std::errc() && end == digits.data() + digits.size() ? std::optional(step)
                                                                       : std::nullopt;
}

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
