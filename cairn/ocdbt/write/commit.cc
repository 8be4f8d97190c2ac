// commit.cc -- grows the version tree, and publishes a version with one write.
#include <cairn/ocdbt/write/commit.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cairn::inline v0::ocdbt {
namespace {

// Numbered manifests older than this many generations are removed.
constexpr std::uint64_t kKeptNumbered = 128;

std::uint64_t arity(const Config& config) {
  return std::uint64_t{1} << config.version_tree_arity_log2;
}

// Builds the file table of a manifest or version node. Until the table is known, references hold
// file numbers of a FileSet.
class TableBuilder {
 public:
  explicit TableBuilder(FileSet& files) : files_(files) {}

  // Replaces the reference's index in `table`, below `base_path`, by a number in the set.
  void adopt(DataRef& ref, const DataFileTable& table, std::string_view base_path) {
    const DataFile& file = table[ref.file];
    ref.file = files_.add({.base_path = std::string(base_path) + file.base_path,
                           .relative_path = file.relative_path});
  }
  void note(const DataRef& ref) { used_[name(ref)] = 0; }
  // Call it after all references have been noted.
  DataFileTable table() {
    DataFileTable table;
    for (auto& [names, place] : used_) {
      place = table.size();
      table.push_back({.base_path = names.first, .relative_path = names.second});
    }
    return table;
  }
  void place(DataRef& ref) const { ref.file = used_.at(name(ref)); }

 private:
  using Name = std::pair<std::string, std::string>;
  [[nodiscard]] Name name(const DataRef& ref) const {
    if (ref.missing()) return {};
    const DataFile& file = files_[static_cast<std::uint32_t>(ref.file)];
    return {file.base_path, file.relative_path};
  }

  FileSet& files_;
  std::map<Name, std::uint64_t> used_;
};

// Builds the table of a manifest or version node and updates its references.
template <class Object>
void make_table(Object& object, std::vector<Version>& versions, std::vector<VersionNodeRef>& refs,
                FileSet& files) {
  TableBuilder builder(files);
  for (const auto& v : versions) builder.note(v.root);
  for (const auto& r : refs) builder.note(r.location);
  object.files = builder.table();
  for (auto& v : versions) builder.place(v.root);
  for (auto& r : refs) builder.place(r.location);
}

Version new_version(const NextVersion& next, std::uint64_t generation, std::uint64_t after_ns) {
  Version version;
  version.generation = generation;
  version.commit_time_ns = std::max(next.commit_time_ns, after_ns + 1);
  if (!next.root.location) return version;
  version.root_height = next.root.height;
  version.root = {.file = next.root.location->file,
                  .offset = next.root.location->offset,
                  .length = next.root.location->length};
  version.statistics = next.root.statistics;
  return version;
}

// Moves old versions into the version tree.
class Growth {
 public:
  Growth(const KvStore& base, const Manifest& old, FileSet& files, DataWriter& nodes)
      : base_(base),
        config_(old.config),
        files_(files),
        nodes_(nodes),
        builder_(files),
        versions_(old.versions),
        refs_(old.version_nodes) {
    for (auto& v : versions_)
      if (!v.root.missing()) builder_.adopt(v.root, old.files, {});
    for (auto& r : refs_) builder_.adopt(r.location, old.files, {});
  }

  void add(const Version& version) {
    if ((version.generation - 1) % arity(config_) == 0) move_inline_versions(version.generation);
    versions_.push_back(version);
  }
  Manifest take() && {
    Manifest manifest{.config = config_,
                      .files = {},
                      .versions = std::move(versions_),
                      .version_nodes = std::move(refs_)};
    make_table(manifest, manifest.versions, manifest.version_nodes, files_);
    return manifest;
  }

 private:
  // The inline block is full. It becomes a node and pushes the existing nodes up.
  void move_inline_versions(std::uint64_t generation) {
    VersionNode block;
    block.versions = std::move(versions_);
    versions_.clear();
    std::optional<VersionNodeRef> carry = write(std::move(block));
    std::vector<VersionNodeRef> kept;
    for (const auto& range : manifest_ranges(generation, config_.version_tree_arity_log2)) {
      const auto found = std::ranges::find(
          refs_, range.height, [](const VersionNodeRef& r) -> unsigned { return r.height; });
      const auto before = found == refs_.end() ? std::nullopt : std::optional(*found);
      const auto is_inside = [&](const std::optional<VersionNodeRef>& ref) {
        return ref && ref->generation >= range.first && ref->generation <= range.last;
      };
      if (is_inside(carry))
        kept.push_back(extended(is_inside(before) ? before : std::nullopt, *carry));
      else if (is_inside(before))
        kept.push_back(*before);
      carry = before;
    }
    std::ranges::reverse(kept);
    refs_ = std::move(kept);
  }

  // Makes a node one level above `child` that holds the children of `before` and then `child`.
  VersionNodeRef extended(const std::optional<VersionNodeRef>& before,
                          const VersionNodeRef& child) {
    VersionNode node;
    node.height = static_cast<std::uint8_t>(child.height + 1);
    if (before) {
      const DataFile& file = files_[static_cast<std::uint32_t>(before->location.file)];
      const VersionNodeAt at{*before, resolve_ref({.file = 0,
                                                   .offset = before->location.offset,
                                                   .length = before->location.length},
                                                  {file}, {})};
      VersionNode old = read_version_node(base_, at, config_.version_tree_arity_log2);
      for (auto& ref : old.children) builder_.adopt(ref.location, old.files, file.base_path);
      node.children = std::move(old.children);
    }
    node.children.push_back(child);
    return write(std::move(node));
  }

