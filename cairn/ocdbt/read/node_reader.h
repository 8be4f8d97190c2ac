// node_reader.h -- reads B+tree nodes through what their parents say about them, and keeps them.
#pragma once

#include <cairn/kvstore.h>
#include <cairn/ocdbt/format/btree.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace cairn::ocdbt {

// Where an encoded object lies in the store of the database.
struct ObjectPlace {
  ResolvedFile file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
ObjectPlace resolve_ref(const DataRef& ref, const DataFileTable& files, std::string_view base_path);
// "b+tree node in d/12ab [20, 80)", for messages.
std::string describe_object(const KvStore& base, std::string_view what, const ObjectPlace& place);
// Its bytes. A file that is missing or too short is data_loss: something that is stored refers to
// it.
Bytes read_object(const KvStore& base, const ObjectPlace& place);

// A node and everything its parent (for a root: the version) says about it.
struct NodeExpectation {
  ObjectPlace place{};
  std::uint8_t height = 0;
  std::string prefix{};  // of all its keys
  // its keys, without the prefix, are not less than this
  std::string inclusive_min{};
  std::optional<std::string> exclusive_max{};  // and less than this
};

struct LoadedNode {
  BtreeNode node;
  std::string base_path;  // that its file table is resolved against

  [[nodiscard]] ResolvedFile file(std::size_t index) const {
    return resolve_file(node.files[index], base_path);
  }
};
using NodePtr = std::shared_ptr<const LoadedNode>;

NodeExpectation expect_child(const LoadedNode& parent, const NodeExpectation& parent_expectation,
                             std::size_t index);

// Outline of a node that its parent can be checked against.
struct NodeOutline {
  std::uint8_t height = 0;
  std::string_view first_key, last_key;
  std::size_t longest_key = 0;
};
NodeOutline outline(const BtreeNode& node);
// Throws data_loss if the node is not what its parent expects.
void check_expected(const NodeOutline& node, const NodeExpectation& expected);

// Decodes without looking at a parent, but for the base path.
LoadedNode read_btree_node(const KvStore& base, const ObjectPlace& place);

// Decoded nodes, each read once. Safe to use from many threads.
class NodeReader {
 public:
  explicit NodeReader(StorePtr base) : base_(std::move(base)) {}

  // Reads the node unless it is there already; checked against `expected` either way.
  [[nodiscard]] NodePtr load(const NodeExpectation& expected);

 private:
  struct Slot {
    std::mutex loading;  // held while reading, so that others who want this node wait for it
    NodePtr node;
  };
  [[nodiscard]] std::shared_ptr<Slot> slot(const ObjectPlace& place);
  void keep_within_budget(std::size_t more);

  StorePtr base_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace cairn::ocdbt
