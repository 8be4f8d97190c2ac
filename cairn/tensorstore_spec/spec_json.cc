// spec_json.cc -- the driver json: a JSON value, or the part of it that a JSON pointer selects.
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/store_location.h>

#include <cairn/base/text.h>
#include <algorithm>
#include <charconv>
#include <utility>

namespace cairn::inline v0 {
namespace {

using tensorstore_spec::refuse;

// Splits a JSON pointer: "/a~1b/0" becomes {"a/b", "0"}.
std::vector<std::string> pointer_parts(const std::string& text, const std::string& where) {
  std::vector<std::string> parts;
  constexpr std::size_t kMaxDepth = 128;  // limit of Cairn's JSON parser
  if (static_cast<std::size_t>(std::count(text.begin(), text.end(), '/')) > kMaxDepth)
    refuse(where, "is nested too deeply for JSON");
  if (!text.empty() && text[0] != '/') refuse(where, "\"" + text + "\" does not start with \"/\"");
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') {
      parts.emplace_back();
      continue;
    }
    if (text[i] != '~') {
      parts.back() += text[i];
      continue;
    }
    const char next = ++i < text.size() ? text[i] : '\0';
    if (next != '0' && next != '1')
      refuse(where, "\"" + text + "\": expected \"0\" or \"1\" after \"~\"");
    parts.back() += next == '0' ? '~' : '/';
  }
  return parts;
}

// Returns the position of an item. Throws failed_precondition if the text is not a position.
std::size_t item_number(const std::string& text) {
  std::size_t n = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, n);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end ||
      (text.size() > 1 && text[0] == '0'))
    throw Error(Code::kFailedPrecondition, "\"" + text + "\" is not a position in an array");
  return n;
}

Error beyond(const std::string& text, const JsonArray& items, Code code) {
  return {code,
          "\"" + text + "\" is beyond the end of an array of " + std::to_string(items.size())};
}

Error not_a_container(const std::string& part, const Json& value) {
  return {Code::kFailedPrecondition,
          "\"" + part + "\" cannot be looked up in " + std::string(value.type_text())};
}

const Json& find_part(const Json& root, const std::vector<std::string>& parts) {
  const Json* at = &root;
  for (const std::string& part : parts) {
    if (const JsonArray* items = at->as_array()) {
      const std::size_t n = item_number(part);
      if (n >= items->size()) throw beyond(part, *items, Code::kOutOfRange);
      at = &(*items)[n];
    } else if (at->as_object()) {
      at = at->find(part);
      if (!at) throw Error(Code::kNotFound, "there is no member \"" + part + "\"");
    } else {
      throw not_a_container(part, *at);
    }
  }
  return *at;
}

// Returns `old` with the selected part replaced by `value`. A null `old` means that no value exists
// yet.
Json with_part(const Json* old, std::span<const std::string> parts, const Json& value) {
  if (parts.empty()) return value;
  const std::string& part = parts.front();
  if (!old) return JsonObject{{part, with_part(nullptr, parts.subspan(1), value)}};
  if (old->as_object()) {
    Json object = *old;
    object.set(part, with_part(old->find(part), parts.subspan(1), value));
    return object;
  }
  const JsonArray* items = old->as_array();
  if (!items) throw not_a_container(part, *old);
  JsonArray changed = *items;
  if (part == "-") {
    changed.push_back(with_part(nullptr, parts.subspan(1), value));
    return changed;
  }
  const std::size_t n = item_number(part);
  if (n >= items->size()) throw beyond(part, *items, Code::kFailedPrecondition);
  changed[n] = with_part(&(*items)[n], parts.subspan(1), value);
  return changed;
}

}  // namespace

struct SpecJson::State {
  tensorstore_spec::StoreLocation location;
  std::string folder;  // prefix of the key
  std::string key;
  std::vector<std::string> parts;
  std::string pointer;

  [[nodiscard]] tensorstore_spec::KeyEditor keys() const { return {location, folder}; }
};

std::string SpecJson::read() const {
  const State& state = *state_;
  const tensorstore_spec::KeyEditor keys = state.keys();
  const StorePtr store = keys.reader();
  const auto value = store->read_at_most(state.key, JsonLimits().max_bytes);
  if (!value)
    throw Error(Code::kNotFound, "there is no JSON value at " + store->describe(state.key));
  return with_context([&] { return store->describe(state.key); },
                      [&] {
                        return to_text(find_part(
                            parse_json(without_byte_order_mark(as_text(*value))), state.parts));
                      });
}

void SpecJson::write(std::string_view json) {
  const State& state = *state_;
  const Json value =
      with_context([] { return "the value to be written"; }, [&] { return parse_json(json); });
  tensorstore_spec::KeyEditor keys = state.keys();
  keys.edit(state.key, [&](const Bytes* old) {
    return with_context([&] { return keys.reader()->describe(state.key); },
                        [&] {
                          if (state.parts.empty() || !old)
                            return to_text(with_part(nullptr, state.parts, value));
                          const Json root = parse_json(without_byte_order_mark(as_text(*old)));
                          return to_text(with_part(&root, state.parts, value));
                        });
  });
}

SpecJson open_json_spec(std::string_view json, const OpenSpecOptions& options) {
  const Json spec = tensorstore_spec::parse_spec(json);
  tensorstore_spec::Members members(spec, "");
  (void)members.require("driver");
  if (members.text("driver") != "json")
    refuse(members.pointer("driver"), "expected \"json\": arrays are opened with open_array_spec");
  auto state = std::make_shared<SpecJson::State>();
  const tensorstore_spec::Scope scope(options.context.value_or(SpecContext()));
  state->location = tensorstore_spec::parse_store_location(
      members.require("kvstore"), members.pointer("kvstore"), scope.inside(members));
  state->pointer = members.text("json_pointer").value_or("");
  state->parts = pointer_parts(state->pointer, members.pointer("json_pointer"));
  if (const auto dtype = members.text("dtype"); dtype && *dtype != "json")
    refuse(members.pointer("dtype"), "expected \"json\"");
  (void)members.integer("rank", 0, 0);
  (void)members.take("recheck_cached_data");
  members.pass_over_resources({"cache_pool", "data_copy_concurrency"});
  members.reject_unsupported({"schema", "transform"});
  members.finish();
  const std::string& path = state->location.path;
  if (state->location.is_files) state->folder = folder_prefix(path);
  state->key = state->location.is_files ? name_of(path) : path;
  if (state->key.empty())
    refuse(members.pointer("kvstore"),
           "the path of a JSON value is its key, so it must not be empty");
  return SpecJson(std::move(state));
}

}  // namespace cairn::inline v0