  VersionNodeRef write(VersionNode node) {
    VersionNodeRef ref;
    ref.generation = node.last_generation();
    ref.height = node.height;
    for (const auto& child : node.children) ref.num_generations += child.num_generations;
    ref.num_generations += node.versions.size();
    ref.commit_time_ns = node.height == 0 ? node.versions.front().commit_time_ns
                                          : node.children.front().commit_time_ns;
    node.arity_log2 = config_.version_tree_arity_log2;
    make_table(node, node.versions, node.children, files_);
    const Bytes encoded = encode_version_node(node, config_.zstd_level);
    const auto place = nodes_.append(encoded);
    ref.location = {.file = place.file, .offset = place.offset, .length = encoded.size()};
    return ref;
  }

  const KvStore& base_;
  const Config& config_;
  FileSet& files_;
  DataWriter& nodes_;
  TableBuilder builder_;
  std::vector<Version> versions_;
  std::vector<VersionNodeRef> refs_;
};

// The commit is complete. Manifests that cannot be removed now are removed by a later commit.
void remove_old_numbered(KvStore& base, std::uint64_t newest) {
  try {
    for (const auto generation : list_numbered_manifests(base))
      if (newest > generation && newest - generation > kKeptNumbered)
        base.remove(numbered_manifest_key(generation));
  } catch (const Error&) {
    return;
  }
}

// Returns whether the newest numbered manifest contains our version. A slow writer can create a
// generation that others had created and already removed.
bool is_known(const KvStore& base, const Manifest& ours) {
  const auto info = read_database_info(base);
  const auto found =
      info ? find_version(base, *info,
                          {.generation = ours.versions.back().generation, .commit_time_ns = {}})
           : std::nullopt;
  if (!found) return false;
  const Version& mine = ours.versions.back();
  const bool same_place =
      found->empty() == mine.root.missing() &&
      (found->empty() ||
       (found->root.offset == mine.root.offset && found->root.length == mine.root.length &&
        found->root.file.path == resolve_file(ours.files[mine.root.file], {}).path));
  return same_place && found->version.statistics == mine.statistics &&
         found->version.commit_time_ns == mine.commit_time_ns;
}

bool publish_numbered(KvStore& base, const DatabaseState& state, const Manifest& manifest) {
  if (!state.manifest_bytes) {
    Manifest config_only;
    config_only.config = manifest.config;
    config_only.config.manifest_kind = ManifestKind::kNumbered;
    if (!base.replace_if(kManifestKey, std::nullopt, encode_manifest(config_only))) return false;
  }
  const std::uint64_t generation = manifest.versions.back().generation;
  const std::string key = numbered_manifest_key(generation);
  if (!base.replace_if(key, std::nullopt, encode_manifest(manifest))) return false;
  if (!is_known(base, manifest)) {
    base.remove(key);
    return false;
  }
  remove_old_numbered(base, generation);
  return true;
}

}  // namespace

std::optional<RootedVersion> DatabaseState::newest() const {
  if (!info || info->manifest.versions.empty()) return std::nullopt;
  return rooted(info->manifest.versions.back(), info->manifest.files, {});
}

DatabaseState read_state(const KvStore& base) {
  DatabaseState state;
  state.manifest_bytes = read_manifest_bytes(base, kManifestKey);
  if (!state.manifest_bytes) return state;
  Manifest manifest = with_context([&] { return base.describe(kManifestKey); },
                                   [&] { return decode_manifest(*state.manifest_bytes); });
  if (manifest.config.manifest_kind == ManifestKind::kSingle) {
    state.info = {.kind = ManifestKind::kSingle,
                  .manifest_key = std::string(kManifestKey),
                  .manifest = std::move(manifest)};
    return state;
  }
  state.info = read_database_info(base);  // the configuration in manifest.ocdbt never changes
  if (!state.info)
    throw Error(Code::kUnavailable, base.describe(kManifestKey) + ": vanished while Cairn read it");
  return state;
}

Manifest next_manifest(const KvStore& base, const Manifest* old, const Config& config,
                       const NextVersion& next, FileSet& files, DataWriter& nodes) {
  if (!old || old->versions.empty()) {
    Manifest first{
        .config = config, .files = {}, .versions = {new_version(next, 1, 0)}, .version_nodes = {}};
    first.config.manifest_kind = ManifestKind::kSingle;
    make_table(first, first.versions, first.version_nodes, files);
    return first;
  }
  const Version& last = old->versions.back();
  Growth growth(base, *old, files, nodes);
  growth.add(new_version(next, last.generation + 1, last.commit_time_ns));
  return std::move(growth).take();
}

Manifest manifest_without_history(const Manifest& old, const NextVersion& next, FileSet& files) {
  const Version& last = old.versions.back();
  Manifest manifest{.config = old.config,
                    .files = {},
                    .versions = {new_version(next, last.generation + 1, last.commit_time_ns)},
                    .version_nodes = {}};
  make_table(manifest, manifest.versions, manifest.version_nodes, files);
  return manifest;
}

bool publish(KvStore& base, const DatabaseState& state, const Manifest& manifest,
             ManifestKind kind) {
  if (kind == ManifestKind::kNumbered) return publish_numbered(base, state, manifest);
  const auto expected =
      state.manifest_bytes ? std::optional<ByteView>(*state.manifest_bytes) : std::nullopt;
  return base.replace_if(kManifestKey, expected, encode_manifest(manifest));
}

}  // namespace cairn::inline v0::ocdbt
