// btree.h -- a node of the B+tree that maps keys to values: decoding, encoding and search inside
// it.
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
// Keys are relative to the prefix P of the node (root: empty). Below an interior entry with key k
// and common prefix length s lies a node whose prefix is P + k[:s]; no key in it is less than
// k[s:].
#pragma once

#include <cairn/bytes.h>
#include <cairn/ocdbt/format/data_files.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::ocdbt {

inline constexpr std::size_t kMaxKeyLength = 65535;
inline constexpr std::size_t kMaxNodeEntries = std::size_t{1} << 20U;
inline constexpr std::uint64_t kMaxInlineValue = std::uint64_t{1} << 20U;

// Strictly increasing keys, back to back in one piece of memory.
class KeyList {
 public:
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return {text_.data() + begin, ends_[i] - begin};
  }
  [[nodiscard]] std::string_view front() const { return (*this)[0]; }
  [[nodiscard]] std::string_view back() const { return (*this)[size() - 1]; }
  [[nodiscard]] std::size_t longest() const { return longest_; }
  [[nodiscard]] std::size_t bytes() const { return text_.size() + ends_.size() * sizeof(ends_[0]); }
  // Index of the first key >= `key`; size() if there is none.
  [[nodiscard]] std::size_t lower_bound(std::string_view key) const;
  // Index of the first key > `key`; size() if there is none.
  [[nodiscard]] std::size_t upper_bound(std::string_view key) const;
  // Indices [first, last) of the keys that start with `prefix`.
  [[nodiscard]] std::pair<std::size_t, std::size_t> with_prefix(std::string_view prefix) const;

  void reserve(std::size_t keys, std::size_t bytes);
  // The first `shared` bytes of the last key, then `suffix`; must be greater than the last key.
  void append(std::size_t shared, std::string_view suffix);
  void push_back(std::string_view key) { append(0, key); }

  bool operator==(const KeyList&) const = default;

 private:
  std::string text_;
  std::vector<std::uint32_t> ends_;
  std::size_t longest_ = 0;
};

// A leaf's value. Inline: bytes [offset, offset + length) of BtreeNode::storage; else of a data
// file.
struct LeafValue {
  static constexpr std::uint32_t kInline = 0xffffffff;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t file = kInline;  // index in BtreeNode::files

  [[nodiscard]] bool is_inline() const { return file == kInline; }
};

struct ChildNode {
  DataRef location{};
  Statistics statistics{};
  std::uint16_t subtree_common_prefix_length = 0;
  bool operator==(const ChildNode&) const = default;
};

struct BtreeNode {
  std::uint8_t height = 0;
  DataFileTable files;
  KeyList keys;
  std::vector<LeafValue> values;    // one a key if height == 0
  std::vector<ChildNode> children;  // one a key if height > 0
  Bytes storage;                    // where inline values lie; may hold other bytes too

  [[nodiscard]] ByteView inline_value(const LeafValue& v) const {
    return ByteView(storage).subspan(v.offset, v.length);
  }
  // Adds an entry; keys in increasing order. Inline values are copied into `storage`.
  void add_inline(std::string_view key, ByteView value);
  void add_out_of_line(std::string_view key, const DataRef& value);
  void add_child(std::string_view key, const ChildNode& child);
  // Bytes of memory it takes, about.
  [[nodiscard]] std::size_t footprint() const;
};
// Same meaning; where in `storage` a value lies does not count.
bool operator==(const BtreeNode& a, const BtreeNode& b);

// Takes the file's bytes, because inline values stay where they are. Throws data_loss.
BtreeNode decode_btree_node(Bytes encoded);
Bytes encode_btree_node(const BtreeNode& node, std::optional<std::int32_t> zstd_level);

}  // namespace cairn::ocdbt
