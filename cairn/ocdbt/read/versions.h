// versions.h -- from a database's folder to its manifest, and from there to any of its versions.
#pragma once

#include <cairn/kvstore.h>
#include <cairn/ocdbt/format/manifest.h>
#include <cairn/ocdbt/read/node_reader.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::ocdbt {

// What is known about a database without reading a node.
struct DatabaseInfo {
  ManifestKind kind = ManifestKind::kSingle;  // as manifest.ocdbt says
  // of the file that holds the versions; "" if there is none yet
  std::string manifest_key;
  // that file; its config.manifest_kind is that of the file
  Manifest manifest;

  // Generation, commit time, statistics (num_keys) of the newest version; nullptr for a database
  // never written to.
  [[nodiscard]] const Version* newest() const {
    return manifest.versions.empty() ? nullptr : &manifest.versions.back();
  }
};
// The bytes of a manifest, which are not larger than what its header says; nullopt if it is not
// there.
std::optional<Bytes> read_manifest_bytes(const KvStore& base, std::string_view key);
// nullopt: there is no manifest.ocdbt. Throws data_loss for a damaged one.
std::optional<DatabaseInfo> read_database_info(const KvStore& base);

// The numbered manifests that exist, ascending.
std::vector<std::uint64_t> list_numbered_manifests(const KvStore& base);
// nullopt if it is not there (any more). Its kind, generation and configuration are checked.
std::optional<Manifest> read_numbered_manifest(const KvStore& base, std::uint64_t generation,
                                               const Config& expected);

// A version and where its root is.
struct RootedVersion {
  Version version;
  ObjectPlace root;  // meaningless if version.root is missing

  [[nodiscard]] bool empty() const { return version.root.missing(); }
  [[nodiscard]] NodeExpectation expect_root() const {
    return {.place = root, .height = version.root_height};
  }
};

// A version node as `ref`, which stands in a table resolved against base_path, describes it.
struct VersionNodeAt {
  VersionNodeRef ref;
  ObjectPlace place;
};
// Reads it and checks height, arity and last generation. Its own references resolve against
// place.file.base_path().
VersionNode read_version_node(const KvStore& base, const VersionNodeAt& at, unsigned arity_log2);

RootedVersion rooted(const Version& version, const DataFileTable& files,
                     std::string_view base_path);

// The version asked for, reading only the version nodes on the way to it. nullopt: there is no such
// version.
std::optional<RootedVersion> find_version(const KvStore& base, const DatabaseInfo& info,
                                          const OcdbtVersion& wanted);
// Every version that the manifest leads to, by generation.
std::vector<RootedVersion> list_versions(const KvStore& base, const DatabaseInfo& info);

}  // namespace cairn::ocdbt
