// members.cc -- reads the members of an object in a spec.

#include <cairn/tensorstore_spec/members.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

std::string short_text(const Json& value) {
  std::string text = to_text(value);
  constexpr std::size_t kEnough = 60;
  if (text.size() <= kEnough) return text;
  return std::string(value.type_text());
}

}  // namespace

void refuse(const std::string& pointer, const std::string& why, Code code) {
  throw Error(code, (pointer.empty() ? "spec: " : "spec " + pointer + ": ") + why);
}

Json parse_spec(std::string_view text) {
  try {
    return parse_json(text, {.max_bytes = std::size_t{1} << 26U});
  } catch (const Error& error) {
    refuse("", error.message());
  }
}

Members::Members(const Json& value, std::string pointer)
    : object_(value), pointer_(std::move(pointer)) {
  if (!value.as_object()) refuse(pointer_, "expected an object, not " + short_text(value));
}

std::string Members::pointer(std::string_view name) const {
  std::string out = pointer_ + "/";
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

const Json* Members::take(std::string_view name) {
  taken_.emplace_back(name);
  return object_.find(name);
}

const Json& Members::require(std::string_view name) {
  if (const Json* value = take(name)) return *value;
  refuse(pointer(name), "is missing");
}

std::optional<std::string> Members::text(std::string_view name) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  if (const std::string* text = value->as_string()) return *text;
  refuse(pointer(name), "expected a string, not " + short_text(*value));
}

std::optional<bool> Members::flag(std::string_view name) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  if (const bool* flag = value->as_bool()) return *flag;
  refuse(pointer(name), "expected true or false, not " + short_text(*value));
}

std::optional<std::int64_t> Members::integer(std::string_view name, std::int64_t least,
                                             std::int64_t most) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  const auto number = value->as_int64(true);
  if (number && *number >= least && *number <= most) return number;
  refuse(pointer(name), "expected an integer from " + std::to_string(least) + " to " +
                            std::to_string(most) + ", not " + short_text(*value));
}

void Members::pass_over_resources(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Json* value = take(name);
    if (value && !value->as_object() && !value->as_string())
      refuse(pointer(name),
             "expected the settings of a resource or its name, not " + short_text(*value));
  }
}

void Members::reject_unsupported(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (take(name))
      refuse(pointer(name),
             "Cairn does not support this; leave it out, or open the array with TensorStore",
             Code::kUnimplemented);
}

void Members::finish() const {
  for (const auto& [name, value] : *object_.as_object())
    if (std::find(taken_.begin(), taken_.end(), name) == taken_.end())
      refuse(pointer(name), "unknown member");
}

}  // namespace cairn::inline v0::tensorstore_spec
