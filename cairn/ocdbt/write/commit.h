// commit.h -- turns a new tree into a new version: makes the next manifest and publishes it.
#pragma once

#include <cairn/ocdbt/read/versions.h>
#include <cairn/ocdbt/write/tree_writer.h>

#include <optional>
#include <vector>

namespace cairn::inline v0::ocdbt {

// The state of a database at the time it was read.
struct DatabaseState {
  std::optional<Bytes> manifest_bytes;  // content of manifest.ocdbt
  std::optional<DatabaseInfo> info;

  // Returns the newest version; nullopt if nothing has been committed yet.
  [[nodiscard]] std::optional<RootedVersion> newest() const;
};
// Reads the current state. Throws data_loss for a damaged manifest.
DatabaseState read_state(const KvStore& base);

// The root and the time of a new version.
struct NextVersion {
  TreeRoot root;
  // by the clock; the version's time is later than that of the previous version
  std::uint64_t commit_time_ns = 0;
};
// Returns the manifest that follows `old` (null: the first one) and whose newest version is `next`.
// Versions that do not fit into it move into version nodes, which are written to `nodes`.
Manifest next_manifest(const KvStore& base, const Manifest* old, const Config& config,
                       const NextVersion& next, FileSet& files, DataWriter& nodes);
// Returns a manifest with `next` as its only version.
Manifest manifest_without_history(const Manifest& old, const NextVersion& next, FileSet& files);

// Makes the manifest the newest one if the database is still in `state`. Returns false if it is
// not; then nothing has changed. All data files that the manifest refers to must be durable.
// `manifest` has kind single; `kind` decides which file it is written to.
bool publish(KvStore& base, const DatabaseState& state, const Manifest& manifest,
             ManifestKind kind);

}  // namespace cairn::inline v0::ocdbt
