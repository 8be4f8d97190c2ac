// node_reader.h -- reads B+tree nodes, verifies them against their parents, and caches them.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/ocdbt/format/btree.h>
#include <cairn/storage/kvstore.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace cairn::inline v0::ocdbt {

// The location of an encoded object in the database's store.
struct ObjectPlace {
  ResolvedFile file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
// Returns the location of a reference. Throws data_loss if the path is not safe to open.
ObjectPlace resolve_ref(const DataRef& ref, const DataFileTable& files, std::string_view base_path);
// Returns "b+tree node in d/12ab [20, 80)", for messages.
std::string describe_object(const KvStore& base, std::string_view what, const ObjectPlace& place);
// Returns a remark for the message that a data file is too short: what it is if it is a Git LFS
// pointer, else "".
std::string short_file_remark(const KvStore& base, const std::string& file);

// Reads an object. Throws data_loss for a missing or too short file, because a stored object refers
// to it.
RawBytes read_object(const KvStore& base, const ObjectPlace& place);

// A node's location and the properties that its parent (for a root: the version) states for it.
struct NodeExpectation {
  ObjectPlace place{};
  std::uint8_t height = 0;
  std::string prefix{};  // the prefix of all its keys
  // lower bound of its keys, without the prefix
  std::string inclusive_min{};
  std::optional<std::string> exclusive_max{};  // exclusive upper bound
};

// A decoded node and the base path for its references.
struct LoadedNode {
  BtreeNode node;
  std::string base_path;  // its file table is resolved against this path

  // The paths of the first files of the table; empty for a path that is not safe to open.
  std::vector<std::string> paths = {};

  // Returns the resolved path of file number `index` in the node's table.
  [[nodiscard]] ResolvedFile file(std::size_t index) const {
    return resolve_file(node.files[index], base_path);
  }
  // Calls use(path) with that path. Thousands of values share a file, so the path is resolved once.
  template <class F>
  decltype(auto) with_path(std::size_t index, F use) const {
    if (index < paths.size() && !paths[index].empty()) return use(paths[index]);
    return use(file(index).path);
  }
};
using NodePtr = std::shared_ptr<const LoadedNode>;

// Returns the expectation for child number `index` of a node.
NodeExpectation expect_child(const LoadedNode& parent, const NodeExpectation& parent_expectation,
                             std::size_t index);

// The properties of a node that its parent's claims are verified against.
struct NodeOutline {
  std::uint8_t height = 0;
  std::string_view first_key, last_key;
  std::size_t longest_key = 0;
};
// Returns the outline of a node. It borrows the node's keys.
NodeOutline outline(const BtreeNode& node);
// Throws data_loss if the node differs from its parent's expectation.
void check_expected(const NodeOutline& node, const NodeExpectation& expected);

// Reads and decodes a node without verifying it against a parent. The base path comes from `place`.
LoadedNode read_btree_node(const KvStore& base, const ObjectPlace& place);

// A cache of decoded nodes that reads each node once. Safe to use from many threads.
class NodeReader {
 public:
  // `threads` as in Resources: how many nodes a pass over the tree reads at once.
  explicit NodeReader(StorePtr base, std::size_t threads = 0)
      : base_(std::move(base)), workers_(threads) {}

  // Returns the node; reads it if it is not cached. Verifies it against `expected` in both cases.
  // Throws data_loss.
  [[nodiscard]] NodePtr load(const NodeExpectation& expected);
  [[nodiscard]] Executor& executor() const { return workers_.executor(); }

 private:
  struct Slot {
    std::mutex loading;  // locked during the read, so that other threads wait for the node
    NodePtr node;
  };
  [[nodiscard]] std::shared_ptr<Slot> slot(const ObjectPlace& place);
  void keep_within_budget(std::size_t more);

  StorePtr base_;
  Workers workers_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace cairn::inline v0::ocdbt
