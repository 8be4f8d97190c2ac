// maintain.h -- removes leftovers of interrupted saves, compacts databases, measures storage speed,
// and recovers what is left of damaged checkpoints.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/convert.h>
#include <cairn/storage/store_options.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// ---- cleaning ----

// Whether clean_leftovers() only reports, or also removes and restores.
enum class CleanMode : std::uint8_t { kShow, kRemove };
// Options of clean_leftovers().
struct CleanOptions {
  CleanMode mode = CleanMode::kRemove;
  // What to do with a temporary directory that holds files of others, e.g. of a handler of items
  // whose save was killed.
  ForeignFiles foreign = ForeignFiles::kRefuse;
  StoreOptions store = {};  // how to reach the store, if the path is a URL
  // A request to stop ends the call soon, with the error cancelled. Each leftover is then as it
  // was, removed or restored. In a store, one may have lost some of its objects: it is still a
  // leftover.
  std::stop_token cancel = {};
};
// How clean_leftovers() treated a path, or would treat it with kShow.
enum class CleanOutcome : std::uint8_t {
  kRemoved,  // the leftover was removed
  // The leftover was complete and its target was missing: it now has the target's name. With kShow:
  // it would get that name if it verifies.
  kRestored,
  kInUse,  // left alone: a save or a deletion is in progress
  // Left alone: it contains something that does not belong to a checkpoint, or it cannot be
  // removed.
  kRefused,
};
// One leftover.
struct CleanedPath {
  std::string path;                               // path of the leftover
  std::uint64_t bytes = 0;                        // size of its files
  CleanOutcome outcome = CleanOutcome::kRemoved;  // with kShow: the expected outcome
  std::string why;  // reason for kInUse and kRefused; what an upload is
};
// Removes the leftovers of interrupted saves in a directory of checkpoints (including its steps and
// their items) and beside it: temporary directories of Orbax and Cairn, temporary files of Cairn,
// and those that a deletion of an item has left in its checkpoint. Restores the name of everything
// that is committed, verifies and lacks only its name: a checkpoint that was set aside while it was
// being replaced, a temporary directory, or the index of a set of files. Symbolic links are not
// followed. Cairn's saves and deletions in progress are detected, Orbax's are not. Throws not_found
// if neither the directory nor a leftover of it exists.
//
// In a store (`path` is a URL) the leftovers are checkpoints whose save or removal has not ended,
// at the URL or directly below it, and on S3 uploads below it that were begun and not ended. A
// store has no locks: a save that is in progress looks the same, so clean only while nobody saves
// there. A checkpoint that lacks nothing but its marker is refused.
std::vector<CleanedPath> clean_leftovers(const std::string& path, const CleanOptions& options = {});
// The result as JSON text (docs/reference/json.md).
std::string clean_json(const std::vector<CleanedPath>& cleaned);

// ---- compacting ----

// Options of compact_databases().
struct CompactOptions {
  std::optional<std::int64_t> step = {};  // as in OpenOptions
  std::optional<std::string> item = {};   // item to compact; none: all items
  // Also remove data files that no version refers to: leftovers of crashes, or files of a writer
  // that is active.
  bool remove_orphans = false;
  StoreOptions store = {};   // how to reach the store, if the path is a URL
  ProgressFn progress = {};  // bytes of values copied; called about ten times a second
  // A request to stop ends the call soon, with the error cancelled. The database in work is in its
  // old state or in the new one. Those before it are in the new one, and those after it in the old.
  std::stop_token cancel = {};
};
// Result for one OCDBT database.
struct CompactedDatabase {
  std::string path;        // the database's folder, or its URL
  std::uint64_t keys = 0;  // number of keys
  // data files and their bytes
  std::uint64_t files_before = 0, bytes_before = 0, files_after = 0, bytes_after = 0;
};
// Rewrites the OCDBT databases of a checkpoint into few files that hold only the newest version.
// Each database is replaced completely or stays unchanged. Older versions are lost, also for
// readers that have them open. In a store (`path` is a URL), about 64 MiB of values are in memory
// at once; compact only while nobody replaces the checkpoint. Throws not_found for an unknown item,
// failed_precondition if the checkpoint has no OCDBT database, else as cairn::open. An exception of
// `progress` stops the work as `cancel` does, and is thrown.
std::vector<CompactedDatabase> compact_databases(const std::string& path,
                                                 const CompactOptions& options = {});
// The result as JSON text (docs/reference/json.md).
std::string compact_json(const std::vector<CompactedDatabase>& databases);

// ---- measuring ----

// Options of bench_folder().
struct BenchOptions {
  // Bytes of the tree and of the files. The benchmark needs twice as much memory.
  std::uint64_t size = std::uint64_t{1} << 30U;
  // Numbers of threads to compare, each from 1 to 1024: with each of them, Cairn saves and restores
  // the tree and 10,000 tensors of 1 KiB. More threads than cores show how many requests the
  // storage can work on at once.
  std::vector<std::size_t> threads = {};
  ProgressFn progress = {};  // called between the measurements
};
// One measurement.
struct BenchFigure {
  std::string name;
  std::uint64_t bytes = 0;  // bytes moved
  double seconds = 0;       // duration
  std::uint64_t waits = 0;  // how often a thread stopped to wait: for a lock, work or the storage
};
// The measurements with one number of threads.
struct ThreadFigures {
  std::size_t threads = 0;
  std::vector<BenchFigure> figures;
};
// Result of bench_folder().
struct BenchReport {
  std::string folder;            // folder that contains the measured folder
  std::string file_system;       // its type: "ext4"
  std::uint64_t free_bytes = 0;  // free space before the measurement
  std::size_t threads = 0;       // worker threads
  std::uint64_t size = 0;        // bytes of the tree
  // Why saves to this folder use the page cache; "": they bypass it (O_DIRECT).
  std::string why_buffered;
  std::vector<BenchFigure> machine, cairn;  // speed of the machine and of Cairn on it
  std::vector<ThreadFigures> by_threads;    // for each of the options' numbers of threads
};
// Measures the speed of memory and storage, and of Cairn on them. `folder` must not exist: the
// function makes it and removes it, also after an error. Throws already_exists if it exists,
// invalid_argument for a size below 32 MiB or a wrong number of threads, and, before anything is
// written, io if there is not enough space and unavailable if there is not enough memory.
BenchReport bench_folder(const std::string& folder, const BenchOptions& options = {});
// The report as JSON text (docs/reference/json.md).
std::string bench_json(const BenchReport& report);

