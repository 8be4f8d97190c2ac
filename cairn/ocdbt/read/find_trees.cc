#include <cairn/ocdbt/read/find_trees.h>

#include <cairn/base/byte_io.h>
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/ocdbt/read/node_reader.h>
#include <cairn/ocdbt/read/open_tree.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace cairn::inline v0::ocdbt {
namespace {

constexpr std::uint64_t kWindow = std::uint64_t{1} << 22U;
constexpr std::uint64_t kHead = 12;  // the magic number and the length
constexpr std::string_view kNodeMagic("\x0c\xdb\x20\xde", 4);

// A node, and how many keys are below it as far as it says.
struct NodeAt {
  ObjectPlace place;
  std::uint8_t height = 0;
  std::uint64_t keys = 0;
};
using PlaceKey = std::tuple<std::string, std::uint64_t>;

// The length of the folder above that of the data file: "ocdbt.process_0/" of
// "ocdbt.process_0/d/12ab".
std::size_t base_length(std::string_view path) {
  const std::size_t folder = path.rfind('/');
  if (folder == std::string_view::npos || folder == 0) return 0;
  const std::size_t base = path.rfind('/', folder - 1);
  return base == std::string_view::npos ? 0 : base + 1;
}

class NodeSearch {
 public:
  explicit NodeSearch(const KvStore& base) : base_(base) {}

  void look_through(const std::string& path, std::uint64_t size) {
    for (std::uint64_t at = 0; at < size; at += kWindow) {
      const auto window = try_call([&] {
        return base_.read(path, {at, std::min(size - at, kWindow + kHead)});
      });
      if (!window || !window.value()) continue;  // a part of the file that cannot be read
      const std::string_view text = as_text(*window.value());
      // npos is larger than any position.
      for (std::size_t p = text.find(kNodeMagic); p < kWindow; p = text.find(kNodeMagic, p + 1))
        if (text.size() - p >= kHead)
          add(path, at + p, size,
              ByteReader(ByteView(*window.value()).subspan(p + kNodeMagic.size())).u64());
    }
  }

  // The nodes to which no other node refers.
  [[nodiscard]] std::vector<NodeAt> roots() const {
    std::vector<NodeAt> found;
    for (const NodeAt& node : nodes_)
      if (!referenced_.contains({node.place.file.path, node.place.offset})) found.push_back(node);
    std::ranges::sort(found, [](const NodeAt& a, const NodeAt& b) {
      return std::tie(a.keys, a.place.offset) > std::tie(b.keys, b.place.offset);
    });
    return found;
  }

 private:
  void add(const std::string& path, std::uint64_t offset, std::uint64_t size,
           std::uint64_t length) {
    if (length < kMinEncodedSize || length > kMaxEncodedSize || length > size - offset) return;
    const ObjectPlace place{{path, base_length(path)}, offset, length};
    const auto loaded = try_call([&] { return read_btree_node(base_, place); });
    if (!loaded) return;  // bytes that only look like a node, or a damaged one
    const LoadedNode& node = loaded.value();
    std::uint64_t keys = node.node.height == 0 ? node.node.keys.size() : 0;
    for (const ChildNode& child : node.node.children) {
      keys += child.statistics.num_keys;
      const auto file = try_call([&] { return node.file(child.location.file); });
      if (file) referenced_.emplace(file.value().path, child.location.offset);
    }
    nodes_.push_back({place, node.node.height, keys});
  }

  const KvStore& base_;
  std::vector<NodeAt> nodes_;
  std::set<PlaceKey> referenced_;
};

}  // namespace

std::vector<FoundTree> find_trees(const StorePtr& base, std::size_t threads) {
  NodeSearch search(*base);
  const auto files = try_call([&] { return base->list(""); });
  if (!files) return {};
  for (const ListEntry& file : files.value()) search.look_through(file.key, file.size);
  std::vector<FoundTree> trees;
  for (const NodeAt& root : search.roots())
    trees.push_back(
        {open_tree(base, NodeExpectation{.place = root.place, .height = root.height}, threads),
         fmt::format("{}, byte {}", base->describe(root.place.file.path), root.place.offset)});
  return trees;
}

}  // namespace cairn::inline v0::ocdbt
