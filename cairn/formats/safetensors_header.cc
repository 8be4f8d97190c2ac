// safetensors_header.cc -- parsing with every check of the reference, and writing byte for byte as it does.
#include <cairn/base/byte_io.h>
#include <cairn/base/json.h>
#include <cairn/formats.h>
#include <cairn/formats/safetensors_header.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cairn {
namespace {

constexpr std::array kTypes = {
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
constexpr std::string_view kMetadataKey = "__metadata__";
// The reference's parser gives up at the 128th level.
constexpr std::size_t kMaxDepth = 127;

[[noreturn]] void damaged(const std::string& what) { throw Error(Code::kDataLoss, what); }

// Bits of all elements, multiplied in the order of the dimensions: an overflow counts even if a later extent is 0.
std::optional<std::uint64_t> bit_count(const SafetensorsType& type, std::span<const std::int64_t> shape) {
  std::uint64_t bits = 1;
  for (const auto n : shape)
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(n), &bits)) return std::nullopt;
  if (__builtin_mul_overflow(bits, std::uint64_t{type.bits}, &bits)) return std::nullopt;
  return bits;
}

std::size_t parse_type(const Json& json) {
  const auto* name = json.as_string();
  if (name == nullptr) damaged(fmt::format("dtype is {}, not a string", json.type_text()));
  const auto it = std::find_if(kTypes.begin(), kTypes.end(), [&](const SafetensorsType& t) { return t.name == *name; });
  if (it == kTypes.end()) damaged(fmt::format("unknown dtype \"{}\"", *name));
  return static_cast<std::size_t>(it - kTypes.begin());
}

Shape parse_shape(const Json& json) {
  const auto* extents = json.as_array();
  if (extents == nullptr) damaged(fmt::format("shape is {}, not an array", json.type_text()));
  Shape shape;
  shape.reserve(extents->size());
  for (const auto& extent : *extents) {
    const auto n = extent.as_int64();
    if (!n || *n < 0) damaged(fmt::format("extent {} of the shape is not an integer from 0 to 2^63 - 1", shape.size()));
    shape.push_back(*n);
  }
  return shape;
}

std::pair<std::uint64_t, std::uint64_t> parse_offsets(const Json& json) {
  const auto* pair = json.as_array();
  if (pair == nullptr || pair->size() != 2) damaged("data_offsets is not an array of two integers");
  const auto begin = (*pair)[0].as_uint64();
  const auto end = (*pair)[1].as_uint64();
  if (!begin || !end) damaged("data_offsets is not an array of two unsigned 64-bit integers");
  return {*begin, *end};
}

// Members that no version defines are skipped, but numbers in them must still be JSON.
void check_ignored(const Json& json) {
  std::vector<const Json*> todo{&json};
  while (!todo.empty()) {
    const Json& value = *todo.back();
    todo.pop_back();
    if (const auto* number = std::get_if<double>(&value.value()); number != nullptr && !std::isfinite(*number))
      damaged("a number that JSON does not have (NaN or infinite)");
    if (const auto* array = value.as_array())
      for (const auto& element : *array) todo.push_back(&element);
    if (const auto* object = value.as_object())
      for (const auto& member : *object) todo.push_back(&member.second);
  }
}

SafetensorsEntry parse_entry(std::string name, const Json& json) {
  const auto* members = json.as_object();
  if (members == nullptr) damaged(fmt::format("{} instead of an object with dtype, shape and data_offsets", json.type_text()));
  const Json *dtype = nullptr, *shape = nullptr, *offsets = nullptr;
  for (const auto& member : *members) {
    const Json** slot = member.first == "dtype"          ? &dtype
                        : member.first == "shape"        ? &shape
                        : member.first == "data_offsets" ? &offsets
                                                         : nullptr;
    if (slot == nullptr) {
      check_ignored(member.second);
      continue;
    }
    if (*slot != nullptr) damaged(fmt::format("\"{}\" appears twice", member.first));
    *slot = &member.second;
  }
  if (dtype == nullptr) damaged("dtype is missing");
  if (shape == nullptr) damaged("shape is missing");
  if (offsets == nullptr) damaged("data_offsets is missing");
  SafetensorsEntry entry{.name = std::move(name), .type = parse_type(*dtype), .shape = parse_shape(*shape)};
  std::tie(entry.begin, entry.end) = parse_offsets(*offsets);
  return entry;
}

std::vector<std::pair<std::string, std::string>> parse_metadata(const Json& json) {
  std::vector<std::pair<std::string, std::string>> metadata;
  if (json.is_null()) return metadata;
  const auto* members = json.as_object();
  if (members == nullptr) damaged(fmt::format("{} instead of an object of strings", json.type_text()));
  for (const auto& member : *members) {
    const auto* text = member.second.as_string();
    if (text == nullptr) damaged(fmt::format("\"{}\" is {}, not a string", member.first, member.second.type_text()));
    metadata.emplace_back(member.first, *text);
  }
  std::vector<std::string_view> keys;
  for (const auto& pair : metadata) keys.emplace_back(pair.first);
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
    damaged(fmt::format("\"{}\" appears twice", *twice));
  return metadata;
}

