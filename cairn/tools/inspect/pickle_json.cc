#include <cairn/tools/inspect/pickle_json.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/pytorch/pickle/safe_globals.h>
#include <cairn/tools/report/json_text.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using pickle::Kind;
using pickle::Part;
using pickle::Pickle;
using pickle::Value;

constexpr std::size_t kMostPrinted = 1'000'000;
constexpr std::size_t kMostNested = 100;
constexpr std::size_t kMostBytes = 32;     // of bytes that are printed
constexpr std::size_t kMostRepeated = 64;  // bytes of a text that is printed each time

std::string hex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    const auto value = std::to_integer<unsigned>(b);
    text.append(1, kDigits[value >> 4U]).append(1, kDigits[value & 15U]);
  }
  return text;
}

Json bytes_json(const char* kind, ByteView bytes) {
  return JsonObject{{kind, std::uint64_t{bytes.size()}},
                    {"hex", hex(bytes.first(std::min(bytes.size(), kMostBytes)))}};
}

// {"name": value}. An initializer list would copy the value, at each level again.
Json tagged(const char* name, Json value) {
  JsonObject out;
  out.emplace_back(name, std::move(value));
  return out;
}

class PicklePrinter {
 public:
  explicit PicklePrinter(const Pickle& pickle) : p_(pickle), uses_(pickle.size()) { count_uses(); }

  Json document() {
    JsonArray globals, unsafe;
    for (const Value global : p_.globals()) {
      globals.push_back(global_text(global));
      if (!pickle::is_safe_global(p_.module_of(global), p_.name_of(global)))
        unsafe.push_back(global_text(global));
    }
    JsonObject out{{"protocol", p_.protocol()}, {"bytes", p_.end()}};
    out.emplace_back("globals", std::move(globals));
    out.emplace_back("unsafe_globals", std::move(unsafe));
    out.emplace_back("value", print(p_.root(), 0));
    JsonArray deeper;
    for (; !queue_.empty(); queue_.pop_front()) {
      const Value value = queue_.front();
      deeper.push_back(with_id(value, print_first(value, 1)));
    }
    if (!deeper.empty()) out.emplace_back("deeper", std::move(deeper));
    return out;
  }

 private:
  // How often each value is an item of another one, up to two: only shared ones get an "$id".
  void count_uses() {
    uses_[p_.root()] = 1;
    for (Value value = 0; value < p_.size(); ++value)
      if (has_items(value))
        for (const Value item : p_.items(value))
          uses_[item] = static_cast<std::uint8_t>(std::min(uses_[item] + 1, 2));
  }
  [[nodiscard]] bool has_items(Value value) const { return pickle::has_items(p_.kind(value)); }
  [[nodiscard]] bool is_long(Value value) const {
    const Kind kind = p_.kind(value);
    if (kind == Kind::kText || kind == Kind::kByteString || kind == Kind::kLongText)
      return p_.bytes(value).size() > kMostRepeated;
    return has_items(value) && !(kind == Kind::kTuple && p_.items(value).empty());
  }

  Json print(Value value, std::size_t level) {
    if (!is_long(value)) return print_first(value, level);
    if (!seen_.insert(value).second) return JsonObject{{"$ref", std::uint64_t{value}}};
    if (level >= kMostNested) {
      queue_.push_back(value);
      return JsonObject{{"$ref", std::uint64_t{value}}};
    }
    Json json = print_first(value, level);
    if (uses_[value] < 2) return json;
    if (json.as_object() != nullptr && is_marked(json)) {
      json.set("$id", std::uint64_t{value});
      return json;
    }
    return with_id(value, std::move(json));
  }
  static Json with_id(Value value, Json json) {
    Json out = tagged("$id", std::uint64_t{value});
    out.set("$value", std::move(json));
    return out;
  }
  // Whether the first member says what the value is, so that it is not a key of a dict.
  static bool is_marked(const Json& json) {
    return !json.as_object()->empty() && json.as_object()->front().first.starts_with('$');
  }

