// tree_metadata_text.cc -- writes `_METADATA`, byte for byte as Python's json.dumps does for Orbax.
#include <cairn/base/json/json.h>
#include <cairn/base/utf8.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Whether Python's repr prints the character unescaped. Besides controls it escapes format
// characters, separators other than the space, surrogates, private use and non-characters. Readers
// accept both forms; this only makes the output identical.
bool is_printable(std::uint32_t code) {
  using Range = std::pair<std::uint32_t, std::uint32_t>;
  static constexpr std::array<Range, 21> kNot = {
      {{0x00, 0x1f},       {0x7f, 0xa0},     {0xad, 0xad},       {0x600, 0x605},
       {0x61c, 0x61c},     {0x6dd, 0x6dd},   {0x70f, 0x70f},     {0x1680, 0x1680},
       {0x180e, 0x180e},   {0x2000, 0x200f}, {0x2028, 0x202f},   {0x205f, 0x206f},
       {0x3000, 0x3000},   {0xd800, 0xf8ff}, {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},
       {0xfff0, 0xfffb},   {0xfffe, 0xffff}, {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff},
       {0xf0000, 0x10ffff}}};
  return std::none_of(kNot.begin(), kNot.end(), [&](const Range& range) {
    return code >= range.first && code <= range.second;
  });
}

void append_escape(std::string& out, std::uint32_t code) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const unsigned digits = code <= 0xff ? 2 : code <= 0xffff ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (unsigned shift = 4 * digits; shift > 0; shift -= 4) out += kHex[code >> (shift - 4) & 0xfU];
}

// Appends a string as Python's repr formats a str.
void append_repr(std::string& out, std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  while (!text.empty()) {
    const Utf8Character c = decode_utf8(text);
    if (!c.valid) throw Error(Code::kInvalidArgument, "a key of the tree is not valid UTF-8");
    if (c.code == '\n')
      out += "\\n";
    else if (c.code == '\r')
      out += "\\r";
    else if (c.code == '\t')
      out += "\\t";
    else if (!is_printable(c.code))
      append_escape(out, c.code);
    else if (c.code == '\\' || c.code == static_cast<unsigned char>(quote))
      (out += '\\') += text[0];
    else
      out += text.substr(0, c.length);
    text.remove_prefix(c.length);
  }
  out += quote;
}

// Formats a path as a Python tuple: "('a', '0')", "('a',)", "()".
std::string tuple_repr(const KeyPath& path) {
  std::string text = "(";
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i > 0) text += ", ";
    append_repr(text, path[i].text);
  }
  return text + (path.size() == 1 ? ",)" : ")");
}

void append_quoted(std::string& out, const std::string& text) {
  if (is_plain_text(text))
    ((out += '"') += text) += '"';
  else
    out += python_quoted(text);
}

// Appends tuple_repr(path) in quotes.
void append_quoted_tuple(std::string& out, const KeyPath& path) {
  const bool plain =
      std::all_of(path.begin(), path.end(), [](const Key& key) { return is_plain_text(key.text); });
  if (!plain) {
    out += python_quoted(tuple_repr(path));
    return;
  }
  out += "\"(";
  for (const Key& key : path) ((out += &key == path.data() ? "'" : ", '") += key.text) += '\'';
  out += path.size() == 1 ? ",)\"" : ")\"";
}

void append_leaf(std::string& out, const LeafMetadata& leaf) {
  append_quoted_tuple(out, leaf.path);
  out += ": {\"key_metadata\": [";
  for (std::size_t i = 0; i < leaf.path.size(); ++i) {
    out += i > 0 ? ", {\"key\": " : "{\"key\": ";
    append_quoted(out, leaf.path[i].text);
    out += ", \"key_type\": ";
    out += static_cast<char>('0' + static_cast<int>(leaf.path[i].type));
    out += '}';
  }
  out += "], \"value_metadata\": {\"value_type\": ";
  append_quoted(out, leaf.value_type);
  out += leaf.skip_deserialize ? ", \"skip_deserialize\": true" : ", \"skip_deserialize\": false";
  if (leaf.write_shape) {
    out += ", \"write_shape\": [";
    for (std::size_t d = 0; d < leaf.write_shape->size(); ++d)
      (out += d > 0 ? ", " : "") += std::to_string((*leaf.write_shape)[d]);
    out += "]";
  }
  out += "}}";
}

// About the bytes that append_leaf appends.
std::size_t text_bytes(const LeafMetadata& leaf) {
  std::size_t bytes = 112 + leaf.value_type.size();
  for (const Key& key : leaf.path) bytes += 36 + 2 * key.text.size();
  if (leaf.write_shape) bytes += 32 + 8 * leaf.write_shape->size();
  return bytes;
}

}  // namespace

std::string python_quoted(std::string text) {
  return to_text(Json(std::move(text)), JsonStyle::kPython);
}

bool is_plain_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '\'';
  });
}

std::string tree_metadata_text(const TreeMetadata& metadata) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  std::size_t bytes = 1024 + metadata.rich_types.size() + metadata.key_types.size();
  for (const LeafMetadata& leaf : metadata.leaves) bytes += text_bytes(leaf);
  std::string out;
  out.reserve(bytes);
  out += "{\"tree_metadata\": {";
  for (const LeafMetadata& leaf : metadata.leaves) {
    if (&leaf != metadata.leaves.data()) out += ", ";
    append_leaf(out, leaf);
  }
  out += "}";
  if (metadata.use_ocdbt) (out += ", \"use_ocdbt\": ") += flag(*metadata.use_ocdbt);
  (out += ", \"use_zarr3\": ") += flag(metadata.use_zarr3);
  (out += ", \"store_array_data_equal_to_fill_value\": ") +=
      flag(metadata.store_array_data_equal_to_fill_value);
  const Json custom =
      metadata.custom_metadata.empty() ? Json() : parse_json(metadata.custom_metadata);
  out += ", \"custom_metadata\": " + to_text(custom, JsonStyle::kPython);
  if (!metadata.rich_types.empty()) (out += ", \"value_metadata_tree\": ") += metadata.rich_types;
  if (!metadata.key_types.empty()) (out += ", \"cairn_key_types\": ") += metadata.key_types;
  out += '}';
  return out;
}

}  // namespace cairn::inline v0
