// tree_writer.cc -- writes entries as nodes, level by level, and rewrites the paths from changed
// leaves to the root.
#include <cairn/ocdbt/write/tree_writer.h>

#include <cairn/ocdbt/write/split.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace cairn::inline v0::ocdbt {
namespace {

constexpr unsigned kMaxHeight = 255;

std::uint64_t saturated(std::uint64_t a, std::uint64_t b) {
  return b > std::numeric_limits<std::uint64_t>::max() - a
             ? std::numeric_limits<std::uint64_t>::max()
             : a + b;
}

std::size_t path_length(const DataFile& file) {
  return file.base_path.size() + file.relative_path.size();
}

// The lengths of paths. Neighbours usually refer to one file, so the last length is kept.
class FilePathLengths {
 public:
  explicit FilePathLengths(const FileSet& files) : files_(files) {}
  std::size_t operator[](std::uint32_t file) {
    if (file != last_) length_ = path_length(files_[last_ = file]);
    return length_;
  }

 private:
  const FileSet& files_;
  std::uint32_t last_ = LeafEntry::kInline;  // no file
  std::size_t length_ = 0;
};

std::uint64_t size_of(const LeafEntry& e, FilePathLengths& paths) {
  if (e.is_inline()) return leaf_entry_size(e.key.size(), e.inline_value.size());
  return reference_entry_size(e.key.size(), paths[e.file]);
}
std::uint64_t size_of(const ChildEntry& e, FilePathLengths& paths) {
  return child_entry_size(e.key.size(), paths[e.file]);
}

// Returns how many bytes of an entry's key the node's common prefix may take.
std::size_t excludable(const LeafEntry& e) { return e.key.size(); }
std::size_t excludable(const ChildEntry& e) { return e.common_prefix; }

bool refers_to_file(const LeafEntry& e) { return !e.is_inline(); }
bool refers_to_file(const ChildEntry& /*e*/) { return true; }

// The files of some entries, sorted as in tables, and each file's index there.
class NodeFiles {
 public:
  template <class Entry>
  NodeFiles(std::span<const Entry> entries, const FileSet& files) {
    std::vector<std::uint32_t> numbers;
    for (const auto& e : entries)
      if (refers_to_file(e) && (numbers.empty() || numbers.back() != e.file))
        numbers.push_back(e.file);
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    std::ranges::sort(numbers, {}, [&](std::uint32_t n) {
      return std::tie(files[n].base_path, files[n].relative_path);
    });
    for (const auto number : numbers) {
      places_.emplace(number, table.size());
      table.push_back(files[number]);
    }
  }
  [[nodiscard]] std::uint64_t place(std::uint32_t number) {
    if (number != last_) place_ = places_.at(last_ = number);
    return place_;
  }

  DataFileTable table;

 private:
  std::map<std::uint32_t, std::uint64_t> places_;
  std::uint32_t last_ = LeafEntry::kInline;  // the file whose place is place_
  std::uint64_t place_ = 0;
};

// The columns of a node. They borrow keys and values from the entries.
struct Columns {
  std::vector<std::string_view> keys;
  std::vector<LeafValue> values;
  std::vector<ByteView> inline_values;
  std::vector<ChildNode> children;
};

void add(Columns& node, const LeafEntry& e, std::size_t excluded, NodeFiles& files) {
  node.keys.push_back(e.key.substr(excluded));
  if (e.is_inline()) {
    node.values.push_back({.offset = 0, .length = e.inline_value.size()});
    node.inline_values.push_back(e.inline_value);
    return;
  }
  node.values.push_back({.offset = e.offset,
                         .length = e.length,
                         .file = static_cast<std::uint32_t>(files.place(e.file))});
}
void add(Columns& node, const ChildEntry& e, std::size_t excluded, NodeFiles& files) {
  node.keys.push_back(e.key.substr(excluded));
  node.children.push_back(
      {.location = {.file = files.place(e.file), .offset = e.offset, .length = e.length},
       .statistics = e.statistics,
       .subtree_common_prefix_length = static_cast<std::uint16_t>(e.common_prefix - excluded)});
}

void count(Statistics& sum, const LeafEntry& e) {
  sum.num_keys = saturated(sum.num_keys, 1);
  if (!e.is_inline())
    sum.num_indirect_value_bytes = saturated(sum.num_indirect_value_bytes, e.length);
}
void count(Statistics& sum, const ChildEntry& e) {
  sum.num_keys = saturated(sum.num_keys, e.statistics.num_keys);
  sum.num_tree_bytes = saturated(sum.num_tree_bytes, e.statistics.num_tree_bytes);
  sum.num_indirect_value_bytes =
      saturated(sum.num_indirect_value_bytes, e.statistics.num_indirect_value_bytes);
}

}  // namespace

