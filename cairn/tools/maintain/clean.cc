// clean.cc -- removes what crashes have left beside and inside a folder of checkpoints.
#include <cairn/base/text.h>
#include <cairn/inspect.h>
#include <cairn/io/temporary_name.h>
#include <cairn/maintain.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/json/json.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/formats/safetensors/unfinished_set.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/save_lock.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/commit/in_place.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/completeness.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/tools/maintain/clean_store.h>
#include <cairn/tools/report/json_text.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

namespace cairn::inline v0 {
namespace {

namespace fs = std::filesystem;

bool is_leftover(std::string_view name) {
  return name.find(orbax::kTemporaryMark) != std::string_view::npos;
}

bool is_temporary_file(std::string_view name) {
  return is_temporary_name(name) || final_name_of_interim(name).has_value();
}

std::uint64_t bytes_below(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return fs::file_size(path, error);
  std::uint64_t bytes = 0;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error))
    if (std::error_code ignored; at->is_regular_file(ignored)) bytes += at->file_size(ignored);
  return bytes;
}

// Whether a deletion of an item has left the file, which it was writing, in its checkpoint.
bool is_of_deletion(const Directory& folder, const std::string& name, EntryKind kind) {
  return kind == EntryKind::kFile && name.starts_with(orbax::kDeletionTemporaryPrefix) &&
         folder.kind(std::string(orbax::kCheckpointMetadataFile)) == EntryKind::kFile;
}

// A leftover of a save or deletion, and its location.
struct Leftover {
  Directory parent;
  std::string name;
  EntryKind kind;

  // Whether it lies at its final path.
  [[nodiscard]] bool is_in_place() const {
    return kind == EntryKind::kDirectory && !is_leftover(name);
  }
  // Whether it is a data file of a set of safetensors files with an interim name.
  [[nodiscard]] bool is_interim() const {
    return kind == EntryKind::kFile && final_name_of_interim(name).has_value();
  }
  // The name that it was meant to get.
  [[nodiscard]] std::string target() const {
    if (is_interim()) return save_lock_path(name);  // the index of its set
    if (kind != EntryKind::kDirectory) return std::string(temporary_target(name));
    return name.substr(0, name.find(orbax::kTemporaryMark));
  }
};

// Whether a save in place has begun this checkpoint, and did not end. An empty folder may be
// anybody's.
bool is_begun_in_place(const Directory& folder, const std::string& name) {
  return file_exists(orbax::join(folder.path_of(name), orbax::kCheckpointMetadataFile)) &&
         orbax::is_unfinished_in_place(folder, name);
}

// Finds leftovers in `folder` and in its subfolders down to `depth`: steps contain items.
void find_inside(const Directory& folder, int depth, std::vector<Leftover>& found) {
  throw_if_cancelled();
  for (const DirectoryEntry& entry : folder.list()) {
    const bool is_folder = entry.kind == EntryKind::kDirectory;
    if (is_folder ? is_leftover(entry.name) || is_begun_in_place(folder, entry.name)
                  : (entry.kind == EntryKind::kFile && is_temporary_file(entry.name)) ||
                        is_of_deletion(folder, entry.name, entry.kind))
      found.push_back({folder, entry.name, entry.kind});
    else if (is_folder && depth > 0)
      find_inside(folder.child(entry.name), depth - 1, found);
  }
}

// Finds leftovers of the checkpoint that has, or was to get, `name` in that folder.
void find_beside(const Directory& folder, const std::string& name, std::vector<Leftover>& found) {
  const std::string lock = save_lock_path(name);
  for (const DirectoryEntry& entry : folder.list()) {
    if (entry.kind != EntryKind::kDirectory && entry.kind != EntryKind::kFile) continue;
    if (entry.kind == EntryKind::kFile && !is_temporary_file(entry.name)) continue;
    if (entry.kind == EntryKind::kDirectory && !is_leftover(entry.name) &&
        (entry.name != name || !is_begun_in_place(folder, name)))
      continue;
    Leftover leftover{folder, entry.name, entry.kind};
    const std::string target = leftover.target();
    // A TensorFlow prefix is not the name of a file.
    if (target == name || entry.name == name || save_lock_path(target) == lock ||
        save_lock_path(target) == name + ".index")
      found.push_back(std::move(leftover));
  }
}

