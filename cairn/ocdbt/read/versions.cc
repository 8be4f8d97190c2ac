// versions.cc -- selects the manifest and walks the version tree.
#include <cairn/ocdbt/read/versions.h>

#include <cairn/base/errors.h>
#include <cairn/ocdbt/format/envelope.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0::ocdbt {
namespace {

std::optional<Manifest> read_manifest(const KvStore& base, std::string_view key) {
  auto bytes = read_manifest_bytes(base, key);
  if (!bytes) return std::nullopt;
  return with_context([&] { return base.describe(key); }, [&] { return decode_manifest(*bytes); });
}

// Fills `info` from the newest numbered manifest, if one exists.
void read_newest_numbered(const KvStore& base, DatabaseInfo& info) {
  // A concurrent writer may remove the listed manifest before it is read. That is unlikely to
  // happen this often in a row.
  constexpr int kMaxAttempts = 100;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto generations = list_numbered_manifests(base);
    if (generations.empty()) return;
    if (auto manifest = read_numbered_manifest(base, generations.back(), info.manifest.config)) {
      info.manifest_key = numbered_manifest_key(generations.back());
      info.manifest = *std::move(manifest);
      return;
    }
  }
  throw Error(
      Code::kUnavailable,
      fmt::format("{}: numbered manifests vanished {} times between listing and reading; try again",
                  base.describe(kManifestKey), kMaxAttempts));
}

// The references of a manifest or an interior version node.
struct RefList {
  const std::vector<VersionNodeRef>& refs;
  const DataFileTable& files;
  std::string base_path;

  [[nodiscard]] VersionNodeAt at(std::size_t i) const {
    return {refs[i], resolve_ref(refs[i].location, files, base_path)};
  }
};

// Returns the index of the version, or of the reference, that leads to the wanted version; nullopt
// if none does. `entries` are ascending.
template <class Entries>
std::optional<std::size_t> choose(const Entries& entries, const OcdbtVersion& wanted) {
  if (wanted.generation) {  // the first that ends at or after the wanted generation
    const auto at = std::ranges::lower_bound(entries, *wanted.generation, {},
                                             [](const auto& e) { return e.generation; });
    if (at == entries.end()) return std::nullopt;
    return static_cast<std::size_t>(at - entries.begin());
  }
  if (!wanted.commit_time_ns) return entries.size() - 1;
  // The last that begins at or before the wanted time.
  const auto at = std::ranges::upper_bound(entries, *wanted.commit_time_ns, {},
                                           [](const auto& e) { return e.commit_time_ns; });
  if (at == entries.begin()) return std::nullopt;
  return static_cast<std::size_t>(at - entries.begin()) - 1;
}

std::optional<RootedVersion> choose_version(const std::vector<Version>& versions,
                                            const RefList& from, const OcdbtVersion& wanted) {
  const auto i = choose(versions, wanted);
  if (!i || (wanted.generation && versions[*i].generation != *wanted.generation))
    return std::nullopt;
  return rooted(versions[*i], from.files, from.base_path);
}

std::optional<RootedVersion> find_below(const KvStore& base, const RefList& from,
                                        const OcdbtVersion& wanted, unsigned arity_log2) {
  const auto i = choose(from.refs, wanted);
  if (!i) return std::nullopt;
  const VersionNodeAt at = from.at(*i);
  const VersionNode node = read_version_node(base, at, arity_log2);
  const RefList inner{node.children, node.files, at.place.file.base_path()};
  // Heights decrease with each step, so the recursion ends.
  if (node.height > 0) return find_below(base, inner, wanted, arity_log2);
  return choose_version(node.versions, inner, wanted);
}

void collect_below(const KvStore& base, const RefList& from, unsigned arity_log2,
                   std::vector<RootedVersion>& out) {
  for (std::size_t i = 0; i < from.refs.size(); ++i) {
    const VersionNodeAt at = from.at(i);
    const VersionNode node = read_version_node(base, at, arity_log2);
    const RefList inner{node.children, node.files, at.place.file.base_path()};
    for (const auto& version : node.versions)
      out.push_back(rooted(version, node.files, inner.base_path));
    collect_below(base, inner, arity_log2, out);
  }
}

}  // namespace

