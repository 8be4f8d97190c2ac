// json.cc -- implements the JSON value and its parser; the only file that includes the parser
// library.
#include <cairn/base/json/json.h>

#include <cairn/base/git_lfs.h>
#include <cairn/base/utf8.h>
#ifdef __SSE2__
#define RAPIDJSON_SSE2  // searches for the end of a string 16 characters at a time
#endif
// The parser's stack has no memory at first, and adds a size to its null pointer. It only compares
// the result.
#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/reader.h>
#ifdef __clang__
#pragma clang attribute pop
#endif

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

namespace cairn::inline v0 {
namespace {

// Writing and destroying a value are recursive, and take about 200 bytes of stack for a level. So
// is parsing, which takes more, up to kMostRecursion.
constexpr std::size_t kMostDepth = 4000;
constexpr std::size_t kMostRecursion = 1000;
constexpr std::string_view kLoneSurrogate = "a lone surrogate escape, which UTF-8 cannot represent";

Error parse_error(const std::string& what, std::size_t offset) {
  return {Code::kDataLoss, "invalid JSON: " + what + " at byte " + std::to_string(offset)};
}

// Converts the text of a number, which the parser has validated. Returns nullopt if the number is
// not supported here.
std::optional<Json> number(std::string_view text) {
  if (text == "NaN") return Json(std::numeric_limits<double>::quiet_NaN());
  if (text == "Infinity") return Json(std::numeric_limits<double>::infinity());
  if (text == "-Infinity") return Json(-std::numeric_limits<double>::infinity());
  const char* const end = text.data() + text.size();
  if (text.find_first_of(".eE") == std::string_view::npos) {
    // "Inf", "-NaN"
    if (text.find_first_not_of("-0123456789") != std::string_view::npos) return std::nullopt;
    std::int64_t i = 0;
    if (std::from_chars(text.data(), end, i).ec == std::errc()) return Json(i);
    std::uint64_t u = 0;
    if (std::from_chars(text.data(), end, u).ec == std::errc()) return Json(u);
    return Json(Json::BigInt{std::string(text)});
  }
  double d = 0;
  const auto result = std::from_chars(text.data(), end, d);
  if (result.ec == std::errc()) return Json(d);
  // from_chars reports "out of range" for numbers that are too large and too small. A number that
  // is too small is valid and becomes zero.
  const auto exponent = text.find_first_of("eE");
  const bool tiny = exponent == std::string_view::npos ? text[text[0] == '-' ? 1 : 0] == '0'
                                                       : text[exponent + 1] == '-';
  if (tiny) return Json(text[0] == '-' ? -0.0 : 0.0);
  return std::nullopt;
}

// Builds the value from the parser's events. Finished values wait on one stack until their
// container ends and takes them. Every container is therefore allocated once, at its final size.
class Builder {
 public:
  using Size = rapidjson::SizeType;

  explicit Builder(std::size_t max_depth) : max_depth_(max_depth) {}

  bool Null() { return add(Json()); }
  bool Bool(bool v) { return add(Json(v)); }
  bool String(const char* s, Size n, bool) {
    return is_text({s, n}) && add(Json(std::string(s, n)));
  }
  bool Key(const char* s, Size n, bool) {
    if (!is_text({s, n})) return false;
    keys_.emplace_back(s, n);
    return true;
  }
  bool RawNumber(const char* s, Size n, bool) {
    std::optional<Json> v = number({s, n});
    if (!v)
      return refuse("the number " + std::string(s, std::min<Size>(n, 40)) + " is out of range");
    return add(*std::move(v));
  }
  bool StartObject() { return enter(); }
  bool StartArray() { return enter(); }
  bool EndArray(Size n) {
    const auto first = values_.end() - n;
    JsonArray array(std::make_move_iterator(first), std::make_move_iterator(values_.end()));
    return leave(n, Json(std::move(array)));
  }
  bool EndObject(Size n) {
    JsonObject object;
    object.reserve(n);
    auto key = keys_.end() - n;
    for (auto value = values_.end() - n; value != values_.end(); ++value, ++key)
      object.emplace_back(std::move(*key), std::move(*value));
    keys_.resize(keys_.size() - n);
    return leave(n, Json(std::move(object)));
  }
  // Numbers arrive only as text, but the parser requires these functions.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  Json take() { return std::move(values_.back()); }

