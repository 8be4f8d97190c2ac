// btree.h -- a node of the B+tree that maps keys to values: its codec and the search inside a node.
//
// Body (by column, see data_files.h):
//      height                        u8            0: leaf
//      data file table
//      num_entries n                 varint32      1 .. 2^20
//      key_prefix_length             varint16      n - 1, bytes shared with the key before
//      key_suffix_length             varint16      n
//      subtree_common_prefix_length  varint16      n, only if interior
//      key suffixes                  bytes         n, concatenated
//   leaf:
//      value_length                  varint64      n
//      value_kind                    u8            n; 0 inline, 1 out of line
//      file id, offset               varint64      of the out-of-line entries
//      value bytes                   bytes         of the inline entries, concatenated
//   interior:
//      file id, offset, length       varint64      n
//      num_keys, num_tree_bytes, num_indirect_value_bytes    varint64    n
//
// Keys are relative to the prefix P of the node; the root has an empty prefix. An interior entry
// with key k and common prefix length s refers to a node whose prefix is P + k[:s]. All keys in
// that node are at least k[s:].
#pragma once

#include <cairn/base/memory/raw_bytes.h>
#include <cairn/bytes.h>
#include <cairn/ocdbt/format/data_files.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::ocdbt {

// The limits of a key, a node and an inline value.
inline constexpr std::size_t kMaxKeyLength = 65535;
inline constexpr std::size_t kMaxNodeEntries = std::size_t{1} << 20U;
inline constexpr std::uint64_t kMaxInlineValue = std::uint64_t{1} << 20U;

// Strictly increasing keys, concatenated in one string.
class KeyList {
 public:
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return {text_.data() + begin, ends_[i] - begin};
  }
  [[nodiscard]] std::string_view front() const { return (*this)[0]; }
  [[nodiscard]] std::string_view back() const { return (*this)[size() - 1]; }
  // Returns the length of the longest key.
  [[nodiscard]] std::size_t longest() const { return longest_; }
  // Returns the memory of the keys in bytes.
  [[nodiscard]] std::size_t bytes() const { return text_.size() + ends_.size() * sizeof(ends_[0]); }
  // Returns the index of the first key >= `key`; size() if there is none.
  [[nodiscard]] std::size_t lower_bound(std::string_view key) const;
  // Returns the index of `key`; size() if it is absent. Looks first just behind index `near`, where
  // a caller that reads keys in order finds the next one.
  [[nodiscard]] std::size_t find(std::string_view key, std::size_t near) const;
  // Returns the index of the first key > `key`; size() if there is none.
  [[nodiscard]] std::size_t upper_bound(std::string_view key) const;
  // Returns the indices [first, last) of the keys that start with `prefix`.
  [[nodiscard]] std::pair<std::size_t, std::size_t> with_prefix(std::string_view prefix) const;

  // Reserves memory for this many keys with this many bytes in total.
  void reserve(std::size_t keys, std::size_t bytes);
  // Appends a key: the first `shared` bytes of the last key, then `suffix`. It must be greater than
  // the last key.
  void append(std::size_t shared, std::string_view suffix);
  // Appends a key, which must be greater than the last key.
  void push_back(std::string_view key) { append(0, key); }

  bool operator==(const KeyList&) const = default;

 private:
  std::string text_;
  std::vector<std::uint32_t> ends_;
  std::size_t longest_ = 0;
};

// The value of a leaf entry: bytes [offset, offset + length) of BtreeNode::storage if inline, else
// of a data file.
struct LeafValue {
  static constexpr std::uint32_t kInline = 0xffffffff;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t file = kInline;  // index in BtreeNode::files

  [[nodiscard]] bool is_inline() const { return file == kInline; }
};

// The reference to a child node, and the statistics of its subtree.
struct ChildNode {
  DataRef location{};
  Statistics statistics{};
  std::uint16_t subtree_common_prefix_length = 0;
  bool operator==(const ChildNode&) const = default;
};

// A decoded node.
struct BtreeNode {
  std::uint8_t height = 0;
  DataFileTable files;
  KeyList keys;
  std::vector<LeafValue> values;    // one for each key if height == 0
  std::vector<ChildNode> children;  // one for each key if height > 0
  RawBytes storage;                 // holds the inline values; may hold other bytes, too

  // Returns the bytes of an inline value.
  [[nodiscard]] ByteView inline_value(const LeafValue& v) const {
    return ByteView(storage).subspan(v.offset, v.length);
  }
  // Append an entry; keys must increase. Inline values are copied into `storage`.
  void add_inline(std::string_view key, ByteView value);
  void add_out_of_line(std::string_view key, const DataRef& value);
  void add_child(std::string_view key, const ChildNode& child);
  // Returns the approximate memory of the node in bytes.
  [[nodiscard]] std::size_t footprint() const;
};
// Compares the meaning of two nodes; the position of a value in `storage` does not matter.
bool operator==(const BtreeNode& a, const BtreeNode& b);

// Decodes a node. Throws data_loss. The first form takes ownership of the bytes, so that inline
// values stay in place.
BtreeNode decode_btree_node(RawBytes encoded);
BtreeNode decode_btree_node(ByteView encoded);

// The entries of a node that is to be encoded, borrowed from their owners. One span element for
// each key, except for `inline_values`.
struct NodeEntries {
  std::uint8_t height = 0;
  const DataFileTable& files;
  std::span<const std::string_view> keys;   // strictly increasing
  std::span<const LeafValue> values;        // if height == 0; the offsets of inline values mean
                                            // nothing
  std::span<const ByteView> inline_values;  // of the inline entries, in order
  std::span<const ChildNode> children;      // if height > 0
};
// Encode a node; zstd_level nullopt: not compressed. A large node whose inline values do not shrink
// is not compressed either.
Bytes encode_btree_node(const NodeEntries& node, std::optional<std::int32_t> zstd_level);
Bytes encode_btree_node(const BtreeNode& node, std::optional<std::int32_t> zstd_level);

}  // namespace cairn::inline v0::ocdbt
