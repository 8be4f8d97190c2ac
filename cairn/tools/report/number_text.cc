// number_text.cc -- formats numbers of every element type as aligned text.

#include <cairn/tools/report/number_text.h>

#include <cairn/array/box.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

namespace cairn::inline v0 {
namespace {

template <class T>
std::vector<T> cast_all(const ArrayView& array, DType to) {
  std::vector<T> values(static_cast<std::size_t>(element_count(array.shape)));
  auto* bytes = reinterpret_cast<std::byte*>(values.data());
  cast_elements(array,
                make_view(MutableByteView(bytes, values.size() * sizeof(T)), to, array.shape));
  return values;
}

template <class... Format>
std::string chars(double value, Format... format) {
  char buffer[400];  // DBL_MAX in fixed notation has 309 digits
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, format...);
  return error == std::errc() ? std::string(buffer, end) : std::string("?");
}

// Whether `text` identifies `value` uniquely among the values of `dtype`.
bool names_value(const std::string& text, double value, DType dtype) {
  double parsed = 0;
  std::from_chars(text.data(), text.data() + text.size(), parsed);
  std::byte narrow[8];
  double back = 0;
  const MutableArrayView middle = make_view(MutableByteView(narrow, dtype_size(dtype)), dtype, {});
  cast_elements(make_view(as_bytes({reinterpret_cast<const char*>(&parsed), sizeof(parsed)}),
                          DType::kFloat64, {}),
                middle);
  cast_elements(as_const(middle),
                make_view(MutableByteView(reinterpret_cast<std::byte*>(&back), sizeof(back)),
                          DType::kFloat64, {}));
  return back == value;
}

// A finite value in scientific notation with the fewest digits: "-1.25e-03".
std::string shortest(double value, DType dtype) {
  if (dtype == DType::kFloat64) return chars(value, std::chars_format::scientific);
  if (dtype == DType::kFloat32) {
    char buffer[32];
    const auto [end, error] = std::to_chars(
        buffer, buffer + sizeof(buffer), static_cast<float>(value), std::chars_format::scientific);
    return error == std::errc() ? std::string(buffer, end) : std::string("?");
  }
  for (int decimals = 0; decimals < 8; ++decimals) {
    std::string text = chars(value, std::chars_format::scientific, decimals);
    if (names_value(text, value, dtype)) return text;
  }
  return chars(value, std::chars_format::scientific);
}

// The digits after the point in scientific notation, and the power of ten.
struct Digits {
  int behind = 0;
  int power = 0;
};
Digits digits_of(const std::string& text) {
  const std::size_t e = text.find('e');
  const std::size_t point = text.find('.');
  Digits d;
  if (point != std::string::npos && e != std::string::npos)
    d.behind = static_cast<int>(e - point - 1);
  if (e != std::string::npos) {
    const char* first = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(first, text.data() + text.size(), d.power);
  }
  return d;
}

// From this value on NumPy uses scientific notation: a power of ten beyond which the type cannot
// show exact integers.
double fixed_limit(DType dtype) {
  return dtype == DType::kFloat64 ? 1e8 : dtype == DType::kFloat32 ? 1e6 : 1e3;
}

bool wants_scientific(const std::vector<double>& values, DType dtype) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const double v : values) {
    if (!std::isfinite(v) || v == 0) continue;
    least = std::min(least, std::abs(v));
    most = std::max(most, std::abs(v));
  }
  return most > 0 && (most >= fixed_limit(dtype) || least < 1e-4 || most / least > 1000);
}

std::string special_text(double v) { return std::isnan(v) ? "nan" : v < 0 ? "-inf" : "inf"; }

struct FloatStyle {
  DType dtype = DType::kFloat64;
  int max_decimals = 8;
  bool plus = false;  // print a sign before positive numbers: imaginary parts
};

std::string scientific_text(double v, int decimals) {
  std::string text = chars(v, std::chars_format::scientific, decimals);
  if (decimals == 0) text.insert(text.find('e'), ".");
  return text;
}

std::string fixed_text(double v, const FloatStyle& style) {
  const Digits d = digits_of(shortest(v, style.dtype));
  const int decimals = std::clamp(d.behind - d.power, 0, style.max_decimals);
  std::string text = chars(v, std::chars_format::fixed, decimals);
  if (decimals == 0) return text + ".";
  while (text.back() == '0') text.pop_back();
  return text;
}

void pad(std::string& text, std::size_t before, std::size_t behind) {
  text.insert(0, before, ' ');
  text.append(behind, ' ');
}

