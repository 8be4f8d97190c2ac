// element_type.cc -- parses the element types of Zarr v2 (NumPy typestrs) and v3.
#include <cairn/zarr/metadata/element_type.h>

#include <cairn/error.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace cairn::inline v0::zarr {
namespace {

// Far above any real element size. It bounds the memory for the fill value of a hostile type.
constexpr std::size_t kMaxElementSize = std::size_t{1} << 20U;
constexpr int kMaxStructDepth = 16;

[[noreturn]] void bad_type(std::string_view member, const Json& found) {
  throw Error(Code::kDataLoss,
              std::string(member) + ": " + to_text(found) + " is not an element type");
}

[[noreturn]] void unknown_type(std::string_view member, std::string_view name,
                               std::string_view why) {
  throw Error(Code::kUnimplemented, std::string(member) + " '" + std::string(name) +
                                        "' is not supported" + std::string(why));
}

std::optional<std::size_t> parse_size(std::string_view digits) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value > kMaxElementSize)
    return std::nullopt;
  return value;
}

ElementType known(DType dtype) {
  const std::size_t size = dtype_size(dtype);
  return {.dtype = dtype,
          .size = size,
          .name = std::string(dtype_name(dtype)),
          .big_endian = false,
          .needs_endian = size > 1};
}

ElementType opaque(std::size_t size, std::string name) {
  return {.dtype = DType::kOpaque,
          .size = size,
          .name = std::move(name),
          .big_endian = false,
          .needs_endian = false};
}

// ---- v2 ----

std::optional<DType> numpy_type(char kind, std::size_t size) {
  switch (kind) {
    case 'b':
      return size == 1 ? std::optional(DType::kBool) : std::nullopt;
    case 'i':
      if (size == 1) return DType::kInt8;
      if (size == 2) return DType::kInt16;
      if (size == 4) return DType::kInt32;
      return size == 8 ? std::optional(DType::kInt64) : std::nullopt;
    case 'u':
      if (size == 1) return DType::kUint8;
      if (size == 2) return DType::kUint16;
      if (size == 4) return DType::kUint32;
      return size == 8 ? std::optional(DType::kUint64) : std::nullopt;
    case 'f':
      if (size == 2) return DType::kFloat16;
      if (size == 4) return DType::kFloat32;
      return size == 8 ? std::optional(DType::kFloat64) : std::nullopt;
    case 'c':
      if (size == 8) return DType::kComplex64;
      return size == 16 ? std::optional(DType::kComplex128) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// Accepts "M8", "M8[ns]", "m8[10s]". The unit stays in the name; Cairn does not interpret it.
bool is_time(std::string_view rest) {
  if (!rest.starts_with("M8") && !rest.starts_with("m8")) return false;
  rest.remove_prefix(2);
  return rest.empty() ||
         (rest.size() >= 3 && rest.size() <= 24 && rest.front() == '[' && rest.back() == ']');
}

std::optional<ElementType> opaque_typestr(std::string_view text, char kind,
                                          std::optional<std::size_t> size) {
  if (is_time(text.substr(1))) return opaque(8, std::string(text));
  if (!size || *size == 0) return std::nullopt;
  if (kind == 'S' || kind == 'V' || kind == 'a') return opaque(*size, std::string(text));
  if (kind == 'U' && *size <= kMaxElementSize / 4) return opaque(*size * 4, std::string(text));
  return std::nullopt;
}

// Types that NumPy lacks are stored under their bare names and are always little-endian.
std::optional<DType> extension_type(std::string_view name) {
  const auto dtype = dtype_from_name(name);
  if (!dtype) return std::nullopt;
  const DTypeKind kind = dtype_kind(*dtype);
  const bool small_int =
      (kind == DTypeKind::kInt || kind == DTypeKind::kUint) && dtype_bits(*dtype) < 8;
  const bool small_float =
      kind == DTypeKind::kFloat && (dtype_bits(*dtype) <= 8 || *dtype == DType::kBfloat16);
  return small_int || small_float ? dtype : std::nullopt;
}

bool is_object(std::string_view text) { return text == "|O" || text == "O" || text == "object"; }

ElementType parse_typestr(const std::string& text) {
  if (const auto dtype = extension_type(text)) return known(*dtype);
  const std::string_view view = text;
  const char order = text.empty() ? '\0' : text[0];
  if (is_object(text)) unknown_type("dtype", text, ": its elements have no fixed size");
  if (text.size() < 3 || (order != '<' && order != '>' && order != '|'))
    unknown_type("dtype", text, "");
  const char kind = text[1];
  const auto size = parse_size(view.substr(2));
  if (size) {
    if (const auto dtype = numpy_type(kind, *size)) {
      if (order == '|' && *size > 1)
        throw Error(Code::kDataLoss, "dtype '" + text + "' lacks a byte order, '<' or '>'");
      ElementType type = known(*dtype);
      type.big_endian = order == '>' && *size > 1;
      return type;
    }
  }
  if (const auto type = opaque_typestr(view, kind, size)) return *type;
  unknown_type("dtype", text, "");
}

std::size_t checked_product(std::size_t a, std::size_t b, std::string_view member) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxElementSize)
    throw Error(Code::kDataLoss, std::string(member) + ": the element size exceeds " +
                                     std::to_string(kMaxElementSize) + " bytes");
  return product;
}

