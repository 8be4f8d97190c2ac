// compact.h -- rewrites a database into the smallest number of files.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/ocdbt/write/writer.h>

#include <cstdint>

namespace cairn::inline v0::ocdbt {

// The treatment of data files that no version refers to. A crash leaves such files, and a running
// writer has them before it commits: the two cases look the same.
enum class Orphans : std::uint8_t { kKeep, kRemove };

// Options of compact().
struct CompactOptions {
  Orphans orphans = Orphans::kKeep;  // use kRemove only if no other process writes to the database
  WriterOptions writer{};            // its configuration is ignored: the database keeps its own
  // Counts the bytes of copied values: in the end as many as expected_copy() has returned, unless
  // others have committed meanwhile. The caller sets the total. Null: nothing is counted.
  Progress* progress = nullptr;
};

// The result of compact().
struct Compacted {
  CommittedVersion version;
  // files and bytes of the database; the removed orphans are included
  std::uint64_t files_before = 0, bytes_before = 0;
  std::uint64_t files_after = 0, bytes_after = 0;
};

// Copies all values of the newest version into new data files, builds a new tree, and replaces the
// manifest. The new version has the next generation number and is the only version. Then removes
// the files that only older versions or the old copies of values needed. This includes the
// databases that it was merged from, if it holds all their keys. A crash at any moment leaves the
// old state or the new one, and perhaps orphans. Concurrent commits of other processes are not
// lost. However, a process that reads an older version, or has the old manifest in memory, loses
// the files it refers to. Throws data_loss for a damaged database. An error or a cancellation
// before the manifest is replaced leaves the old state, and removes the new files if the store
// answers within ten seconds. While the manifest is replaced, it leaves the old state or the new
// one and the files of both; after that, the new state and perhaps old files.
Compacted compact(const StorePtr& base, const CompactOptions& options);

// The bytes of values that compact() would copy, as the manifest states them; 0 if it cannot be
// read.
std::uint64_t expected_copy(const KvStore& base);

}  // namespace cairn::inline v0::ocdbt
