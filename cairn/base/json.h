// json.h -- JSON values as Cairn needs them: member order kept, integers exact, and Python's NaN
// and Infinity accepted (json.dumps writes them), with depth and size bounded. One .cc file sees
// the parser library.
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

namespace cairn {

class Json;
using JsonArray = std::vector<Json>;
// In the order of the text. A repeated member: the last one counts (find looks from the end).
using JsonObject = std::vector<std::pair<std::string, Json>>;

class Json {
 public:
  // An integer that fits neither int64 nor uint64, as its digits.
  struct BigInt {
    std::string digits;
    bool operator==(const BigInt&) const = default;
  };

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(std::int64_t{v}) {}
  Json(std::int64_t v) : value_(v) {}
  Json(std::uint64_t v);  // int64 where it fits
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
  // An integer that fits; a double with an integral value (5.0) counts as one when
  // `allow_integral_double`.
  [[nodiscard]] std::optional<std::int64_t> as_int64(bool allow_integral_double = false) const;
  [[nodiscard]] std::optional<std::uint64_t> as_uint64(bool allow_integral_double = false) const;
  [[nodiscard]] std::optional<double> as_double() const;  // any number
  [[nodiscard]] bool is_number() const;

  // Member of an object; nullptr if this is no object or has no such member.
  [[nodiscard]] const Json* find(std::string_view key) const;
  // Adds or replaces a member; this must be an object or null (which becomes one).
  void set(std::string_view key, Json value);
  void push_back(Json value);  // this must be an array or null (which becomes one)

  // What it is, for messages: "null", "a number", "a string", ...
  [[nodiscard]] std::string_view type_text() const;
  bool operator==(const Json&) const = default;

  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, BigInt,
                             std::string, JsonArray, JsonObject>;
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  Value value_ = nullptr;
};

struct JsonLimits {
  std::size_t max_depth = 128;  // never more than 1000
  std::size_t max_bytes = std::size_t{1} << 30U;
};

// Throws data_loss with the byte offset for anything that is not exactly one JSON value (white
// space and a UTF-8 byte-order mark around it are fine); the text must be valid UTF-8.
Json parse_json(std::string_view text, const JsonLimits& limits = {});

enum class JsonStyle {
  kCompact,  // {"a":1,"b":[1,2]}          raw UTF-8
  kPython,   // {"a": 1, "b": [1, 2]}      json.dumps defaults: ASCII-escaped
  kPretty,   // two-space indentation, raw UTF-8, arrays of scalars on one line: for people
};
// NaN and infinities are written as Python does (NaN, Infinity, -Infinity). Doubles: shortest text
// that reads back.
std::string to_text(const Json& json, JsonStyle style = JsonStyle::kCompact);

}  // namespace cairn