std::size_t structure_size(const JsonArray& fields, int depth);

// Returns the size of a field: [name, type] or [name, type, inner shape]. The type may be a
// structure.
std::size_t field_size(const Json& field, int depth) {
  const JsonArray* parts = field.as_array();
  if (!parts || parts->size() < 2 || parts->size() > 3 || !(*parts)[0].as_string())
    bad_type("dtype: field", field);
  const Json& type = (*parts)[1];
  std::size_t size = 0;
  if (const auto* nested = type.as_array()) {
    size = structure_size(*nested, depth + 1);
  } else if (const auto* text = type.as_string()) {
    size = parse_typestr(*text).size;
  } else {
    bad_type("dtype: field", field);
  }
  if (parts->size() == 2) return size;
  const JsonArray* shape = (*parts)[2].as_array();
  if (!shape) bad_type("dtype: field", field);
  for (const Json& extent : *shape) {
    const auto n = extent.as_uint64();
    if (!n || *n == 0) bad_type("dtype: field", field);
    size = checked_product(size, *n, "dtype");
  }
  return size;
}

std::size_t structure_size(const JsonArray& fields, int depth) {
  if (fields.empty()) throw Error(Code::kDataLoss, "dtype: the structure has no fields");
  if (depth > kMaxStructDepth)
    throw Error(Code::kUnimplemented, "dtype: structures nested too deeply");
  std::size_t size = 0;
  for (const Json& field : fields) {
    size += field_size(field, depth);
    checked_product(size, 1, "dtype");
  }
  return size;
}

// ---- v3 ----

constexpr std::string_view kVariableLength[] = {"string", "bytes", "variable_length_utf8",
                                                "variable_length_bytes", "object"};

bool is_variable_length(std::string_view name) {
  return std::find(std::begin(kVariableLength), std::end(kVariableLength), name) !=
         std::end(kVariableLength);
}

const Json& require(const Json* config, std::string_view member, std::string_view type) {
  const Json* value = config ? config->find(member) : nullptr;
  if (!value)
    throw Error(Code::kDataLoss, "data_type '" + std::string(type) + "' lacks '" +
                                     std::string(member) + "' in its configuration");
  return *value;
}

std::size_t length_bytes(const Json* config, const std::string& type) {
  const auto n = require(config, "length_bytes", type).as_uint64();
  if (!n || *n == 0 || *n > kMaxElementSize)
    throw Error(Code::kDataLoss, "data_type '" + type + "': length_bytes is not a valid size");
  return *n;
}

