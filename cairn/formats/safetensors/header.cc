// header.cc -- parses the header with every check of the reference, and writes it byte for byte as
// the reference does.
#include <cairn/formats/safetensors/header.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/json/scan.h>
#include <cairn/formats/files/weight_map.h>
#include <cairn/safetensors.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace cairn::inline v0 {
namespace {

constexpr std::array kSafetensorsTypes = {
    SafetensorsType{"BOOL", 8, DType::kBool},
    SafetensorsType{"F4", 4, DType::kFloat4E2m1fn},
    SafetensorsType{"F6_E2M3", 6, std::nullopt},
    SafetensorsType{"F6_E3M2", 6, std::nullopt},
    SafetensorsType{"U8", 8, DType::kUint8},
    SafetensorsType{"I8", 8, DType::kInt8},
    SafetensorsType{"F8_E5M2", 8, DType::kFloat8E5m2},
    SafetensorsType{"F8_E4M3", 8, DType::kFloat8E4m3fn},
    SafetensorsType{"F8_E8M0", 8, DType::kFloat8E8m0fnu},
    SafetensorsType{"F8_E4M3FNUZ", 8, DType::kFloat8E4m3fnuz},
    SafetensorsType{"F8_E5M2FNUZ", 8, DType::kFloat8E5m2fnuz},
    SafetensorsType{"I16", 16, DType::kInt16},
    SafetensorsType{"U16", 16, DType::kUint16},
    SafetensorsType{"F16", 16, DType::kFloat16},
    SafetensorsType{"BF16", 16, DType::kBfloat16},
    SafetensorsType{"I32", 32, DType::kInt32},
    SafetensorsType{"U32", 32, DType::kUint32},
    SafetensorsType{"F32", 32, DType::kFloat32},
    SafetensorsType{"C64", 64, DType::kComplex64},
    SafetensorsType{"F64", 64, DType::kFloat64},
    SafetensorsType{"I64", 64, DType::kInt64},
    SafetensorsType{"U64", 64, DType::kUint64},
};
constexpr std::string_view kJsonSpace = " \t\r\n";
constexpr std::string_view kMetadataKey = "__metadata__";
// The reference's parser fails at nesting level 128.
constexpr std::size_t kMaxHeaderDepth = 127;

// The bits of all elements, multiplied in the order of the dimensions. An overflow is an error even
// if a later extent is 0.
std::optional<std::uint64_t> bit_count(const SafetensorsType& type,
                                       std::span<const std::int64_t> shape) {
  std::uint64_t bits = 1;
  for (const auto n : shape)
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(n), &bits)) return std::nullopt;
  if (__builtin_mul_overflow(bits, std::uint64_t{type.bits}, &bits)) return std::nullopt;
  return bits;
}

std::size_t parse_type(JsonScanner& in) {
  const std::string name = in.string();
  const auto it = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                               [&](const SafetensorsType& t) { return t.name == name; });
  if (it == kSafetensorsTypes.end()) data_loss(fmt::format("unknown dtype \"{}\"", name));
  return static_cast<std::size_t>(it - kSafetensorsTypes.begin());
}

// The reference reads "-0" as a floating-point number, and does not accept floats as sizes.
std::int64_t parse_size(JsonScanner& in) {
  if (in.peek() == '-') in.fail("expected a non-negative integer");
  return in.integer();
}

Shape parse_shape(JsonScanner& in) {
  Shape shape;
  in.begin_array();
  while (in.next_item()) shape.push_back(parse_size(in));
  return shape;
}

std::pair<std::uint64_t, std::uint64_t> parse_offsets(JsonScanner& in) {
  std::int64_t offsets[2];
  std::size_t n = 0;
  in.begin_array();
  while (in.next_item()) {
    if (n == 2) in.fail("data_offsets has more than two integers");
    offsets[n++] = parse_size(in);
  }
  if (n != 2) in.fail("data_offsets has fewer than two integers");
  return {offsets[0], offsets[1]};
}

// Skips members that no version defines. They must still be JSON, without Python's extensions to
// it.
void check_ignored(std::string_view text) {
  const Json root = parse_json(text, {.max_depth = kMaxHeaderDepth - 2});
  std::vector<const Json*> todo{&root};
  while (!todo.empty()) {
    const Json& value = *todo.back();
    todo.pop_back();
    if (const auto* number = std::get_if<double>(&value.value());
        number != nullptr && !std::isfinite(*number))
      data_loss("a number is NaN or infinite, which JSON does not allow");
    if (const auto* array = value.as_array())
      for (const auto& element : *array) todo.push_back(&element);
    if (const auto* object = value.as_object())
      for (const auto& member : *object) todo.push_back(&member.second);
  }
}

