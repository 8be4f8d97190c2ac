// check.cc -- visits everything that a database still refers to, each node once, and reports
// damage.
#include <cairn/ocdbt/read/check.h>

#include <cairn/ocdbt/read/node_reader.h>
#include <cairn/ocdbt/read/versions.h>
#include <fmt/format.h>

#include <map>
#include <tuple>

namespace cairn::inline v0::ocdbt {
namespace {

// The facts about a visited node that are needed to verify the claims of its other parents.
struct Visited {
  bool damaged = false;
  std::uint8_t height = 0;
  std::string first_key, last_key;
  std::size_t longest_key = 0;

  [[nodiscard]] NodeOutline outline() const {
    return {
        .height = height, .first_key = first_key, .last_key = last_key, .longest_key = longest_key};
  }
};

class DatabaseCheck {
 public:
  DatabaseCheck(const KvStore& base, VerifyReport& report, std::set<std::string>& files)
      : base_(base), report_(report), files_(files) {}

  void run() {
    for (const auto& [key, manifest] : manifests()) collect_versions(key, manifest);
    if (versions_.empty()) return;
    // The newest version comes first: a leaf's values are checked when the leaf is first seen.
    newest_ = true;
    for (auto at = versions_.rbegin(); at != versions_.rend(); ++at) {
      if (!at->second.empty()) visit(at->second.expect_root());
      newest_ = false;
    }
  }

 private:
  // identifies a visited object
  using Place = std::tuple<std::string, std::size_t, std::uint64_t, std::uint64_t>;
  static Place key_of(const ObjectPlace& p) {
    return {p.file.path, p.file.base_length, p.offset, p.length};
  }

  void damage(const std::string& file, std::uint64_t offset, std::string message) {
    found(Severity::kDamage, file, offset, std::move(message));
  }
  void found(Severity severity, const std::string& file, std::uint64_t offset,
             std::string message) {
    report_.findings.push_back({.severity = severity,
                                .tensor = {},
                                .file = base_.describe(file),
                                .offset = offset,
                                .message = std::move(message)});
  }
  // Runs f. Turns an Error into a finding and returns false.
  template <class F>
  bool guarded(const std::string& file, std::uint64_t offset, F f) {
    try {
      f();
      return true;
    } catch (const Error& e) {
      found(severity_of(e.code()), file, offset, e.message());
      return false;
    }
  }

  // Returns the key and content of every manifest that can be read.
  std::vector<std::pair<std::string, Manifest>> manifests();
  void collect_versions(const std::string& key, const Manifest& manifest);
  void collect_below(const VersionNodeAt& at, unsigned arity_log2);
  void add_version(const Version& version, const DataFileTable& files, const ObjectPlace& from);
  void note_files(const DataFileTable& table, std::string_view base_path);
  void visit(const NodeExpectation& expected);
  void visit_new(const NodeExpectation& expected, Visited& outcome);
  void check_values(const LoadedNode& leaf, const NodeExpectation& expected);
  // Returns the size of a data file. The inner optional is empty if the file does not exist. The
  // outer one is empty if that cannot be determined, which is reported as a finding.
  std::optional<std::optional<std::uint64_t>> size_of(const std::string& file);