template <class Entry>
ChildEntry TreeWriter::write_node(std::span<const Entry> entries, unsigned height, bool is_root) {
  std::size_t excluded = 0;
  if (!is_root) {
    excluded = common_prefix_length(entries.front().key, entries.back().key);
    for (const auto& e : entries) excluded = std::min(excluded, excludable(e));
  }
  NodeFiles files(entries, files_);
  Columns node;
  node.keys.reserve(entries.size());
  if (height == 0) node.values.reserve(entries.size());
  Statistics statistics;
  for (const auto& e : entries) {
    add(node, e, excluded, files);
    count(statistics, e);
  }
  const Bytes encoded = encode_btree_node({.height = static_cast<std::uint8_t>(height),
                                           .files = files.table,
                                           .keys = node.keys,
                                           .values = node.values,
                                           .inline_values = node.inline_values,
                                           .children = node.children},
                                          config_.zstd_level);
  statistics.num_tree_bytes = saturated(statistics.num_tree_bytes, encoded.size());
  const auto place = nodes_.append(encoded);
  return {.key = entries.front().key,
          .common_prefix = excluded,
          .file = place.file,
          .offset = place.offset,
          .length = encoded.size(),
          .statistics = statistics};
}

template <class Entry>
std::vector<ChildEntry> TreeWriter::write_nodes(const std::vector<Entry>& entries, unsigned height,
                                                bool may_be_root) {
  std::vector<std::uint64_t> sizes(entries.size());
  FilePathLengths paths(files_);
  std::size_t shared =
      entries.size() == 1 ? entries.front().key.size() : std::numeric_limits<std::size_t>::max();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    sizes[i] = size_of(entries[i], paths);
    if (i > 0) shared = std::min(shared, common_prefix_length(entries[i - 1].key, entries[i].key));
  }
  const auto ends =
      split_entries(sizes, {.max_bytes = config_.max_decoded_node_bytes,
                            .min_entries = height == 0 ? std::size_t{1} : std::size_t{2},
                            .shared_by_all = shared});
  std::vector<ChildEntry> written;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    written.push_back(write_node(std::span<const Entry>(entries).subspan(begin, end - begin),
                                 height, may_be_root && ends.size() == 1));
    begin = end;
  }
  return written;
}

template <class Entry>
TreeRoot TreeWriter::write_up(const std::vector<Entry>& entries, unsigned height) {
  if (entries.empty()) return {};
  auto level = write_nodes(entries, height, true);
  for (; level.size() > 1; level = write_nodes(level, height, true))
    if (++height > kMaxHeight)
      throw Error(
          Code::kOutOfRange,
          "the b+tree would be more than 255 levels high; max_decoded_node_bytes is too small");
  const ChildEntry& root = level.front();
  return {.location =
              TreeRoot::Location{.file = root.file, .offset = root.offset, .length = root.length},
          .height = static_cast<std::uint8_t>(height),
          .statistics = root.statistics};
}

std::uint32_t TreeWriter::file_number(const LoadedNode& node, std::uint64_t index) {
  const ResolvedFile file = node.file(index);
  return files_.add(
      {.base_path = file.base_path(), .relative_path = file.path.substr(file.base_length)});
}

LeafEntry resolved_entry(const NodeExpectation& expected, const LoadedNode& leaf, std::size_t index,
                         FileSet& files, Arena& arena) {
  const LeafValue& value = leaf.node.values[index];
  LeafEntry entry{.key = arena.keep(expected.prefix, leaf.node.keys[index])};
  if (value.is_inline()) {
    entry.inline_value = leaf.node.inline_value(value);
    return entry;
  }
  const ResolvedFile file = leaf.file(value.file);
  entry.file = files.add(
      {.base_path = file.base_path(), .relative_path = file.path.substr(file.base_length)});
  entry.offset = value.offset;
  entry.length = value.length;
  return entry;
}

LeafEntry TreeWriter::leaf_entry(const NodeExpectation& expected, const LoadedNode& leaf,
                                 std::size_t index) {
  return resolved_entry(expected, leaf, index, files_, arena_);
}

ChildEntry TreeWriter::child_entry(const NodeExpectation& expected, const LoadedNode& node,
                                   std::size_t index) {
  const ChildNode& child = node.node.children[index];
  return {.key = arena_.keep(expected.prefix, node.node.keys[index]),
          .common_prefix = expected.prefix.size() + child.subtree_common_prefix_length,
          .file = file_number(node, child.location.file),
          .offset = child.location.offset,
          .length = child.location.length,
          .statistics = child.statistics};
}

bool TreeWriter::removes_some(std::string_view first,
                              const std::optional<std::string_view>& end) const {
  return std::ranges::any_of(removed_, [&](const KeyRange& r) {
    return (!end || r.first < *end) && (!r.last || first < *r.last);
  });
}