// Whether the temporary directory is complete and only lacks its final name: its save had reached
// the last step, and no crash of the machine has lost any data. Throws cancelled after a request to
// stop: a verification that was stopped does not make it less whole.
bool is_whole(const std::string& path) {
  if (!file_exists(orbax::join(path, orbax::kCommitFile))) return false;
  const auto metadata = try_call([&] {
    return orbax::read_checkpoint_metadata(orbax::join(path, orbax::kCheckpointMetadataFile));
  });
  if (!metadata || !metadata.value().commit_time_ns) return false;
  // Before the merge, the databases of the processes hold the values, and verify() reads them.
  const auto missing = try_call(
      [&] { return orbax::find_missing(orbax::find_layout(path, {.allow_uncommitted = true})); });
  if (!missing || !missing.value().empty()) return false;
  const auto report = try_call([&] { return verify(path, {.open = {.allow_uncommitted = true}}); });
  if (report && !report.value().damaged()) return true;
  throw_if_cancelled();
  return false;
}

class Cleaner {
 public:
  Cleaner(CleanMode mode, ForeignFiles foreign) : mode_(mode), foreign_(foreign) {}

  CleanedPath run(const Leftover& leftover) {
    CleanedPath done;
    done.path = leftover.parent.path_of(leftover.name);
    done.bytes = bytes_below(done.path);
    try {
      if (is_of_deletion(leftover.parent, leftover.name, leftover.kind)) {
        remove_unless_written(done.path);
        return done;
      }
      // While this lock is held, no save to the target can begin.
      const std::string target = leftover.parent.path_of(leftover.target());
      const bool is_lock = leftover.name == SaveLock::file_for(leftover.target());
      // A directory has its own lock, regardless of the lock of a file with that name.
      const std::string locked =
          leftover.kind == EntryKind::kDirectory ? target : save_lock_path(target);
      std::optional<SaveLock> lock;
      if (mode_ == CleanMode::kRemove && !is_lock) lock.emplace(locked);
      if (mode_ == CleanMode::kShow && SaveLock::is_held(locked))
        throw Error(Code::kUnavailable, target + ": a save to this path is in progress");
      if (leftover.kind == EntryKind::kDirectory)
        clean_directory(leftover, done);
      else if (leftover.is_interim())
        clean_interim(leftover, done);
      else if (!is_lock && is_set_index(target))
        clean_index(leftover, done);
      else
        remove_unless_written(done.path);
    } catch (const Error& e) {
      throw_if_cancelled();
      done.outcome = e.code() == Code::kUnavailable ? CleanOutcome::kInUse : CleanOutcome::kRefused;
      done.why = e.message();
    }
    return done;
  }

 private:
  // Whoever writes a temporary file holds a lock on it.
  void remove_unless_written(const std::string& file) const {
    if (mode_ == CleanMode::kShow ? is_locked(file) : !remove_unless_locked(file))
      throw Error(Code::kUnavailable, file + ": is being written");
  }

  void clean_in_place(const Leftover& leftover) const {
    // The save may have ended before the lock was taken.
    if (!is_begun_in_place(leftover.parent, leftover.name))
      throw Error(Code::kUnavailable,
                  leftover.parent.path_of(leftover.name) + ": its save has ended meanwhile");
    check_only_checkpoint(leftover.parent.child(leftover.name), orbax::DirectoryRole::kTemporary,
                          foreign_);
    if (mode_ == CleanMode::kRemove) orbax::remove_in_place(leftover.parent, leftover.name);
  }

  void clean_directory(const Leftover& leftover, CleanedPath& done) const {
    if (leftover.is_in_place()) return clean_in_place(leftover);
    const std::string target = leftover.target();
    check_only_checkpoint(leftover.parent.child(leftover.name), orbax::DirectoryRole::kTemporary,
                          foreign_);
    const bool replaced = leftover.name == target + std::string(orbax::kSetAsideMark);
    const bool unwanted = leftover.name == target + std::string(orbax::kRemovedMark);
    if (leftover.parent.kind(target) == EntryKind::kAbsent && !unwanted &&
        (replaced || is_whole(done.path))) {
      done.outcome = CleanOutcome::kRestored;
      if (mode_ == CleanMode::kShow) return;
      leftover.parent.rename(leftover.name, target);
      leftover.parent.sync();
    } else if (mode_ == CleanMode::kRemove) {
      leftover.parent.remove(leftover.name);
    }
  }

