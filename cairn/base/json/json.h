// json.h -- JSON values: parse, inspect, build and write. Members keep their order, integers are
// exact, and Python's NaN and Infinity are accepted (json.dumps writes them). Depth and size are
// bounded. Only one .cc file includes the parser library.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::inline v0 {

class Json;
using JsonArray = std::vector<Json>;
// The members in the order of the text. If a member is repeated, the last one counts (find searches
// from the end).
using JsonObject = std::vector<std::pair<std::string, Json>>;

// One JSON value of any type.
class Json {
 public:
  // An integer that fits neither int64 nor uint64, stored as its digits.
  struct BigInt {
    std::string digits;
    bool operator==(const BigInt&) const = default;
  };

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(std::int64_t{v}) {}
  Json(std::int64_t v) : value_(v) {}
  Json(std::uint64_t v);  // stored as int64 if it fits
  Json(double v) : value_(v) {}
  Json(BigInt v) : value_(std::move(v)) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(JsonArray v) : value_(std::move(v)) {}
  Json(JsonObject v) : value_(std::move(v)) {}

  [[nodiscard]] bool is_null() const { return value_.index() == 0; }
  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&value_); }
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  [[nodiscard]] const JsonArray* as_array() const { return std::get_if<JsonArray>(&value_); }
  [[nodiscard]] const JsonObject* as_object() const { return std::get_if<JsonObject>(&value_); }
  // Returns the value if it is an integer that fits into the type, otherwise nullopt. With
  // `allow_integral_double`, a double with an integral value (5.0) counts as an integer.
  [[nodiscard]] std::optional<std::int64_t> as_int64(bool allow_integral_double = false) const;
  [[nodiscard]] std::optional<std::uint64_t> as_uint64(bool allow_integral_double = false) const;
  [[nodiscard]] std::optional<double> as_double() const;  // any number
  [[nodiscard]] bool is_number() const;

  // Returns a member of an object. Returns nullptr if this value is not an object or does not have
  // the member.
  [[nodiscard]] const Json* find(std::string_view key) const;
  // Adds or replaces a member. This value must be an object or null (null becomes an object).
  void set(std::string_view key, Json value);
  void push_back(Json value);  // this value must be an array or null (null becomes an array)

  // Returns the type as words for messages: "null", "a number", "a string", ...
  [[nodiscard]] std::string_view type_text() const;
  bool operator==(const Json&) const = default;

  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, BigInt,
                             std::string, JsonArray, JsonObject>;
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  Value value_ = nullptr;
};

// The limits of parse_json; a text beyond them is data_loss.
struct JsonLimits {
  std::size_t max_depth = 128;  // never more than 4000
  std::size_t max_bytes = std::size_t{1} << 30U;
};

// Parses exactly one JSON value; white space around it is allowed. The text must be valid UTF-8 and
// have no byte-order mark: RFC 8259 and Python's json.loads refuse one. Throws data_loss with the
// byte offset for anything else.
Json parse_json(std::string_view text, const JsonLimits& limits = {});

// Returns the text behind its UTF-8 byte-order mark, or the text if it has none. For documents
// whose other readers (TensorStore, zarr-python) skip the mark, and for what users write.
std::string_view without_byte_order_mark(std::string_view text);
// The message for a document that has a mark and must not.
inline constexpr std::string_view kHasByteOrderMark =
    "it begins with a byte-order mark, which readers of this file refuse; save it as UTF-8 without "
    "one";

// The output style of to_text.
enum class JsonStyle {
  kCompact,  // {"a":1,"b":[1,2]}          raw UTF-8
  kPython,   // {"a": 1, "b": [1, 2]}      json.dumps defaults: ASCII-escaped
  kPretty,   // two-space indentation, raw UTF-8, arrays of scalars on one line: for people
};
// Returns the value as JSON text. NaN and infinities are written as in Python (NaN, Infinity,
// -Infinity). A double is written as the shortest text that reads back to the same value.
std::string to_text(const Json& json, JsonStyle style = JsonStyle::kCompact);

}  // namespace cairn::inline v0
