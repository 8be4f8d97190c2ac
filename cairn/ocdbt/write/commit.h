// commit.h -- from a new tree to a new version: what the next manifest says, and making it the
// current one.
#pragma once

#include <cairn/ocdbt/read/versions.h>
#include <cairn/ocdbt/write/tree_writer.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::ocdbt {

// A database as it was when it was looked at.
struct DatabaseState {
  std::optional<Bytes> manifest_bytes;  // of manifest.ocdbt
  std::optional<DatabaseInfo> info;

  // nullopt: nothing has been committed yet.
  [[nodiscard]] std::optional<RootedVersion> newest() const;
};
DatabaseState read_state(const KvStore& base);

// The manifest behind `old` (nullptr: the first), whose newest version has that root. Versions that
// have no room in it move into version nodes, which are written to `nodes`.
struct NextVersion {
  TreeRoot root;
  // of the clock; the version's own is later than that of the one before
  std::uint64_t commit_time_ns = 0;
};
Manifest next_manifest(const KvStore& base, const Manifest* old, const Config& config,
                       const NextVersion& next, FileSet& files, DataWriter& nodes);
// The same without any of the old versions.
Manifest manifest_without_history(const Manifest& old, const NextVersion& next, FileSet& files);

// Makes the manifest the newest, if the database is still in that state; false: it is not, and
// nothing has changed. All data files it refers to must be durable. `manifest` is of kind single;
// `kind` says which file it becomes.
bool publish(KvStore& base, const DatabaseState& state, const Manifest& manifest,
             ManifestKind kind);

}  // namespace cairn::ocdbt