// zarr-python 3 stores the unit and the scale factor of M8 separately.
std::string time_name(std::string_view kind, const Json* config, const std::string& type) {
  const auto* unit = require(config, "unit", type).as_string();
  const auto scale = require(config, "scale_factor", type).as_uint64();
  if (!unit || !scale || *scale == 0)
    throw Error(Code::kDataLoss, "data_type '" + type + "': unit or scale_factor is not valid");
  std::string name = "<" + std::string(kind);
  if (*unit == "generic") return name;
  name += '[';
  if (*scale != 1) name += std::to_string(*scale);
  return name + *unit + "]";
}

ElementType parse_structure(const Json* config, const std::string& type, int depth);

ElementType parse_named(const std::string& name, const Json* config, int depth) {
  if (const auto dtype = dtype_from_name(name); dtype && *dtype != DType::kOpaque)
    return known(*dtype);
  if (name == "fixed_length_utf32") {
    const std::size_t size = length_bytes(config, name);
    if (size % 4 != 0)
      throw Error(Code::kDataLoss,
                  "data_type 'fixed_length_utf32': length_bytes is not a multiple of 4");
    ElementType type = opaque(size, "<U" + std::to_string(size / 4));
    type.needs_endian = true;
    return type;
  }
  if (name == "null_terminated_bytes") {
    const std::size_t size = length_bytes(config, name);
    return opaque(size, "|S" + std::to_string(size));
  }
  if (name == "raw_bytes") {
    const std::size_t size = length_bytes(config, name);
    return opaque(size, "|V" + std::to_string(size));
  }
  if (name == "numpy.datetime64" || name == "numpy.timedelta64") {
    ElementType type = opaque(8, time_name(name == "numpy.datetime64" ? "M8" : "m8", config, name));
    type.needs_endian = true;
    return type;
  }
  if (name == "struct" || name == "structured") return parse_structure(config, name, depth);
  if (name.size() > 1 && name[0] == 'r') {
    const auto bits = parse_size(std::string_view(name).substr(1));
    if (bits && *bits > 0 && *bits % 8 == 0)
      return opaque(*bits / 8, "|V" + std::to_string(*bits / 8));
  }
  unknown_type("data_type", name,
               is_variable_length(name) ? ": its elements have no fixed size" : "");
}

ElementType parse_data_type(const Json& data_type, int depth) {
  if (depth > kMaxStructDepth)
    throw Error(Code::kUnimplemented, "data_type: structures nested too deeply");
  if (const auto* name = data_type.as_string()) return parse_named(*name, nullptr, depth);
  const Json* name = data_type.find("name");
  if (!name || !name->as_string()) bad_type("data_type", data_type);
  return parse_named(*name->as_string(), data_type.find("configuration"), depth);
}

// Fields are [name, type] pairs or {"name":, "data_type":} objects, packed without gaps.
ElementType parse_structure(const Json* config, const std::string& type, int depth) {
  const Json& list = require(config, "fields", type);
  const JsonArray* fields = list.as_array();
  if (!fields || fields->empty())
    throw Error(Code::kDataLoss, "data_type '" + type + "': fields must be a non-empty list");
  std::size_t size = 0;
  for (const Json& field : *fields) {
    const JsonArray* pair = field.as_array();
    const Json* field_type = pair && pair->size() == 2 ? &(*pair)[1] : field.find("data_type");
    if (!field_type) bad_type("data_type: field", field);
    size = checked_product(size + parse_data_type(*field_type, depth + 1).size, 1, "data_type");
  }
  return opaque(size, to_text(list));
}

}  // namespace

ElementType parse_v2_dtype(const Json& dtype) {
  if (const auto* text = dtype.as_string())
    return is_object(*text) ? opaque(0, "|O") : parse_typestr(*text);
  if (const auto* fields = dtype.as_array())
    return opaque(structure_size(*fields, 0), to_text(dtype));
  bad_type("dtype", dtype);
}

ElementType parse_v3_data_type(const Json& data_type) {
  const Json* member = data_type.find("name");
  const std::string* name = data_type.as_string() ? data_type.as_string()
                            : member              ? member->as_string()
                                                  : nullptr;
  if (name && is_variable_length(*name)) return opaque(0, *name);
  return parse_data_type(data_type, 0);
}

}  // namespace cairn::inline v0::zarr
