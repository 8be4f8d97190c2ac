#include <cairn/formats/pytorch/tensors/numpy_value.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/tensors/fields.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

namespace cairn::inline v0::pytorch {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

namespace {

struct NumberType {
  std::string_view code;
  DType dtype;
};
constexpr NumberType kNumbers[] = {
    {"b1", DType::kBool},      {"i1", DType::kInt8},       {"i2", DType::kInt16},
    {"i4", DType::kInt32},     {"i8", DType::kInt64},      {"u1", DType::kUint8},
    {"u2", DType::kUint16},    {"u4", DType::kUint32},     {"u8", DType::kUint64},
    {"f2", DType::kFloat16},   {"f4", DType::kFloat32},    {"f8", DType::kFloat64},
    {"c8", DType::kComplex64}, {"c16", DType::kComplex128}};

constexpr std::uint64_t kMostOfArray = std::uint64_t{1} << 62U;

void set_unreadable(NumpyValue& out) {
  out.unreadable = "NumPy's type " + out.dtype_name + " is not one that Cairn reads from a pickle";
}

// numpy.dtype('f4', False, True) with the state (3, '<', ...). Types of records and of strings have
// a class or another function in its place.
void take_dtype(const Pickle& p, Value dtype, NumpyValue& out) {
  const bool is_call = p.kind(dtype) == Kind::kCall || p.kind(dtype) == Kind::kObject;
  if (!is_call) data_loss("an array of NumPy has no dtype");
  const std::string callee = global_text(p, p.part(dtype, pickle::Part::kCallee));
  const Value arguments = p.part(dtype, pickle::Part::kArguments);
  const bool has_code = callee == "numpy.dtype" && p.kind(arguments) == Kind::kTuple &&
                        !p.items(arguments).empty() && is_text(p, p.items(arguments)[0]);
  if (!has_code) {
    const bool has_class = callee == "numpy.dtype" && p.kind(arguments) == Kind::kTuple &&
                           !p.items(arguments).empty() &&
                           p.kind(p.items(arguments)[0]) == Kind::kGlobal;
    out.dtype_name = has_class ? global_text(p, p.items(arguments)[0]) : callee;
    return set_unreadable(out);
  }
  const std::string code(name_field(p, p.items(arguments)[0]));
  std::string order = "|";
  if (const auto state = state_of(p, dtype);
      state && p.kind(*state) == Kind::kTuple && p.items(*state).size() > 1)
    order = name_field(p, p.items(*state)[1]);
  const auto* const number = std::ranges::find(kNumbers, code, &NumberType::code);
  if (number != std::end(kNumbers)) {
    out.dtype = number->dtype;
    out.dtype_name = dtype_name(number->dtype);
    out.element_size = dtype_size(number->dtype);
    out.big_endian = order == ">" && out.element_size > 1;
    return;
  }
  out.dtype_name = order + code;
  const auto parsed = std::from_chars(code.data() + std::min<std::size_t>(1, code.size()),
                                      code.data() + code.size(), out.element_size);
  const bool has_size = parsed.ec == std::errc() && parsed.ptr == code.data() + code.size();
  const bool is_text = code.starts_with('S') || code.starts_with('U');
  if (code.starts_with('U')) out.element_size *= 4;
  if (!has_size || !is_text || out.element_size == 0 || out.element_size > INT32_MAX)
    set_unreadable(out);
}

// Shape of the stored array, and whether it is in Fortran order.
void take_shape(const Pickle& p, Value shape, bool is_fortran, NumpyValue& out) {
  out.shape = extents_field(p, shape);
  const std::size_t rank = out.shape.size();
  if (rank > kMostDimensions) {
    out.unreadable = fmt::format("it has {} dimensions; NumPy has up to {}", rank, kMostDimensions);
    return;
  }
  for (std::size_t d = rank; is_fortran && rank > 1 && d-- > 0;)
    out.axes.push_back(static_cast<std::uint8_t>(d));
}

// The bytes of a str of Python 2 or of bytes; of protocol 2 they are a text in Latin-1, which takes
// a call.
Bytes stored_bytes(const Pickle& p, Value value) {
  const Kind kind = p.kind(value);
  if (kind == Kind::kBytes || kind == Kind::kByteArray || kind == Kind::kByteString)
    return {p.bytes(value).begin(), p.bytes(value).end()};
  const std::string name =
      kind == Kind::kCall ? global_text(p, p.part(value, pickle::Part::kCallee)) : "";
  if (name == "_codecs.encode" || name == "__builtin__.bytes" || name == "builtins.bytes") {
    Meaning meaning = meaning_of(p, value);
    if (auto* bytes = std::get_if<ByteText>(&meaning)) return std::move(bytes->bytes);
  }
  data_loss("an array of NumPy has no bytes");
}

// Whether a value may have this many bytes: a text in Latin-1 has one or two for each of them.
// Comes before a copy of bytes that may be shared by any number of arrays.
void check_length(const Pickle& p, Value value, std::uint64_t bytes) {
  const Value tuple =
      p.kind(value) == Kind::kCall ? p.part(value, pickle::Part::kArguments) : value;
  const bool is_called = p.kind(tuple) == Kind::kTuple && !p.items(tuple).empty();
  const Value source = is_called ? p.items(tuple)[0] : value;
  const Kind kind = p.kind(source);
  if (kind != Kind::kText && kind != Kind::kByteString && kind != Kind::kBytes &&
      kind != Kind::kByteArray)
    return;
  const std::uint64_t stored = p.bytes(source).size();
  const std::uint64_t most = kind == Kind::kText || kind == Kind::kByteString ? 2 * bytes : bytes;
  if (stored < bytes || stored > most)
    data_loss(fmt::format("an array of NumPy takes {} bytes, but {} are stored", bytes, stored));
}

// Bytes of the elements.
std::uint64_t size_of(const NumpyValue& value) {
  std::uint64_t bytes = value.element_size;
  for (const std::int64_t extent : value.shape) {
    const auto n = static_cast<std::uint64_t>(extent);
    if (n != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / n)
      data_loss("an array of NumPy is too large");
    bytes *= n;
  }
  if (bytes > kMostOfArray) data_loss("an array of NumPy is too large");
  return bytes;
}

// Takes the bytes of an array whose type and shape are known.
NumpyValue with_bytes(const Pickle& p, NumpyValue value, Value bytes) {
  if (!value.unreadable.empty()) return value;
  const std::uint64_t size = size_of(value);
  check_length(p, bytes, size);
  value.bytes = stored_bytes(p, bytes);
  if (size != value.bytes.size())
    data_loss(fmt::format("an array of NumPy takes {} bytes, but {} are stored", size,
                          value.bytes.size()));
  return value;
}

// _reconstruct(...) with the state (1, shape, dtype, is_fortran, bytes).
std::optional<NumpyValue> array_value(const Pickle& p, Value call) {
  const auto state = state_of(p, call);
  if (!state) return std::nullopt;
  if (p.kind(*state) != Kind::kTuple || p.items(*state).size() < 5)
    data_loss("the state of an array of NumPy is not a tuple of five");
  const auto items = p.items(*state);
  NumpyValue value;
  take_dtype(p, items[2], value);
  take_shape(p, items[1], p.kind(items[3]) == Kind::kBool && p.boolean(items[3]), value);
  return with_bytes(p, std::move(value), items[4]);
}

// scalar(dtype, bytes)
std::optional<NumpyValue> scalar_value(const Pickle& p, std::span<const Value> arguments) {
  if (arguments.size() < 2) return std::nullopt;
  NumpyValue value;
  value.is_scalar = true;
  take_dtype(p, arguments[0], value);
  return with_bytes(p, std::move(value), arguments[1]);
}

// Takes axes of numpy.transpose: dimension i of the array is dimension order[i] of the stored one.
void transpose(const Pickle& p, Value order, NumpyValue& out) {
  const Shape axes = extents_field(p, order);
  const Shape stored = out.shape;
  const std::uint8_t kNone = UINT8_MAX;
  out.axes.assign(axes.size(), kNone);
  if (axes.size() != stored.size()) data_loss("an array of NumPy has another number of axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto from = static_cast<std::uint64_t>(axes[i]);
    if (from >= stored.size() || out.axes[from] != kNone)
      data_loss("the axes of an array of NumPy are not each once in their order");
    out.axes[from] = static_cast<std::uint8_t>(i);
    out.shape[i] = stored[from];
  }
}

// _frombuffer(bytes, dtype, shape, order[, axes]) of protocol 5
std::optional<NumpyValue> buffer_value(const Pickle& p, std::span<const Value> arguments) {
  if (arguments.size() < 4) return std::nullopt;
  NumpyValue value;
  take_dtype(p, arguments[1], value);
  const std::string_view order = name_field(p, arguments[3]);
  take_shape(p, arguments[2], order == "F", value);
  const bool has_axes = arguments.size() > 4 && p.kind(arguments[4]) != Kind::kNone;
  if (order == "K" && has_axes && value.unreadable.empty())
    transpose(p, arguments[4], value);
  else if (order != "C" && order != "F" && value.unreadable.empty())
    value.unreadable = "its axes are stored in another order";
  return with_bytes(p, std::move(value), arguments[0]);
}

}  // namespace

std::optional<NumpyValue> numpy_value(const Pickle& p, std::string_view name, Value call) {
  if (!name.starts_with("numpy.")) return std::nullopt;
  const Value tuple = p.part(call, pickle::Part::kArguments);
  const std::span<const Value> arguments =
      p.kind(tuple) == Kind::kTuple ? p.items(tuple) : std::span<const Value>();
  if (name.ends_with(".multiarray._reconstruct")) return array_value(p, call);
  if (name.ends_with(".multiarray.scalar")) return scalar_value(p, arguments);
  if (name.ends_with(".numeric._frombuffer")) return buffer_value(p, arguments);
  return std::nullopt;
}

}  // namespace cairn::inline v0::pytorch