 private:
  bool add(Json v) {
    values_.push_back(std::move(v));
    return true;
  }
  // The parser rejects a lone high surrogate escape but accepts a low one (U+DC00 to U+DFFF, bytes
  // ed b0 80 and up).
  bool is_text(std::string_view s) {
    for (auto at = s.find('\xed'); at != std::string_view::npos; at = s.find('\xed', at + 1))
      if (static_cast<unsigned char>(s[at + 1]) >= 0xa0) return refuse(std::string(kLoneSurrogate));
    return true;
  }
  bool enter() {
    if (++depth_ > max_depth_)
      return refuse("nested deeper than " + std::to_string(max_depth_) + " levels");
    return true;
  }
  bool leave(Size n, Json v) {
    --depth_;
    values_.resize(values_.size() - n);
    return add(std::move(v));
  }
  bool refuse(std::string why) {
    refusal_ = std::move(why);
    return false;
  }

  std::size_t max_depth_;
  std::size_t depth_ = 0;
  std::vector<Json> values_;
  std::vector<std::string> keys_;
  std::string refusal_;
};

std::string_view reason(rapidjson::ParseErrorCode code) {
  switch (code) {
    case rapidjson::kParseErrorDocumentEmpty:
      return "expected a value";
    case rapidjson::kParseErrorDocumentRootNotSingular:
      return "text after the value";
    case rapidjson::kParseErrorValueInvalid:
      return "not a value";
    case rapidjson::kParseErrorObjectMissName:
      return "expected a member name in quotes";
    case rapidjson::kParseErrorObjectMissColon:
      return "expected ':' after a member name";
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
      return "expected ',' or '}'";
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      return "expected ',' or ']'";
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
      return "\\u needs four hexadecimal digits";
    case rapidjson::kParseErrorStringUnicodeSurrogateInvalid:
      return kLoneSurrogate;
    case rapidjson::kParseErrorStringEscapeInvalid:
      return "a control character or an unknown escape in a string";
    case rapidjson::kParseErrorStringMissQuotationMark:
      return "a string without its closing quote";
    case rapidjson::kParseErrorNumberTooBig:
      return "a number too large for a double";
    case rapidjson::kParseErrorNumberMissFraction:
    case rapidjson::kParseErrorNumberMissExponent:
      return "expected a digit";
    default:
      return "cannot be parsed";
  }
}

template <class T>
std::optional<T> integral(double d) {
  // 2^63 and 2^64 are exact as doubles, but the largest integers below them are not. Compare with
  // the powers.
  const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!(d >= static_cast<double>(std::numeric_limits<T>::min()) && d < above) || d != std::trunc(d))
    return std::nullopt;
  return static_cast<T>(d);
}

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

Json::Json(std::uint64_t v) {
  if (v <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    value_ = static_cast<std::int64_t>(v);
  else
    value_ = v;
}

std::optional<std::int64_t> Json::as_int64(bool allow_integral_double) const {
  if (const auto* i = std::get_if<std::int64_t>(&value_)) return *i;
  if (const auto* d = std::get_if<double>(&value_); d && allow_integral_double)
    return integral<std::int64_t>(*d);
  return std::nullopt;
}

std::optional<std::uint64_t> Json::as_uint64(bool allow_integral_double) const {
  if (const auto* u = std::get_if<std::uint64_t>(&value_)) return *u;
  if (const auto* i = std::get_if<std::int64_t>(&value_); i && *i >= 0)
    return static_cast<std::uint64_t>(*i);
  if (const auto* d = std::get_if<double>(&value_); d && allow_integral_double)
    return integral<std::uint64_t>(*d);
  return std::nullopt;
}

std::optional<double> Json::as_double() const {
  if (const auto* d = std::get_if<double>(&value_)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*u);
  const auto* big = std::get_if<BigInt>(&value_);
  if (!big) return std::nullopt;
  double d = 0;
  const auto result =
      std::from_chars(big->digits.data(), big->digits.data() + big->digits.size(), d);
  return result.ec == std::errc() ? std::optional(d) : std::nullopt;
}

bool Json::is_number() const {
  return std::holds_alternative<std::int64_t>(value_) ||
         std::holds_alternative<std::uint64_t>(value_) || std::holds_alternative<double>(value_) ||
         std::holds_alternative<BigInt>(value_);
}

const Json* Json::find(std::string_view key) const {
  const auto* object = as_object();
  if (!object) return nullptr;
  const auto member =
      std::find_if(object->rbegin(), object->rend(), [&](const auto& m) { return m.first == key; });
  return member == object->rend() ? nullptr : &member->second;
}

void Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = JsonObject();
  auto* object = std::get_if<JsonObject>(&value_);
  if (!object)
    throw Error(Code::kInvalidArgument, "a member cannot be set in " + std::string(type_text()));
  const auto member =
      std::find_if(object->rbegin(), object->rend(), [&](const auto& m) { return m.first == key; });
  if (member == object->rend())
    object->emplace_back(key, std::move(value));
  else
    member->second = std::move(value);
}

void Json::push_back(Json value) {
  if (is_null()) value_ = JsonArray();
  auto* array = std::get_if<JsonArray>(&value_);
  if (!array)
    throw Error(Code::kInvalidArgument,
                "an element cannot be added to " + std::string(type_text()));
  array->push_back(std::move(value));
}

std::string_view Json::type_text() const {
  if (is_null()) return "null";
  if (as_bool()) return "a boolean";
  if (as_string()) return "a string";
  if (as_array()) return "an array";
  if (as_object()) return "an object";
  return "a number";
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

Json parse_json(std::string_view text, const JsonLimits& limits) {
  constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseNanAndInfFlag;
  // The parser library counts in 32 bits.
  const std::size_t max_bytes =
      std::min<std::size_t>(limits.max_bytes, std::numeric_limits<std::int32_t>::max());
  if (text.size() > max_bytes)
    throw Error(Code::kDataLoss, "JSON of " + std::to_string(text.size()) +
                                     " bytes is larger than the limit of " +
                                     std::to_string(max_bytes));
  if (is_lfs_pointer(text)) throw Error(Code::kDataLoss, std::string(kIsLfsPointer));
  if (const std::size_t bad = find_invalid_utf8(text); bad < text.size())
    throw parse_error("invalid UTF-8", bad);
  if (text.starts_with(kByteOrderMark)) throw parse_error(std::string(kHasByteOrderMark), 0);
  // The parser unescapes strings in place and requires a NUL at the end. It reads whole aligned
  // groups of 16 bytes.
  constexpr std::size_t kPadding = 16;
  std::string copy;
  copy.reserve(text.size() + kPadding);
  copy.append(text).append(kPadding, '\0');
  rapidjson::InsituStringStream stream(copy.data());
  rapidjson::Reader reader;
  Builder builder(std::min(limits.max_depth, kMostDepth));
  // The other way to parse is slower.
  const rapidjson::ParseResult result =
      limits.max_depth <= kMostRecursion
          ? reader.Parse<kFlags>(stream, builder)
          : reader.Parse<kFlags | rapidjson::kParseIterativeFlag>(stream, builder);
  if (!builder.refusal().empty()) throw parse_error(builder.refusal(), result.Offset());
  if (result.IsError()) throw parse_error(std::string(reason(result.Code())), result.Offset());
  // The parser treats a NUL byte as the end of the text.
  if (stream.Tell() != text.size()) throw parse_error("text after the value", stream.Tell());
  return builder.take();
}

}  // namespace cairn::inline v0