// Aligns fixed-notation numbers at their points, and all others to the right.
void align(std::vector<std::string>& texts, bool at_point) {
  std::size_t before = 0;
  std::size_t behind = 0;
  const auto point_of = [&](const std::string& t) {
    return at_point ? std::min(t.find('.'), t.size()) : t.size();
  };
  for (const auto& t : texts) {
    const bool number = t.find('.') != std::string::npos || !at_point;
    if (!number) continue;
    before = std::max(before, point_of(t));
    behind = std::max(behind, t.size() - point_of(t));
  }
  std::size_t width = before + behind;
  for (const auto& t : texts) width = std::max(width, t.size());
  before = width - behind;
  for (auto& t : texts) {
    if (at_point && t.find('.') == std::string::npos) {
      pad(t, width - t.size(), 0);  // nan, inf
    } else {
      const std::size_t point = point_of(t);
      pad(t, before - point, behind - (t.size() - point));
    }
  }
}

std::vector<std::string> float_texts(const std::vector<double>& values, const FloatStyle& style) {
  const bool scientific = wants_scientific(values, style.dtype);
  int decimals = 0;
  if (scientific)
    for (const double v : values)
      if (std::isfinite(v))
        decimals = std::max(
            decimals, std::min(digits_of(shortest(v, style.dtype)).behind, style.max_decimals));
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double v : values) {
    std::string text = !std::isfinite(v) ? special_text(v)
                       : scientific      ? scientific_text(v, decimals)
                                         : fixed_text(v, style);
    if (style.plus && text.front() != '-') text.insert(0, "+");
    texts.push_back(std::move(text));
  }
  align(texts, !scientific);
  return texts;
}

std::vector<std::string> complex_texts(const ArrayView& array, int max_decimals) {
  const bool small = array.dtype == DType::kComplex64;
  std::vector<std::byte> pairs(static_cast<std::size_t>(element_count(array.shape)) * 16);
  cast_elements(array, make_view(MutableByteView(pairs), DType::kComplex128, array.shape));
  std::vector<double> parts[2];
  for (std::size_t at = 0; at < pairs.size(); at += 8) {
    double v = 0;
    std::memcpy(&v, pairs.data() + at, sizeof(v));
    parts[at / 8 % 2].push_back(v);
  }
  FloatStyle style{small ? DType::kFloat32 : DType::kFloat64, max_decimals, false};
  auto texts = float_texts(parts[0], style);
  style.plus = true;
  const auto imaginary = float_texts(parts[1], style);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::string part = imaginary[i];
    part.insert(part.find_last_not_of(' ') + 1, "j");
    texts[i] += part;
  }
  return texts;
}

template <class T>
std::vector<std::string> integer_texts(const std::vector<T>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const T v : values) texts.push_back(std::to_string(v));
  align(texts, false);
  return texts;
}

// Bytes that Cairn does not interpret: as text if they are printable, otherwise in hexadecimal.
std::string opaque_text(ByteView bytes) {
  std::size_t size = bytes.size();
  while (size > 0 && bytes[size - 1] == std::byte{0}) --size;
  const std::string_view text = as_text(bytes.first(size));
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }))
    return "b'" + std::string(text) + "'";
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "0x";
  for (const std::byte b : bytes) {
    out += kHex[std::to_integer<unsigned>(b) >> 4U];
    out += kHex[std::to_integer<unsigned>(b) & 15U];
  }
  return out;
}

std::vector<std::string> opaque_texts(const ArrayView& array) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(array.shape)) *
                               array.element_size);
  MutableArrayView compact{bytes.data(), array.dtype, array.element_size, array.shape,
                           c_strides(array.shape, array.element_size)};
  copy_elements(array, compact);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < bytes.size(); at += array.element_size)
    texts.push_back(opaque_text(ByteView(bytes).subspan(at, array.element_size)));
  align(texts, false);
  return texts;
}

std::vector<std::string> bool_texts(const ArrayView& array) {
  std::vector<std::string> texts;
  for (const std::uint64_t v : cast_all<std::uint64_t>(array, DType::kUint64))
    texts.emplace_back(v != 0 ? "True" : "False");
  if (!array.shape.empty())
    // as wide as "False", even if all are true
    for (auto& text : texts) pad(text, 5 - text.size(), 0);
  return texts;
}

}  // namespace

std::vector<std::string> element_texts(const ArrayView& array, int max_decimals) {
  switch (dtype_kind(array.dtype)) {
    case DTypeKind::kBool:
      return bool_texts(array);
    case DTypeKind::kInt:
      return integer_texts(cast_all<std::int64_t>(array, DType::kInt64));
    case DTypeKind::kUint:
      return integer_texts(cast_all<std::uint64_t>(array, DType::kUint64));
    case DTypeKind::kFloat:
      return float_texts(cast_all<double>(array, DType::kFloat64),
                         {array.dtype, max_decimals, false});
    case DTypeKind::kComplex:
      return complex_texts(array, max_decimals);
    case DTypeKind::kOpaque:
      break;
  }
  return opaque_texts(array);
}

}  // namespace cairn::inline v0