void parse_entry(JsonScanner& in, SafetensorsEntry& entry) {
  bool has_type = false, has_shape = false, has_offsets = false;
  const auto once = [&](bool& has, std::string_view what) {
    if (std::exchange(has, true)) in.fail(fmt::format("\"{}\" appears twice", what));
  };
  std::string_view key;
  in.begin_object();
  while (in.next_member(key)) {
    if (key == "dtype") {
      once(has_type, key);
      entry.type = parse_type(in);
    } else if (key == "shape") {
      once(has_shape, key);
      entry.shape = parse_shape(in);
    } else if (key == "data_offsets") {
      once(has_offsets, key);
      std::tie(entry.begin, entry.end) = parse_offsets(in);
    } else {
      check_ignored(in.skip());
    }
  }
  if (!has_type) data_loss("dtype is missing");
  if (!has_shape) data_loss("shape is missing");
  if (!has_offsets) data_loss("data_offsets is missing");
}

std::vector<std::pair<std::string, std::string>> parse_metadata(JsonScanner& in) {
  std::vector<std::pair<std::string, std::string>> metadata;
  if (in.null()) return metadata;
  std::string_view key;
  in.begin_object();
  while (in.next_member(key)) {
    metadata.emplace_back(key, std::string());
    in.string(metadata.back().second);
  }
  std::vector<std::string_view> keys;
  keys.reserve(metadata.size());
  for (const auto& pair : metadata) keys.emplace_back(pair.first);
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
    data_loss(fmt::format("\"{}\" appears twice", *twice));
  return metadata;
}

// Parses everything; the layout of the tensors is checked later.
SafetensorsHeader parse_header(JsonScanner& scan) {
  SafetensorsHeader header;
  bool has_metadata = false;
  std::string_view name;
  scan.begin_object();
  while (scan.next_member(name)) {
    if (name != kMetadataKey) {
      SafetensorsEntry& entry = header.tensors.emplace_back();
      entry.name = name;
      with_context([&] { return fmt::format("tensor \"{}\"", entry.name); },
                   [&] { parse_entry(scan, entry); });
      continue;
    }
    if (std::exchange(has_metadata, true)) scan.fail("\"__metadata__\" appears twice");
    header.metadata =
        with_context([] { return kMetadataKey; }, [&] { return parse_metadata(scan); });
  }
  scan.finish();
  return header;
}

void check_size(const SafetensorsEntry& entry) {
  const auto& type = kSafetensorsTypes[entry.type];
  const auto bits = bit_count(type, entry.shape);
  const auto what = [&] {
    return fmt::format("tensor \"{}\": {} {}", entry.name, type.name, shape_text(entry.shape));
  };
  if (!bits) data_loss(what() + " overflows 64 bits");
  if (*bits % 8 != 0) data_loss(what() + " does not end on a byte");
  if (entry.end - entry.begin != *bits / 8)
    data_loss(fmt::format("{} takes {} bytes, but data_offsets [{}, {}] hold {}", what(), *bits / 8,
                          entry.begin, entry.end, entry.end - entry.begin));
}

// The tensors, sorted by offset, must cover the data exactly: holes could hide data, overlaps could
// multiply the memory.
void check_layout(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_size) {
  std::vector<const SafetensorsEntry*> sorted;
  sorted.reserve(tensors.size());
  for (const auto& entry : tensors) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = 0;
  for (const auto* entry : sorted) {
    if (entry->begin != at || entry->end < entry->begin)
      data_loss(fmt::format(
          "tensor \"{}\": data_offsets [{}, {}] leave a gap or overlap: expected begin {}",
          entry->name, entry->begin, entry->end, at));
    check_size(*entry);
    at = entry->end;
  }
  if (at != data_size)
    data_loss(fmt::format("tensors end at byte {} of the data, which has {} bytes", at, data_size));
}

// Compact JSON escapes the same characters as the reference's writer.
void append_text(std::string& out, std::string_view text) { out += to_text(Json(text)); }

void append_entry(std::string& out, const SafetensorsEntry& entry) {
  append_text(out, entry.name);
  out += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                     kSafetensorsTypes[entry.type].name, fmt::join(entry.shape, ","), entry.begin,
                     entry.end);
}

// The number of bytes of the JSON object at the beginning of the text; nullopt if it does not end.
std::optional<std::size_t> object_size(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    } else if (depth == 0) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// The JSON after a length field that may be damaged.
std::string_view json_after_prefix(ByteView first, std::uint64_t size) {
  const std::string_view rest = as_text(first.subspan(std::min<std::size_t>(8, first.size())));
  const auto length = try_call([&] { return decode_safetensors_prefix(first, size); });
  const std::optional<std::size_t> object = object_size(rest);
  if (!object) data_loss("the header does not end");
  const std::string_view padding =
      length && length.value() >= *object && length.value() <= rest.size()
          ? rest.substr(*object, length.value() - *object)
          : std::string_view("?");
  // Only space may follow the object.
  return rest.substr(0, padding.find_first_not_of(kJsonSpace) == std::string_view::npos
                            ? length.value()
                            : *object);
}