void check_size(const SafetensorsEntry& entry) {
  const auto& type = kTypes[entry.type];
  const auto bits = bit_count(type, entry.shape);
  const auto what = [&] { return fmt::format("tensor \"{}\": {} {}", entry.name, type.name, shape_text(entry.shape)); };
  if (!bits) damaged(what() + " overflows 64 bits");
  if (*bits % 8 != 0) damaged(what() + " does not end on a byte");
  if (entry.end - entry.begin != *bits / 8)
    damaged(fmt::format("{} takes {} bytes, but data_offsets [{}, {}] hold {}", what(), *bits / 8, entry.begin, entry.end,
                        entry.end - entry.begin));
}

// The tensors, sorted by offset, must cover the data exactly: holes could hide things, overlaps could blow up memory.
void check_layout(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_size) {
  std::vector<const SafetensorsEntry*> sorted;
  sorted.reserve(tensors.size());
  for (const auto& entry : tensors) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  std::uint64_t at = 0;
  for (const auto* entry : sorted) {
    if (entry->begin != at || entry->end < entry->begin)
      damaged(fmt::format("tensor \"{}\": data_offsets [{}, {}] leave a hole or overlap: {} expected as begin", entry->name, entry->begin,
                          entry->end, at));
    check_size(*entry);
    at = entry->end;
  }
  if (at != data_size) damaged(fmt::format("tensors end at byte {} of the data, which has {} bytes", at, data_size));
}

// Compact JSON escapes exactly what the reference's writer does.
void append_text(std::string& out, std::string_view text) { out += to_text(Json(text)); }

void append_entry(std::string& out, const SafetensorsEntry& entry) {
  append_text(out, entry.name);
  out += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", kTypes[entry.type].name, fmt::join(entry.shape, ","),
                     entry.begin, entry.end);
}

}  // namespace

std::span<const SafetensorsType> safetensors_types() { return kTypes; }

std::optional<std::string_view> safetensors_dtype(DType dtype) {
  for (const auto& type : kTypes)
    if (type.dtype == dtype) return type.name;
  return std::nullopt;
}

bool looks_like_safetensors(ByteView first) {
  if (first.size() <= kSafetensorsPrefix) return false;
  return ByteReader(first).u64() <= kSafetensorsMaxHeader && first[kSafetensorsPrefix] == std::byte{'{'};
}

bool looks_like_json_object(ByteView first) {
  const auto text = as_text(first);
  const auto at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && text[at] == '{' && !looks_like_safetensors(first);
}

std::uint64_t decode_safetensors_prefix(ByteView prefix, std::uint64_t file_size) {
  if (prefix.size() < kSafetensorsPrefix) damaged(fmt::format("{} bytes are too few for a safetensors file", prefix.size()));
  const std::uint64_t length = ByteReader(prefix).u64();
  if (length > kSafetensorsMaxHeader) damaged(fmt::format("header of {} bytes, at most {} are allowed", length, kSafetensorsMaxHeader));
  if (length > file_size - kSafetensorsPrefix)
    damaged(fmt::format("header of {} bytes, but the file has only {} bytes behind its length", length, file_size - kSafetensorsPrefix));
  return length;
}

SafetensorsHeader decode_safetensors_header(ByteView json, std::uint64_t data_size) {
  if (json.empty() || json.front() != std::byte{'{'}) damaged("header does not begin with '{'");
  const Json root = in([] { return "header"; }, [&] { return parse_json(as_text(json), {.max_depth = kMaxDepth}); });
  SafetensorsHeader header;
  bool has_metadata = false;
  header.tensors.reserve(root.as_object()->size());
  for (const auto& member : *root.as_object()) {
    if (member.first != kMetadataKey) {
      header.tensors.push_back(
          in([&] { return fmt::format("tensor \"{}\"", member.first); }, [&] { return parse_entry(member.first, member.second); }));
      continue;
    }
    if (std::exchange(has_metadata, true)) damaged("\"__metadata__\" appears twice in the header");
    header.metadata = in([] { return kMetadataKey; }, [&] { return parse_metadata(member.second); });
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != header.tensors.end()) damaged(fmt::format("tensor \"{}\" appears twice in the header", twice->name));
  check_layout(header.tensors, data_size);
  return header;
}

std::optional<std::uint64_t> safetensors_nbytes(const SafetensorsType& type, std::span<const std::int64_t> shape) {
  const auto bits = bit_count(type, shape);
  if (!bits) throw Error(Code::kOutOfRange, fmt::format("{} {} overflows 64 bits", type.name, shape_text(shape)));
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
    throw Error(Code::kInvalidArgument, fmt::format("the header would take {} bytes, readers accept {}; write shards (max_shard_bytes)",
                                                    json.size(), kSafetensorsMaxHeader));
  ByteWriter out;
  out.u64(json.size()).text(json);
  return std::move(out).take();
}

}  // namespace cairn