// ---- repairing ----

// What the result has in place of elements that are lost.
enum class LostElements : std::uint8_t {
  kLeaveOut,  // nothing: an array that lacks elements is left out
  kNan,       // NaN; an array whose type has no NaN is left out
  kZero,
  kCheckpoint,  // the elements of another checkpoint (RecoverOptions::fill_from)
};

// Options of recover().
struct RecoverOptions {
  // How to open the damaged checkpoint, and those of `from` and `fill_from`, for which only
  // `resources`, `store` and `cancel` count. A version is invalid_argument: all versions are tried.
  OpenOptions open = {};
  // Paths of checkpoints of the same run, best first. A leaf of which the damaged checkpoint has no
  // intact copy is taken from the first of them that has one, with its type and shape.
  std::vector<std::string> from = {};
  LostElements lost_elements = LostElements::kLeaveOut;
  std::string fill_from = {};  // path of the checkpoint of kCheckpoint
  ProgressFn progress = {};    // of the check of the damaged checkpoint
};

// What became of one leaf.
struct RecoveredLeaf {
  enum class State : std::uint8_t {
    kWhole,   // all of it is in the result
    kFilled,  // some of its elements are lost, and filled as the options say
    kLost,    // it is not in the result
  };
  std::string name;  // as TensorInfo::full_name()
  State state = State::kLost;
  // The copy that it comes from: "generation 2 of the database", the path of a checkpoint of
  // RecoverOptions::from. "": the checkpoint as it is.
  std::string copy = {};
  // Whether checksums cover all of its bytes and its description. False: they could not be checked.
  bool is_checked = false;
  std::string why = {};  // what is wrong with it in the checkpoint as it is; "" if nothing is
  // The boxes whose elements are lost in every copy. Empty for kWhole, and for a leaf whose shape
  // is unknown.
  std::vector<Box> lost = {};
};

// The report of recover().
struct RecoverReport {
  std::string path;                  // of the checkpoint: of a root of steps, the step
  std::optional<std::int64_t> step;  // its number, if it is a step
  std::vector<RecoveredLeaf> leaves;
  std::vector<std::string> notes;  // what is wrong beside the leaves, and what was rebuilt
  // Whether there may be more leaves, which are lost with their names. Then `notes` says where.
  bool lacks_names = false;

  // The number of leaves in this state.
  [[nodiscard]] std::size_t count(RecoveredLeaf::State state) const {
    std::size_t n = 0;
    for (const RecoveredLeaf& leaf : leaves) n += leaf.state == state ? 1 : 0;
    return n;
  }
};

// What is left of a checkpoint.
struct Recovered {
  std::unique_ptr<Checkpoint> checkpoint;  // lazy: reads from the copies
  RecoverReport report;
  // The kind of format that the damaged checkpoint has; what repair() writes by default.
  TargetFormat format = TargetFormat::kOrbax;
  // Size of the largest file, if it is a set of safetensors files.
  std::optional<std::uint64_t> shard_bytes = {};
  // Items of an Orbax checkpoint that cannot be kept.
  std::vector<std::string> lost_items = {};
};

// Checks every byte of the checkpoint at `path` and collects what is whole, from every copy that
// exists (docs/guides/repair.md): the checkpoint as it is, older generations of its databases, the
// databases of the processes that wrote it, files whose index or directory is damaged, and the
// checkpoints of `from`. A value that a checksum or the structure shows as damaged is never part of
// the result. Reads only. Throws as open() if nothing is there or if the path is not a checkpoint,
// and data_loss, with the reason, if nothing of it can be recovered.
Recovered recover(const std::string& path, const RecoverOptions& options = {});

// Options of repair().
struct RepairOptions {
  RecoverOptions recover = {};
  // Without a format: that of the target's extension, else that of the damaged checkpoint. For a
  // set of safetensors files, max_shard_bytes is by default the size of its largest file.
  ConvertOptions convert = {};
};
// The report of repair().
struct RepairReport {
  RecoverReport recovered;
  ConvertReport written;
};
// Recovers the checkpoint at `path` and writes the result to `target`, a path or a URL, as
// convert() does. The damaged checkpoint stays as it is: a target that overlaps it is
// invalid_argument. Throws as recover() and convert().
RepairReport repair(const std::string& path, const std::string& target,
                    const RepairOptions& options = {});
// As repair(), for what recover() has returned.
ConvertReport write_recovered(const Recovered& recovered, const std::string& target,
                              const ConvertOptions& options = {});
// The report as JSON text (docs/reference/json.md).
std::string repair_json(const RepairReport& report);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
