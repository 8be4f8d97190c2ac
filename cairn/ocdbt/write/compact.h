// compact.h -- rewriting a database into as few files as it needs.
#pragma once

#include <cairn/ocdbt/write/writer.h>

#include <cstdint>

namespace cairn::ocdbt {

// Data files that no version refers to. They are what crashes leave behind, or what a writer at
// work has not yet committed: the two look alike.
enum class Orphans : std::uint8_t { kKeep, kRemove };

struct CompactOptions {
  Orphans orphans = Orphans::kKeep;  // kRemove only if no other process is writing to the database
  WriterOptions writer{};            // its configuration does not count: the database's stays
};

struct Compacted {
  CommittedVersion version;
  // of the database, orphans that were removed included
  std::uint64_t files_before = 0, bytes_before = 0;
  std::uint64_t files_after = 0, bytes_after = 0;
};

// Copies all values of the newest version into new data files, builds a new tree, and replaces the
// manifest: the new version is the next generation and the only one. Then removes the files that
// only older versions, or the values' old places, needed, and with them the databases it was merged
// from, if it holds all their keys. Killed at any moment, it leaves the old state or the new one,
// and perhaps orphans. What others commit meanwhile is not lost; but who still reads an older
// version, or has the old manifest in memory, loses the files below it. Refuses a damaged database
// with data_loss.
Compacted compact(const StorePtr& base, const CompactOptions& options);

}  // namespace cairn::ocdbt
