// node_reader.cc -- reads, verifies and caches B+tree nodes.
#include <cairn/ocdbt/read/node_reader.h>

#include <cairn/base/errors.h>
#include <cairn/base/git_lfs.h>
#include <cairn/ocdbt/format/envelope.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::ocdbt {
namespace {

// Enough for a million keys. Beyond it, the cache is emptied and nodes are read again.
constexpr std::size_t kCacheBytes = std::size_t{256} << 20U;

// The key includes the base path: two objects of one file may have different base paths, and then
// their references mean different files.
std::string place_key(const ObjectPlace& place) {
  std::string key = place.file.path;
  const std::uint64_t numbers[] = {place.file.base_length, place.offset, place.length};
  key.append(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  return key;
}

}  // namespace

ObjectPlace resolve_ref(const DataRef& ref, const DataFileTable& files,
                        std::string_view base_path) {
  return {
      .file = resolve_file(files[ref.file], base_path), .offset = ref.offset, .length = ref.length};
}

std::string describe_object(const KvStore& base, std::string_view what, const ObjectPlace& place) {
  return fmt::format("{} in {} [{}, {})", what, base.describe(place.file.path), place.offset,
                     place.offset + place.length);
}

std::string short_file_remark(const KvStore& base, const std::string& file) {
  const auto first =
      try_call([&] { return base.read(file, {.offset = 0, .length = kLfsPointer.size()}); });
  if (!first || !first.value() || !is_lfs_pointer(ByteView(*first.value()))) return "";
  return fmt::format("; the file {}", kIsLfsPointer);
}

RawBytes read_object(const KvStore& base, const ObjectPlace& place) {
  try {
    check_before_reading(place.length, [&](std::uint64_t at, MutableByteView out) {
      if (!base.read_into(place.file.path, place.offset + at, out))
        data_loss("the data file is missing");
    });
    RawBytes bytes(place.length);
    if (base.read_into(place.file.path, place.offset, bytes)) return bytes;
  } catch (const Error& e) {
    if (e.code() != Code::kOutOfRange) throw;
    data_loss(fmt::format("the data file ends before: {}{}", e.message(),
                          short_file_remark(base, place.file.path)));
  }
  data_loss("the data file is missing");
}

NodeExpectation expect_child(const LoadedNode& parent, const NodeExpectation& parent_expectation,
                             std::size_t index) {
  const BtreeNode& node = parent.node;
  const ChildNode& child = node.children[index];
  const std::string_view key = node.keys[index];
  const std::string_view shared = key.substr(0, child.subtree_common_prefix_length);
  NodeExpectation expected;
  expected.place = resolve_ref(child.location, node.files, parent.base_path);
  expected.height = static_cast<std::uint8_t>(node.height - 1);
  expected.prefix.reserve(parent_expectation.prefix.size() + shared.size());
  expected.prefix.append(parent_expectation.prefix).append(shared);
  expected.inclusive_min = key.substr(shared.size());
  // The next sibling's key bounds this child; the parent's bound applies to the last child. A bound
  // that does not start with the child's prefix is greater than all keys that do.
  std::optional<std::string_view> bound;
  if (index + 1 < node.keys.size())
    bound = node.keys[index + 1];
  else if (parent_expectation.exclusive_max)
    bound = *parent_expectation.exclusive_max;
  if (bound && bound->starts_with(shared)) expected.exclusive_max = bound->substr(shared.size());
  return expected;
}

NodeOutline outline(const BtreeNode& node) {
  return {.height = node.height,
          .first_key = node.keys.front(),
          .last_key = node.keys.back(),
          .longest_key = node.keys.longest()};
}

void check_expected(const NodeOutline& node, const NodeExpectation& expected) {
  if (node.height != expected.height)
    data_loss(fmt::format("expected height of {} but received: {}", unsigned{expected.height},
                          unsigned{node.height}));
  if (expected.prefix.size() + node.longest_key > kMaxKeyLength)
    data_loss(fmt::format("full key length {} exceeds limit of {}",
                          expected.prefix.size() + node.longest_key, kMaxKeyLength));
  if (node.first_key < expected.inclusive_min)
    data_loss(fmt::format("first key '{}' is less than inclusive_min '{}' specified by parent node",
                          node.first_key, expected.inclusive_min));
  if (expected.exclusive_max && node.last_key >= *expected.exclusive_max)
    data_loss(
        fmt::format("last key '{}' is not less than exclusive_max '{}' specified by parent node",
                    node.last_key, *expected.exclusive_max));
}

LoadedNode read_btree_node(const KvStore& base, const ObjectPlace& place) {
  // Not more: a hostile table may have very many files below a very long base path.
  constexpr std::size_t kMostPaths = 64;
  LoadedNode loaded{.node = decode_btree_node(read_object(base, place)),
                    .base_path = place.file.base_path()};
  check_path_lengths(loaded.node.files, loaded.base_path.size());
  for (std::size_t i = 0; i < std::min(loaded.node.files.size(), kMostPaths); ++i) {
    auto file = try_call([&] { return loaded.file(i).path; });
    loaded.paths.push_back(file ? std::move(file).value() : std::string());
  }
  return loaded;
}

std::shared_ptr<NodeReader::Slot> NodeReader::slot(const ObjectPlace& place) {
  const std::string key = place_key(place);
  const std::lock_guard lock(mutex_);
  auto& slot = slots_[key];
  if (!slot) slot = std::make_shared<Slot>();
  return slot;
}

void NodeReader::keep_within_budget(std::size_t more) {
  const std::lock_guard lock(mutex_);
  kept_bytes_ += more;
  if (kept_bytes_ <= kCacheBytes) return;
  slots_.clear();  // nodes in use stay alive through their users' pointers
  kept_bytes_ = 0;
}

NodePtr NodeReader::load(const NodeExpectation& expected) {
  return with_context(
      [&] { return describe_object(*base_, "b+tree node", expected.place); },
      [&] {
        const auto slot_ptr = slot(expected.place);
        const std::lock_guard lock(slot_ptr->loading);
        if (!slot_ptr->node) {
          auto loaded = std::make_shared<const LoadedNode>(read_btree_node(*base_, expected.place));
          keep_within_budget(loaded->node.footprint());
          slot_ptr->node = std::move(loaded);
        }
        check_expected(outline(slot_ptr->node->node), expected);
        return slot_ptr->node;
      });
}

}  // namespace cairn::inline v0::ocdbt
