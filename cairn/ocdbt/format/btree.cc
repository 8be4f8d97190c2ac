// btree.cc -- the codec of B+tree nodes, and the search among a node's keys.
#include <cairn/ocdbt/format/btree.h>

#include <cairn/base/errors.h>
#include <cairn/base/memory/name_budget.h>
#include <cairn/codec/decompress.h>
#include <cairn/ocdbt/format/envelope.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace cairn::inline v0::ocdbt {
namespace {

// The key columns of one node, from which the keys are assembled.
struct KeyColumns {
  std::vector<std::uint16_t> prefix, suffix, subtree;
};

std::uint16_t read_u16(ByteReader& in) { return static_cast<std::uint16_t>(in.varint(0xffff)); }

KeyColumns read_key_columns(ByteReader& in, std::size_t n, bool interior) {
  KeyColumns c;
  c.prefix.resize(n);
  c.suffix.resize(n);
  for (std::size_t i = 1; i < n; ++i) c.prefix[i] = read_u16(in);
  for (auto& length : c.suffix) length = read_u16(in);
  if (interior) c.subtree.resize(n);
  for (auto& length : c.subtree) length = read_u16(in);
  return c;
}

// Checks every key length and returns their sum.
std::uint64_t check_key_lengths(const KeyColumns& c) {
  std::uint64_t total = 0;
  std::size_t before = 0;
  for (std::size_t i = 0; i < c.suffix.size(); ++i) {
    const std::size_t length = std::size_t{c.prefix[i]} + c.suffix[i];
    if (c.prefix[i] > before)
      data_loss(fmt::format("key {}: prefix length {} exceeds the {} bytes of the key before", i,
                            c.prefix[i], before));
    if (length > kMaxKeyLength)
      data_loss(fmt::format("key {}: key length {} exceeds limit of {}", i, length, kMaxKeyLength));
    if (!c.subtree.empty() && c.subtree[i] > length)
      data_loss(fmt::format("key {}: subtree common prefix length {} exceeds key length {}", i,
                            c.subtree[i], length));
    total += length;
    before = length;
  }
  return total;
}

KeyList read_keys(ByteReader& in, const KeyColumns& c) {
  KeyList keys;
  const std::uint64_t total = check_key_lengths(c);
  const std::size_t encoded = in.offset() + in.remaining();
  check_expansion(total, encoded, "keys of a b+tree node");
  check_name_budget(total, encoded);
  keys.reserve(c.suffix.size(), total);
  for (std::size_t i = 0; i < c.suffix.size(); ++i) {
    const std::string_view suffix = in.text(c.suffix[i]);
    // The shared bytes are equal, so the bytes after them decide the order.
    if (i > 0 && suffix <= keys.back().substr(c.prefix[i]))
      data_loss(fmt::format("invalid key order: key {} is not greater than key {} '{}'", i, i - 1,
                            keys.back()));
    keys.append(c.prefix[i], suffix);
  }
  return keys;
}

// `begin` is the offset of the body in node.storage.
void read_values(ByteReader& in, BtreeNode& node, std::size_t n, std::size_t begin) {
  node.values.resize(n);
  for (auto& v : node.values) v.length = in.varint();
  const ByteView kinds = in.take(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto kind = std::to_integer<unsigned>(kinds[i]);
    if (kind > 1)
      data_loss(fmt::format("value_kind[{}]={} is outside valid range [0, 1]", i, kind));
    if (kind == 0 && node.values[i].length > kMaxInlineValue)
      data_loss(fmt::format("value_length[{}]={} exceeds maximum of {} for an inline value", i,
                            node.values[i].length, kMaxInlineValue));
  }
  const auto out_of_line = [&](std::size_t i) { return kinds[i] == std::byte{1}; };
  for (std::size_t i = 0; i < n; ++i) {
    if (!out_of_line(i)) continue;
    const std::uint64_t file = in.varint();
    check_file_id(file, std::min<std::size_t>(node.files.size(), LeafValue::kInline), i);
    node.values[i].file = static_cast<std::uint32_t>(file);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (!out_of_line(i)) continue;
    node.values[i].offset = in.varint();
    check_data_ref({.offset = node.values[i].offset, .length = node.values[i].length},
                   AllowMissing::kNo, i);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (out_of_line(i)) continue;
    node.values[i].offset = begin + in.offset();
    in.take(node.values[i].length);
  }
}

void read_children(ByteReader& in, BtreeNode& node, const KeyColumns& columns) {
  node.children.resize(columns.subtree.size());
  for (std::size_t i = 0; i < node.children.size(); ++i)
    node.children[i].subtree_common_prefix_length = columns.subtree[i];
  read_data_refs(in, node.children, &ChildNode::location, node.files.size(), AllowMissing::kNo);
  read_statistics(in, node.children, &ChildNode::statistics);
}

void write_keys(ByteWriter& out, const NodeEntries& node) {
  const std::size_t n = node.keys.size();
  std::vector<std::size_t> shared(n);
  for (std::size_t i = 1; i < n; ++i) {
    const std::string_view a = node.keys[i - 1], b = node.keys[i];
    shared[i] = static_cast<std::size_t>(
        std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  }
  for (std::size_t i = 1; i < n; ++i) out.varint(shared[i]);
  for (std::size_t i = 0; i < n; ++i) out.varint(node.keys[i].size() - shared[i]);
  for (const auto& child : node.children) out.varint(child.subtree_common_prefix_length);
  for (std::size_t i = 0; i < n; ++i) out.text(node.keys[i].substr(shared[i]));
}

// Writes the columns of the values, without the bytes of the inline values behind them.
void write_value_columns(ByteWriter& out, const NodeEntries& node) {
  for (const auto& v : node.values) out.varint(v.length);
  for (const auto& v : node.values) out.u8(v.is_inline() ? 0 : 1);
  for (const auto& v : node.values)
    if (!v.is_inline()) out.varint(v.file);
  for (const auto& v : node.values)
    if (!v.is_inline()) out.varint(v.offset);
}

std::uint64_t inline_bytes(const NodeEntries& node) {
  std::uint64_t bytes = 0;
  for (const ByteView value : node.inline_values) bytes += value.size();
  return bytes;
}

// Returns whether zstd takes at least a quarter off the values, judged by a sample spread over
// them. Compressing a node takes 20 times as long as writing it.
bool shrink(std::span<const ByteView> values) {
  constexpr std::size_t kPlaces = 8;
  constexpr std::size_t kAtEach = std::size_t{8} << 10U;  // bytes
  constexpr int kFastLevel = 1;
  Bytes sample;
  for (std::size_t place = 0; place < kPlaces; ++place) {
    std::size_t i = values.size() / kPlaces * place;
    const std::size_t end = sample.size() + kAtEach;
    for (; sample.size() < end && i < values.size(); ++i)
      sample.insert(sample.end(), values[i].begin(), values[i].end());
  }
  return compress_zstd(sample, kFastLevel, false).size() <= sample.size() / 4 * 3;
}

}  // namespace

std::size_t KeyList::lower_bound(std::string_view key) const {
  std::size_t first = 0;
  for (std::size_t count = size(); count > 0;) {
    const std::size_t half = count / 2;
    if ((*this)[first + half] < key) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

std::size_t KeyList::find(std::string_view key, std::size_t near) const {
  // An array has two keys, of which a caller may read only one.
  constexpr std::size_t kNear = 2;
  for (std::size_t i = near + 1; i <= near + kNear && i < size(); ++i)
    if ((*this)[i] == key) return i;
  const std::size_t i = lower_bound(key);
  return i < size() && (*this)[i] == key ? i : size();
}

std::size_t KeyList::upper_bound(std::string_view key) const {
  const std::size_t i = lower_bound(key);
  return i < size() && (*this)[i] == key ? i + 1 : i;  // keys are distinct
}

std::pair<std::size_t, std::size_t> KeyList::with_prefix(std::string_view prefix) const {
  const std::size_t first = lower_bound(prefix);
  std::size_t last = first;
  for (std::size_t count = size() - first; count > 0;) {
    const std::size_t half = count / 2;
    if ((*this)[last + half].starts_with(prefix)) {
      last += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return {first, last};
}

void KeyList::reserve(std::size_t keys, std::size_t bytes) {
  ends_.reserve(keys);
  text_.reserve(bytes);
}

void KeyList::append(std::size_t shared, std::string_view suffix) {
  if (shared > 0) text_.append(text_, ends_.empty() ? 0 : text_.size() - back().size(), shared);
  text_ += suffix;
  ends_.push_back(static_cast<std::uint32_t>(text_.size()));
  longest_ = std::max(longest_, shared + suffix.size());
}

void BtreeNode::add_inline(std::string_view key, ByteView value) {
  keys.push_back(key);
  values.push_back({.offset = storage.size(), .length = value.size()});
  storage.insert(storage.end(), value.begin(), value.end());
}

void BtreeNode::add_out_of_line(std::string_view key, const DataRef& value) {
  keys.push_back(key);
  values.push_back({.offset = value.offset,
                    .length = value.length,
                    .file = static_cast<std::uint32_t>(value.file)});
}

void BtreeNode::add_child(std::string_view key, const ChildNode& child) {
  keys.push_back(key);
  children.push_back(child);
}

std::size_t BtreeNode::footprint() const {
  std::size_t bytes = keys.bytes() + values.size() * sizeof(LeafValue) +
                      children.size() * sizeof(ChildNode) + storage.size();
  for (const auto& f : files) bytes += sizeof(f) + f.base_path.size() + f.relative_path.size();
  return bytes;
}

bool operator==(const BtreeNode& a, const BtreeNode& b) {
  if (a.height != b.height || a.files != b.files || !(a.keys == b.keys) ||
      a.children != b.children || a.values.size() != b.values.size())
    return false;
  return std::equal(a.values.begin(), a.values.end(), b.values.begin(),
                    [&](const LeafValue& x, const LeafValue& y) {
                      if (x.file != y.file || x.length != y.length) return false;
                      if (!x.is_inline()) return x.offset == y.offset;
                      return std::ranges::equal(a.inline_value(x), b.inline_value(y));
                    });
}

namespace {

BtreeNode decode_body(Envelope envelope) {
  BtreeNode node;
  node.storage = std::move(envelope.storage);
  ByteReader in(ByteView(node.storage).subspan(envelope.begin, envelope.end - envelope.begin));
  node.height = in.u8();
  node.files = read_data_files(in);
  const std::uint64_t n = in.varint(0xffffffffU);
  if (n == 0) data_loss("empty b-tree node");
  if (n > kMaxNodeEntries)
    data_loss(
        fmt::format("b-tree node has arity {}, which exceeds limit of {}", n, kMaxNodeEntries));
  if (n > in.remaining())
    data_loss(fmt::format("unexpected end of data: {} entries in {} bytes", n, in.remaining()));
  const KeyColumns columns = read_key_columns(in, n, node.height > 0);
  node.keys = read_keys(in, columns);
  if (node.height > 0)
    read_children(in, node, columns);
  else
    read_values(in, node, n, envelope.begin);
  in.finish();
  return node;
}

}  // namespace

BtreeNode decode_btree_node(RawBytes encoded) {
  return decode_body(open_envelope(ObjectKind::kBtreeNode, std::move(encoded)));
}

BtreeNode decode_btree_node(ByteView encoded) {
  return decode_body(open_envelope(ObjectKind::kBtreeNode, encoded));
}

Bytes encode_btree_node(const NodeEntries& node, std::optional<std::int32_t> zstd_level) {
  // For a smaller node, time does not matter.
  constexpr std::uint64_t kSampled = std::uint64_t{256} << 10U;
  ByteWriter out;
  out.u8(node.height);
  write_data_files(out, node.files);
  out.varint(node.keys.size());
  write_keys(out, node);
  if (node.height > 0) {
    write_data_refs(out, node.children, &ChildNode::location);
    write_statistics(out, node.children, &ChildNode::statistics);
  } else {
    write_value_columns(out, node);
  }
  if (inline_bytes(node) >= kSampled && !shrink(node.inline_values)) zstd_level.reset();
  std::vector<ByteView> parts{out.view()};
  parts.insert(parts.end(), node.inline_values.begin(), node.inline_values.end());
  return seal_parts(ObjectKind::kBtreeNode, parts, zstd_level);
}

Bytes encode_btree_node(const BtreeNode& node, std::optional<std::int32_t> zstd_level) {
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < node.keys.size(); ++i) keys.push_back(node.keys[i]);
  std::vector<ByteView> inline_values;
  for (const LeafValue& value : node.values)
    if (value.is_inline()) inline_values.push_back(node.inline_value(value));
  return encode_btree_node({.height = node.height,
                            .files = node.files,
                            .keys = keys,
                            .values = node.values,
                            .inline_values = inline_values,
                            .children = node.children},
                           zstd_level);
}

}  // namespace cairn::inline v0::ocdbt
