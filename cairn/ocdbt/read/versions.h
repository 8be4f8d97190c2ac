// versions.h -- finds the manifest of a database, and from it any of the database's versions.
#pragma once

#include <cairn/ocdbt/format/manifest.h>
#include <cairn/ocdbt/read/node_reader.h>
#include <cairn/storage/kvstore.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::ocdbt {

// The facts about a database that are known without reading a node.
struct DatabaseInfo {
  ManifestKind kind = ManifestKind::kSingle;  // as manifest.ocdbt states it
  // key of the file that holds the versions; "" if there is none yet
  std::string manifest_key;
  // content of that file; its config.manifest_kind is that of the file
  Manifest manifest;

  // Returns the newest version: generation, commit time, statistics (num_keys). Returns null for a
  // database without a commit.
  [[nodiscard]] const Version* newest() const {
    return manifest.versions.empty() ? nullptr : &manifest.versions.back();
  }
};
// Reads a manifest, whose size must match its header. Returns nullopt if it does not exist.
std::optional<Bytes> read_manifest_bytes(const KvStore& base, std::string_view key);
// Returns nullopt if there is no manifest.ocdbt. Throws data_loss for a damaged one.
std::optional<DatabaseInfo> read_database_info(const KvStore& base);

// Returns the generations of the existing numbered manifests, ascending.
std::vector<std::uint64_t> list_numbered_manifests(const KvStore& base);
// Returns nullopt if the manifest does not exist (any more). Verifies its kind, generation and
// configuration.
std::optional<Manifest> read_numbered_manifest(const KvStore& base, std::uint64_t generation,
                                               const Config& expected);

// A version and the location of its root.
struct RootedVersion {
  Version version;
  ObjectPlace root;  // undefined if version.root is missing

  [[nodiscard]] bool empty() const { return version.root.missing(); }
  // Returns the expectation for the root node.
  [[nodiscard]] NodeExpectation expect_root() const {
    return {.place = root, .height = version.root_height};
  }
};

// The reference to a version node and the node's location.
struct VersionNodeAt {
  VersionNodeRef ref;
  ObjectPlace place;
};
// Reads the node and verifies its height, arity and last generation. Its own references resolve
// against place.file.base_path().
VersionNode read_version_node(const KvStore& base, const VersionNodeAt& at, unsigned arity_log2);

// Returns the version with the location of its root. `files` is the table that the version refers
// to.
RootedVersion rooted(const Version& version, const DataFileTable& files,
                     std::string_view base_path);

// Returns the requested version; reads only the version nodes on the path to it. Returns nullopt if
// there is no such version.
std::optional<RootedVersion> find_version(const KvStore& base, const DatabaseInfo& info,
                                          const OcdbtVersion& wanted);
// Returns every version that the manifest leads to, in order of generation.
std::vector<RootedVersion> list_versions(const KvStore& base, const DatabaseInfo& info);

}  // namespace cairn::inline v0::ocdbt