bool TreeWriter::removes_all(std::string_view first,
                             const std::optional<std::string_view>& end) const {
  return std::ranges::any_of(removed_, [&](const KeyRange& r) {
    return r.first <= first && (!r.last || (end && *end <= *r.last));
  });
}

std::optional<std::vector<LeafEntry>> TreeWriter::edit_leaf(const NodeExpectation& expected,
                                                            const LoadedNode& leaf,
                                                            const Part& part) {
  std::vector<LeafEntry> entries;
  entries.reserve(leaf.node.keys.size() + part.edits.size());
  bool changed = false;
  auto edit = part.edits.begin();
  const auto add_until = [&](const std::string_view* key) {
    for (; edit != part.edits.end() && (!key || edit->entry.key < *key); ++edit) {
      if (edit->remove) continue;
      entries.push_back(edit->entry);
      changed = true;
    }
  };
  for (std::size_t i = 0; i < leaf.node.keys.size(); ++i) {
    const LeafEntry old = leaf_entry(expected, leaf, i);
    add_until(&old.key);
    const bool replaced = edit != part.edits.end() && edit->entry.key == old.key;
    if (replaced) {
      if (!edit->remove) entries.push_back(edit->entry);
      ++edit;
    }
    const bool gone = replaced || std::ranges::any_of(removed_, [&](const KeyRange& r) {
                        return r.contains(old.key);
                      });
    if (!gone) entries.push_back(old);
    changed = changed || gone;
  }
  add_until(nullptr);
  return changed ? std::optional(std::move(entries)) : std::nullopt;
}

std::optional<std::vector<ChildEntry>> TreeWriter::edit_interior(const NodeExpectation& expected,
                                                                 const LoadedNode& node,
                                                                 const Part& part) {
  const KeyList& keys = node.node.keys;
  std::vector<ChildEntry> entries;
  bool changed = false;
  std::span<const Edit> edits = part.edits;
  std::string_view key = arena_.keep(expected.prefix, keys[0]);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // A key below the first child's key belongs to the first child, too.
    Part below{.edits = edits, .end = part.end};
    const bool is_last = i + 1 == keys.size();
    const std::string_view next =
        is_last ? std::string_view() : arena_.keep(expected.prefix, keys[i + 1]);
    if (!is_last) {
      const auto behind =
          std::ranges::lower_bound(edits, next, {}, [](const Edit& e) { return e.entry.key; });
      below = {.edits = {edits.begin(), behind}, .end = next};
      edits = {behind, edits.end()};
    }
    const bool inserts = std::ranges::any_of(below.edits, [](const Edit& e) { return !e.remove; });
    if (!inserts && removes_all(key, below.end)) {
      changed = true;
    } else if (below.edits.empty() && !removes_some(key, below.end)) {
      entries.push_back(child_entry(expected, node, i));
    } else if (auto replaced = edit_child(expect_child(node, expected, i), below)) {
      entries.insert(entries.end(), replaced->begin(), replaced->end());
      changed = true;
    } else {
      entries.push_back(child_entry(expected, node, i));
    }
    key = next;
  }
  return changed ? std::optional(std::move(entries)) : std::nullopt;
}

std::optional<std::vector<ChildEntry>> TreeWriter::edit_child(const NodeExpectation& expected,
                                                              const Part& part) {
  const NodePtr node = reader_.load(expected);
  kept_.push_back(node);
  if (expected.height == 0) {
    const auto entries = edit_leaf(expected, *node, part);
    return entries ? std::optional(write_nodes(*entries, 0, false)) : std::nullopt;
  }
  const auto entries = edit_interior(expected, *node, part);
  return entries ? std::optional(write_nodes(*entries, expected.height, false)) : std::nullopt;
}

TreeRoot TreeWriter::write(const RootedVersion* old, const Edits& edits) {
  removed_ = edits.removed;
  if (!old || old->empty()) {
    std::vector<LeafEntry> entries;
    entries.reserve(edits.edits.size());
    for (const auto& edit : edits.edits)
      if (!edit.remove) entries.push_back(edit.entry);
    return write_up(entries, 0);
  }
  const NodeExpectation expected = old->expect_root();
  const NodePtr root = reader_.load(expected);
  kept_.push_back(root);
  const Part all{.edits = edits.edits, .end = std::nullopt};
  if (expected.height == 0) {
    if (const auto entries = edit_leaf(expected, *root, all)) return write_up(*entries, 0);
  } else if (const auto entries = edit_interior(expected, *root, all)) {
    return write_up(*entries, expected.height);
  }
  const ResolvedFile& file = old->root.file;
  const auto number = files_.add(
      {.base_path = file.base_path(), .relative_path = file.path.substr(file.base_length)});
  return {.location =
              TreeRoot::Location{
                  .file = number, .offset = old->root.offset, .length = old->root.length},
          .height = old->version.root_height,
          .statistics = old->version.statistics};
}

}  // namespace cairn::inline v0::ocdbt