// Moves entries that cannot be right from the header to `refused`.
void refuse_entries(SafetensorsRemains& remains) {
  std::vector<SafetensorsEntry>& tensors = remains.header.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::vector<std::string> why(tensors.size());
  std::size_t last = 0;  // the entry that ends last of those before
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto sized = try_call([&] {
      if (tensors[i].end < tensors[i].begin) data_loss("data_offsets end before they begin");
      check_size(tensors[i]);
      return true;
    });
    if (!sized) why[i] = sized.error().message();
    if (i > 0 && tensors[i].begin < tensors[last].end && tensors[i].end > tensors[i].begin)
      why[i] = why[last] = fmt::format("the bytes of tensors \"{}\" and \"{}\" overlap",
                                       tensors[last].name, tensors[i].name);
    if (tensors[i].end > tensors[last].end) last = i;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (why[i].empty())
      std::swap(tensors[kept++], tensors[i]);
    else
      remains.refused.emplace_back(tensors[i].name, why[i]);
  tensors.resize(kept);
}

}  // namespace

SafetensorsRemains decode_safetensors_remains(ByteView first, std::uint64_t size) {
  const std::string_view json = json_after_prefix(first, size);
  JsonScanner scan(json);
  SafetensorsRemains remains{.header = parse_header(scan),
                             .data_start = kSafetensorsPrefix + json.size()};
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : remains.header.tensors) end = std::max(end, entry.end);
  const auto length = try_call([&] { return decode_safetensors_prefix(first, size); });
  if (!length || length.value() != json.size()) {
    // Writers align the data with up to seven spaces. Only in a file that is not truncated can one
    // tell how many.
    const std::uint64_t start = size - std::min(end, size);
    if (start < remains.data_start || start >= remains.data_start + 8)
      data_loss(
          "its length field is damaged, and the size of the file does not tell where the "
          "data begin");
    remains.data_start = start;
  }
  refuse_entries(remains);
  return remains;
}

std::span<const SafetensorsType> safetensors_types() { return kSafetensorsTypes; }

std::optional<std::string_view> safetensors_dtype(DType dtype) {
  for (const auto& type : kSafetensorsTypes)
    if (type.dtype == dtype) return type.name;
  return std::nullopt;
}

bool looks_like_safetensors(ByteView first) {
  if (first.size() <= kSafetensorsPrefix) return false;
  const std::string_view header = as_text(first.subspan(kSafetensorsPrefix));
  const auto at = header.find_first_not_of(kJsonSpace);
  return at != std::string_view::npos && header[at] == '{' &&
         ByteReader(first).u64() <= kSafetensorsMaxHeader;
}

bool looks_like_json_object(ByteView first) {
  return begins_as_json_object(first) && !looks_like_safetensors(first);
}

std::uint64_t decode_safetensors_prefix(ByteView prefix, std::uint64_t file_size) {
  if (prefix.size() < kSafetensorsPrefix)
    data_loss(fmt::format("{} bytes are too few for a safetensors file", prefix.size()));
  const std::uint64_t length = ByteReader(prefix).u64();
  if (length > kSafetensorsMaxHeader)
    data_loss(
        fmt::format("header of {} bytes, at most {} are allowed", length, kSafetensorsMaxHeader));
  if (length > file_size - kSafetensorsPrefix)
    data_loss(
        fmt::format("header of {} bytes, but the file has only {} bytes after its length field",
                    length, file_size - kSafetensorsPrefix));
  return length;
}

SafetensorsHeader decode_safetensors_header(ByteView json, std::uint64_t data_size) {
  return with_context(
      [] { return "header"; },
      [&] {
        // The reference also reads headers with white space before the '{'.
        const auto start = as_text(json).find_first_not_of(kJsonSpace);
        if (start == std::string_view::npos || as_text(json)[start] != '{')
          data_loss("does not begin with '{'");
        JsonScanner scan(as_text(json));
        SafetensorsHeader header = parse_header(scan);
        const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
        if (!std::is_sorted(header.tensors.begin(), header.tensors.end(), by_name))
          std::sort(header.tensors.begin(), header.tensors.end(), by_name);
        const auto twice =
            std::adjacent_find(header.tensors.begin(), header.tensors.end(),
                               [](const auto& a, const auto& b) { return a.name == b.name; });
        if (twice != header.tensors.end())
          data_loss(fmt::format("tensor \"{}\" appears twice", twice->name));
        check_layout(header.tensors, data_size);
        return header;
      });
}

std::optional<std::uint64_t> safetensors_nbytes(const SafetensorsType& type,
                                                std::span<const std::int64_t> shape) {
  const auto bits = bit_count(type, shape);
  if (!bits)
    throw Error(Code::kOutOfRange,
                fmt::format("{} {} overflows 64 bits", type.name, shape_text(shape)));
  if (*bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

Bytes encode_safetensors_header(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    append_text(json, kMetadataKey);
    json += ":{";
    for (const auto& [key, value] : header.metadata) {
      if (json.back() != '{') json += ',';
      append_text(json, key);
      json += ':';
      append_text(json, value);
    }
    json += '}';
  }
  for (const auto& entry : header.tensors) {
    if (json.back() != '{') json += ',';
    append_entry(json, entry);
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kSafetensorsMaxHeader)
    throw Error(
        Code::kInvalidArgument,
        fmt::format(
            "the header would take {} bytes, readers accept {}; write shards (max_shard_bytes)",
            json.size(), kSafetensorsMaxHeader));
  ByteWriter out;
  out.u64(json.size()).text(json);
  return std::move(out).take();
}

}  // namespace cairn::inline v0
