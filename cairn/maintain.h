// maintain.h -- cleans up after interrupted saves, compacts databases, measures storage.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

// ---- cleaning ----

enum class CleanMode : std::uint8_t { kShow, kRemove };
enum class CleanOutcome : std::uint8_t {
  kRemoved,
  // it was complete and its target was not there: it has the target's name now (kShow: if it
  // verifies)
  kRestored,
  kInUse,    // a save is under way, so it was left alone
  kRefused,  // left alone: it holds something that is not a checkpoint's, or cannot be removed
};
struct CleanedPath {
  std::string path;
  std::uint64_t bytes = 0;
  CleanOutcome outcome = CleanOutcome::kRemoved;  // with kShow: what would come of it
  std::string why;                                // kInUse, kRefused
};
// Removes what interrupted saves have left in a directory of checkpoints (its steps and their items
// included) and beside it: temporary directories of Orbax and of Cairn, and Cairn's temporary
// files. Puts into place what only lacks its name: a checkpoint that was set aside while it was
// being replaced, a temporary directory, or the index of a set of files, that is committed and
// verifies. Symbolic links are not followed. Saves of Cairn that are under way are noticed; those
// of Orbax are not. not_found if there is neither the directory nor a leftover of it.
std::vector<CleanedPath> clean(const std::string& path, CleanMode mode = CleanMode::kRemove);
std::string clean_json(const std::vector<CleanedPath>& cleaned);

// ---- compacting ----

// Data files that nothing refers to: leftovers of crashes, or of a writer that is at work.
enum class OrphanFiles : std::uint8_t { kKeep, kRemove };
struct CompactedDatabase {
  std::string path;
  std::uint64_t keys = 0;
  std::uint64_t files_before = 0, bytes_before = 0, files_after = 0, bytes_after = 0;
};
// Rewrites the OCDBT databases of a checkpoint (of options.item, or of all items) into few files
// that hold the newest version alone; each appears whole or stays as it was. Older versions are
// gone, also for who has them open.
std::vector<CompactedDatabase> compact(const std::string& path, const OpenOptions& options = {},
                                       OrphanFiles orphans = OrphanFiles::kKeep);
std::string compact_json(const std::vector<CompactedDatabase>& databases);

// ---- measuring ----

struct BenchOptions {
  // bytes of the tree, and of the files beside it; needs twice as much memory
  std::uint64_t size = std::uint64_t{1} << 30U;
  ProgressFn progress;
};
struct BenchFigure {
  std::string name;
  std::uint64_t bytes = 0;
  double seconds = 0;
};
struct BenchReport {
  std::string folder;  // that was measured
  std::string file_system;
  std::uint64_t free_bytes = 0;  // before
  std::size_t threads = 0;
  std::uint64_t size = 0;
  // why saves there go through the page cache; "": they go past it (O_DIRECT)
  std::string why_buffered;
  std::vector<BenchFigure> machine, cairn;
};
// What the storage can do and what Cairn does on it. `folder` must not exist: it is made, and
// removed however this ends. io if there is not enough space, unavailable if there is not enough
// memory, before anything is written.
BenchReport bench(const std::string& folder, const BenchOptions& options = {});
std::string bench_json(const BenchReport& report);

}  // namespace cairn