  Json print_first(Value value, std::size_t level) {
    if (++printed_ > kMostPrinted)
      throw Error(Code::kUnimplemented, "the pickle has more than " + std::to_string(kMostPrinted) +
                                            " values, which are too many to print");
    switch (p_.kind(value)) {
      case Kind::kNone:
        return nullptr;
      case Kind::kBool:
        return p_.boolean(value);
      case Kind::kInt:
        return p_.integer(value);
      case Kind::kLongBytes:
        return bytes_json("$long", p_.bytes(value));
      case Kind::kLongText:
        return Json::BigInt{std::string(p_.text(value))};
      case Kind::kFloat:
        return p_.real(value);
      case Kind::kText:
      case Kind::kByteString:
        return text_json(p_.text(value));
      case Kind::kBytes:
        return bytes_json("$bytes", p_.bytes(value));
      case Kind::kByteArray:
        return bytes_json("$bytearray", p_.bytes(value));
      case Kind::kList:
        return list(value, level);
      case Kind::kTuple:
        return tagged("$tuple", list(value, level));
      case Kind::kSet:
        return tagged("$set", list(value, level));
      case Kind::kFrozenSet:
        return tagged("$frozenset", list(value, level));
      case Kind::kDict:
        return dict(value, level);
      case Kind::kGlobal:
        return JsonObject{{"$global", global_text(value)}};
      case Kind::kExtension:
        return JsonObject{{"$extension", p_.integer(value)}};
      case Kind::kCall:
        return object("$call", value, level);
      case Kind::kObject:
        return object("$new", value, level);
      case Kind::kPersistent:
        return tagged("$persistent", print(p_.items(value)[0], level + 1));
      case Kind::kBuffer:
        return JsonObject{{"$buffer", p_.integer(value)}};
    }
    data_loss("a value of an unknown kind");
  }

  Json global_text(Value global) const {
    return text_json(std::string(p_.module_of(global)) + "." + std::string(p_.name_of(global)));
  }
  JsonArray list(Value value, std::size_t level) {
    JsonArray out;
    for (const Value item : p_.items(value)) out.push_back(print(item, level + 1));
    return out;
  }
  Json dict(Value value, std::size_t level) {
    const auto items = p_.items(value);
    if (!has_plain_keys(items)) return tagged("$dict", pairs(items, level));
    JsonObject out;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      out.emplace_back(std::string(p_.text(items[i])), print(items[i + 1], level + 1));
    return out;
  }
  // Whether the keys are different texts that can be names of members and mean nothing else.
  bool has_plain_keys(std::span<const Value> items) const {
    std::set<std::string_view> keys;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (p_.kind(items[i]) != Kind::kText) return false;
      const std::string_view key = p_.text(items[i]);
      if (key.starts_with('$') || key.size() > kMostRepeated || !valid_utf8(key)) return false;
      if (!keys.insert(key).second) return false;
    }
    return true;
  }
  JsonArray pairs(std::span<const Value> items, std::size_t level) {
    JsonArray out;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      JsonArray pair;
      pair.push_back(print(items[i], level + 1));
      pair.push_back(print(items[i + 1], level + 1));
      out.emplace_back(std::move(pair));
    }
    return out;
  }
  Json object(const char* kind, Value value, std::size_t level) {
    const Value callee = p_.part(value, Part::kCallee), args = p_.part(value, Part::kArguments);
    JsonObject out;
    out.emplace_back(
        kind, p_.kind(callee) == Kind::kGlobal ? global_text(callee) : print(callee, level + 1));
    if (p_.kind(args) == Kind::kTuple)
      out.emplace_back("args", list(args, level + 1));
    else
      out.emplace_back("args", print(args, level + 1));
    add_part(out, "kwargs", p_.part(value, Part::kKeywords), level);
    add_states(out, p_.part(value, Part::kStates), level);
    add_part(out, "items", p_.part(value, Part::kItems), level);
    add_part(out, "entries", p_.part(value, Part::kEntries), level);
    return out;
  }
  void add_part(JsonObject& out, const char* name, Value part, std::size_t level) {
    if (p_.kind(part) != Kind::kNone) out.emplace_back(name, print(part, level + 1));
  }
  void add_states(JsonObject& out, Value states, std::size_t level) {
    if (p_.kind(states) == Kind::kNone) return;
    if (const auto given = p_.items(states); given.size() == 1)
      out.emplace_back("state", print(given[0], level + 1));
    else
      out.emplace_back("states", list(states, level + 1));
  }

  const Pickle& p_;
  std::vector<std::uint8_t> uses_;
  std::set<Value> seen_;
  std::deque<Value> queue_;  // seen_, but too deep to print where they are
  std::size_t printed_ = 0;
};

}  // namespace

Json pickle_json(const Pickle& pickle) { return PicklePrinter(pickle).document(); }

}  // namespace cairn::inline v0