std::optional<Bytes> read_manifest_bytes(const KvStore& base, std::string_view key) {
  const auto size = base.size(key);
  if (!size) return std::nullopt;
  with_context([&] { return base.describe(key); },
               [&] {
                 check_before_reading(*size, [&](std::uint64_t at, MutableByteView out) {
                   if (!base.read_into(key, at, out))
                     throw Error(Code::kUnavailable, "vanished while Cairn read it");
                 });
               });
  // A writer may have replaced the manifest meanwhile; this reads the current one whole.
  return base.read_at_most(key, kMaxEncodedSize);
}

std::vector<std::uint64_t> list_numbered_manifests(const KvStore& base) {
  std::vector<std::uint64_t> generations;
  for (const auto& entry : base.list(kNumberedManifestPrefix))
    if (const auto generation = numbered_manifest_generation(entry.key))
      generations.push_back(*generation);
  std::ranges::sort(generations);
  return generations;
}

std::optional<Manifest> read_numbered_manifest(const KvStore& base, std::uint64_t generation,
                                               const Config& expected) {
  const std::string key = numbered_manifest_key(generation);
  auto manifest = read_manifest(base, key);
  if (!manifest) return std::nullopt;
  with_context(
      [&] { return base.describe(key); },
      [&] {
        if (manifest->config.manifest_kind != ManifestKind::kSingle)
          data_loss("expected single-file manifest kind in a numbered manifest, found numbered");
        if (const auto last = manifest->versions.back().generation; last != generation)
          data_loss(
              fmt::format("expected generation number {} but received: {}", generation, last));
        check_same_config(expected, manifest->config);
      });
  return manifest;
}

std::optional<DatabaseInfo> read_database_info(const KvStore& base) {
  auto manifest = read_manifest(base, kManifestKey);
  if (!manifest) return std::nullopt;
  DatabaseInfo info{
      .kind = manifest->config.manifest_kind, .manifest_key = {}, .manifest = *std::move(manifest)};
  if (info.kind == ManifestKind::kSingle)
    info.manifest_key = kManifestKey;
  else
    read_newest_numbered(base, info);
  return info;
}

VersionNode read_version_node(const KvStore& base, const VersionNodeAt& at, unsigned arity_log2) {
  return with_context(
      [&] { return describe_object(base, "version tree node", at.place); },
      [&] {
        VersionNode node = decode_version_node(read_object(base, at.place));
        check_path_lengths(node.files, at.place.file.base_length);
        if (node.height != at.ref.height)
          data_loss(fmt::format("expected height of {} but received: {}", unsigned{at.ref.height},
                                unsigned{node.height}));
        if (node.arity_log2 != arity_log2)
          data_loss(fmt::format("expected version_tree_arity_log2={} but received: {}", arity_log2,
                                unsigned{node.arity_log2}));
        if (node.last_generation() != at.ref.generation)
          data_loss(fmt::format("expected generation number {} but received: {}", at.ref.generation,
                                node.last_generation()));
        return node;
      });
}

RootedVersion rooted(const Version& version, const DataFileTable& files,
                     std::string_view base_path) {
  if (version.root.missing()) return {.version = version, .root = {}};
  return {.version = version, .root = resolve_ref(version.root, files, base_path)};
}

std::optional<RootedVersion> find_version(const KvStore& base, const DatabaseInfo& info,
                                          const OcdbtVersion& wanted) {
  if (wanted.generation && wanted.commit_time_ns)
    throw Error(Code::kInvalidArgument, "give a generation or a commit time, not both");
  const Manifest& manifest = info.manifest;
  if (manifest.versions.empty()) return std::nullopt;
  const RefList refs{manifest.version_nodes, manifest.files, {}};
  const Version& first = manifest.versions.front();
  const bool is_inline = (!wanted.generation || *wanted.generation >= first.generation) &&
                         (!wanted.commit_time_ns || *wanted.commit_time_ns >= first.commit_time_ns);
  if (is_inline) return choose_version(manifest.versions, refs, wanted);
  return find_below(base, refs, wanted, manifest.config.version_tree_arity_log2);
}

std::vector<RootedVersion> list_versions(const KvStore& base, const DatabaseInfo& info) {
  std::vector<RootedVersion> versions;
  const Manifest& manifest = info.manifest;
  collect_below(base, {manifest.version_nodes, manifest.files, {}},
                manifest.config.version_tree_arity_log2, versions);
  for (const auto& version : manifest.versions)
    versions.push_back(rooted(version, manifest.files, {}));
  return versions;
}

}  // namespace cairn::inline v0::ocdbt