  const KvStore& base_;
  VerifyReport& report_;
  std::set<std::string>& files_;
  bool newest_ = false;
  std::map<std::uint64_t, RootedVersion> versions_;  // by generation
  std::set<Place> version_nodes_;
  std::map<Place, Visited> nodes_;
  std::map<std::string, std::optional<std::optional<std::uint64_t>>> file_sizes_;
};

std::vector<std::pair<std::string, Manifest>> DatabaseCheck::manifests() {
  std::vector<std::pair<std::string, Manifest>> found;
  const std::string main_key(kManifestKey);
  std::optional<Manifest> main;
  guarded(main_key, 0, [&] {
    if (auto bytes = read_manifest_bytes(base_, main_key)) {
      files_.insert(main_key);
      report_.bytes += bytes->size();
      main = decode_manifest(*bytes);
    }
  });
  if (!main) return found;
  if (main->config.manifest_kind == ManifestKind::kSingle) return {{main_key, *std::move(main)}};
  std::vector<std::uint64_t> generations;
  guarded(main_key, 0, [&] { generations = list_numbered_manifests(base_); });
  for (const auto generation : generations) {
    const std::string key = numbered_manifest_key(generation);
    files_.insert(key);
    guarded(key, 0, [&] {
      if (auto manifest = read_numbered_manifest(base_, generation, main->config))
        found.emplace_back(key, *std::move(manifest));
      report_.bytes += base_.size(key).value_or(0);
    });
  }
  return found;
}

void DatabaseCheck::add_version(const Version& version, const DataFileTable& files,
                                const ObjectPlace& from) {
  guarded(from.file.path, from.offset, [&] {
    versions_.insert_or_assign(version.generation, rooted(version, files, from.file.base_path()));
  });
}

void DatabaseCheck::collect_versions(const std::string& key, const Manifest& manifest) {
  const ObjectPlace here{.file = {.path = key, .base_length = 0}};
  note_files(manifest.files, {});
  const unsigned arity_log2 = manifest.config.version_tree_arity_log2;
  for (const auto& ref : manifest.version_nodes)
    guarded(key, 0, [&] {
      collect_below({ref, resolve_ref(ref.location, manifest.files, {})}, arity_log2);
    });
  for (const auto& version : manifest.versions) add_version(version, manifest.files, here);
}

void DatabaseCheck::collect_below(const VersionNodeAt& at, unsigned arity_log2) {
  if (!version_nodes_.insert(key_of(at.place)).second) return;
  const std::string& file = at.place.file.path;
  guarded(file, at.place.offset, [&] {
    const VersionNode node = read_version_node(base_, at, arity_log2);
    report_.bytes += at.place.length;
    const std::string base_path = at.place.file.base_path();
    note_files(node.files, base_path);
    for (const auto& version : node.versions) add_version(version, node.files, at.place);
    for (const auto& child : node.children)
      guarded(file, at.place.offset, [&] {
        collect_below({child, resolve_ref(child.location, node.files, base_path)}, arity_log2);
      });
  });
}

void DatabaseCheck::note_files(const DataFileTable& table, std::string_view base_path) {
  for (const auto& file : table)  // an unsafe path is reported where it is used
    if (const auto path = try_call([&] { return resolve_file(file, base_path).path; }))
      files_.insert(path.value());
}

void DatabaseCheck::visit(const NodeExpectation& expected) {
  const auto [at, is_new] = nodes_.try_emplace(key_of(expected.place));
  Visited& outcome = at->second;
  if (is_new) return visit_new(expected, outcome);
  if (outcome.damaged) return;  // already reported
  guarded(expected.place.file.path, expected.place.offset,
          [&] { check_expected(outcome.outline(), expected); });
}

void DatabaseCheck::visit_new(const NodeExpectation& expected, Visited& outcome) {
  const ObjectPlace& place = expected.place;
  LoadedNode loaded;
  const auto where = [&] { return describe_object(base_, "b+tree node", place); };
  outcome.damaged = !guarded(place.file.path, place.offset, [&] {
    with_context(where, [&] {
      loaded = read_btree_node(base_, place);
      report_.bytes += place.length;
      check_expected(outline(loaded.node), expected);
    });
  });
  if (outcome.damaged) return;
  const NodeOutline o = outline(loaded.node);
  outcome = {.damaged = false,
             .height = o.height,
             .first_key = std::string(o.first_key),
             .last_key = std::string(o.last_key),
             .longest_key = o.longest_key};
  note_files(loaded.node.files, loaded.base_path);
  if (newest_) check_values(loaded, expected);
  for (std::size_t i = 0; i < loaded.node.children.size(); ++i)
    guarded(place.file.path, place.offset, [&] {
      const NodeExpectation child =
          with_context(where, [&] { return expect_child(loaded, expected, i); });
      visit(child);
    });
}

std::optional<std::optional<std::uint64_t>> DatabaseCheck::size_of(const std::string& file) {
  if (const auto known = file_sizes_.find(file); known != file_sizes_.end()) return known->second;
  auto& size = file_sizes_[file];
  guarded(file, 0, [&] { size = base_.size(file); });
  return size;
}

void DatabaseCheck::check_values(const LoadedNode& leaf, const NodeExpectation& expected) {
  std::map<std::uint32_t, std::string> paths;
  for (std::size_t i = 0; i < leaf.node.values.size(); ++i) {
    const LeafValue& value = leaf.node.values[i];
    if (value.is_inline()) continue;
    const auto key = [&] {
      return fmt::format("value of '{}{}'", expected.prefix, leaf.node.keys[i]);
    };
    auto at = paths.find(value.file);
    if (at == paths.end() && !guarded(expected.place.file.path, expected.place.offset, [&] {
          at = with_context(
              key, [&] { return paths.emplace(value.file, leaf.file(value.file).path).first; });
        }))
      continue;
    const auto known = size_of(at->second);
    if (!known) continue;
    const std::optional<std::uint64_t>& size = *known;
    if (!size)
      damage(at->second, value.offset, key() + ": the data file is missing");
    else if (value.offset > *size || value.length > *size - value.offset)
      damage(at->second, value.offset,
             fmt::format("{}: {} bytes at offset {}, but the data file has {}{}", key(),
                         value.length, value.offset, *size, short_file_remark(base_, at->second)));
  }
}

}  // namespace

void check_database(const StorePtr& base, VerifyReport& report, std::set<std::string>& files) {
  DatabaseCheck(*base, report, files).run();
}

}  // namespace cairn::inline v0::ocdbt