  // Handles a data file that has an interim name. If the index names it, all of the set gets its
  // final names.
  void clean_interim(const Leftover& leftover, CleanedPath& done) const {
    const std::string index = leftover.parent.path_of(leftover.target());
    if (is_unfinished_set(index)) {
      done.outcome = CleanOutcome::kRestored;
      if (mode_ == CleanMode::kRemove) finish_set(index);
      return;
    }
    const auto named = file_exists(index) ? safetensors_index_files(FileTree(), index)
                                          : std::vector<std::string>();
    if (std::ranges::find(named, leftover.name) != named.end())
      throw Error(Code::kFailedPrecondition,
                  index + ": names this file, but another file that it names is missing");
    remove_unless_written(done.path);
  }

  // Handles the index of a set whose data files may all be in place.
  void clean_index(const Leftover& leftover, CleanedPath& done) const {
    const std::string target = leftover.target();
    const auto whole = [&] {
      const auto report = try_call([&] { return verify(leftover.parent.path_of(target)); });
      return report && !report.value().damaged();
    };
    if (leftover.parent.kind(target) == EntryKind::kAbsent) {
      done.outcome = CleanOutcome::kRestored;
      if (mode_ == CleanMode::kShow) return;
      leftover.parent.rename(leftover.name, target);
      if (whole()) return leftover.parent.sync();
      leftover.parent.rename(target, leftover.name);
      throw_if_cancelled();  // a verification that was stopped proves nothing
      done.outcome = CleanOutcome::kRemoved;
    }
    remove_unless_written(done.path);
  }

  CleanMode mode_;
  ForeignFiles foreign_;
};

// Finds what clean_leftovers() treats, in the order in which it does. Throws not_found if there is
// neither a folder nor a leftover.
std::vector<Leftover> find_leftovers(const std::string& path) {
  constexpr int kDepth = 2;  // the steps of a root, and their items
  const std::string full = absolute_path(path);
  const std::string parent = parent_of(full), name(name_of(full));
  std::vector<Leftover> found;
  if (!name.empty() && directory_exists(parent)) find_beside(Directory::open(parent), name, found);
  if (directory_exists(full) && !is_leftover(name))
    find_inside(Directory::open(full), kDepth, found);
  else if (found.empty() && !file_exists(full) && !file_exists(save_lock_path(full)) &&
           !file_exists(full + ".index"))
    throw Error(Code::kNotFound,
                path + ": no such folder, and no leftover of a checkpoint of that name");
  // Removes lock files last: each lock is taken while the other leftovers are checked.
  (void)std::stable_partition(found.begin(), found.end(), [](const Leftover& l) {
    return l.name != SaveLock::file_for(l.target());
  });
  return found;
}

}  // namespace

std::vector<CleanedPath> clean_leftovers(const std::string& path, const CleanOptions& options) {
  if (is_store_url(path)) return clean_store(path, options);
  const std::vector<Leftover> found =
      stoppable_by(options.cancel, [&] { return find_leftovers(path); });
  // From here on a request counts only while there is something left to do.
  const CancellationScope scope{Cancellation(options.cancel)};
  Cleaner cleaner(options.mode, options.foreign);
  std::vector<CleanedPath> cleaned;
  for (const Leftover& leftover : found) {
    throw_if_cancelled();
    if (leftover.parent.kind(leftover.name) != EntryKind::kAbsent)
      cleaned.push_back(cleaner.run(leftover));
  }
  return cleaned;
}

std::string clean_json(const std::vector<CleanedPath>& cleaned) {
  static constexpr std::array<std::string_view, 4> kOutcomes = {"removed", "restored", "in use",
                                                                "refused"};
  JsonArray list;
  for (const auto& c : cleaned)
    list.push_back(
        JsonObject{{"path", text_json(c.path)},
                   {"bytes", c.bytes},
                   {"restored", c.outcome == CleanOutcome::kRestored},
                   {"outcome", std::string(kOutcomes[static_cast<std::size_t>(c.outcome)])},
                   {"why", text_json(c.why)}});
  return to_text(Json(std::move(list)), JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
