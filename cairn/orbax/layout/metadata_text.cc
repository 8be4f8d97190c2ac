// metadata_text.cc -- writes the small JSON files of an Orbax checkpoint. The formatting matches
// the writer of each file in Orbax: Python (", " and ": ", ASCII) or TensorStore's JSON driver
// (compact, sorted members, UTF-8).
#include <cairn/base/base64.h>
#include <cairn/base/text.h>
#include <cairn/orbax/layout/metadata.h>

#include <chrono>
#include <map>

namespace cairn::inline v0::orbax {
namespace {

Json time_or_null(const std::optional<std::int64_t>& time) { return time ? Json(*time) : Json(); }
Json object_or_empty(const Json& value) { return value.is_null() ? Json(JsonObject{}) : value; }

Json handlers_json(const std::vector<std::pair<std::string, std::string>>& handlers) {
  if (handlers.empty()) return {};
  if (handlers.size() == 1 && handlers[0].first.empty()) return handlers[0].second;
  JsonObject members;
  for (const auto& [item, handler] : handlers)
    members.emplace_back(item, handler.empty() ? Json() : Json(handler));
  return members;
}

Json shape_json(const Shape& shape) { return JsonArray(shape.begin(), shape.end()); }

// A node of _strings.json: a string, or members.
struct Node {
  std::optional<std::string> text;
  std::map<std::string, Node> members;
};

Json node_json(const Node& node) {
  if (node.text) return *node.text;
  JsonObject members;
  for (const auto& [name, member] : node.members) members.emplace_back(name, node_json(member));
  return members;
}

// Unescapes a JSON pointer token: "~1" is '/', "~0" is '~'. Orbax does not escape names, so a
// reader unescapes them like this.
std::string unescaped_token(std::string_view token, std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '~') {
      out += token[i];
      continue;
    }
    const char next = i + 1 < token.size() ? token[i + 1] : '\0';
    if (next != '0' && next != '1')
      throw Error(Code::kInvalidArgument, "the string '" + std::string(name) +
                                              "' cannot be saved: Orbax keeps strings at JSON "
                                              "pointers, where '~' must be followed by 0 or 1");
    out += next == '0' ? '~' : '/';
    ++i;
  }
  return out;
}

void add_string(Node& root, std::string_view name, std::string_view text) {
  Node* at = &root;
  const std::vector<std::string_view> tokens = split(name, '/');
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    at = &at->members[unescaped_token(tokens[i], name)];
    const bool inside_another =
        at->text.has_value() || (i + 1 == tokens.size() && !at->members.empty());
    if (inside_another)
      throw Error(
          Code::kInvalidArgument,
          "the string '" + std::string(name) +
              "' cannot be saved together with a string whose name is the part before a '/'");
  }
  at->text = text;
}

}  // namespace

std::int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

std::string checkpoint_metadata_text(const CheckpointMetadata& metadata) {
  return checkpoint_metadata_text(
      metadata, to_text(handlers_json(metadata.item_handlers), JsonStyle::kPython),
      to_text(object_or_empty(metadata.custom_metadata), JsonStyle::kPython));
}

std::string checkpoint_metadata_text(const CheckpointMetadata& metadata,
                                     std::string_view item_handlers,
                                     std::string_view custom_metadata) {
  const std::string between =
      to_text(JsonObject{{"metrics", object_or_empty(metadata.metrics)},
                         {"performance_metrics", object_or_empty(metadata.performance_metrics)},
                         {"init_timestamp_nsecs", time_or_null(metadata.init_time_ns)},
                         {"commit_timestamp_nsecs", time_or_null(metadata.commit_time_ns)}},
              JsonStyle::kPython);
  std::string text = "{\"item_handlers\": ";
  text.append(item_handlers).append(", ");
  text.append(between, 1, between.size() - 2);  // without its braces
  return text.append(", \"custom_metadata\": ").append(custom_metadata).append("}");
}

std::optional<std::string> uncommitted_text(const Result<CheckpointMetadata>& metadata) {
  if (metadata && is_unfinished(metadata.value())) return std::nullopt;
  CheckpointMetadata unfinished;
  unfinished.init_time_ns = metadata ? metadata.value().init_time_ns.value_or(0) : 0;
  return checkpoint_metadata_text(unfinished);
}

std::string array_metadatas_text(const std::vector<StoredArrayMetadata>& arrays) {
  JsonArray list;
  for (const StoredArrayMetadata& array : arrays) {
    Json ext;
    if (!array.random_key_impl.empty())
      ext = JsonObject{{"random_key_impl", array.random_key_impl}};
    list.push_back(
        JsonObject{{"array_metadata", JsonObject{{"param_name", array.name},
                                                 {"write_shape", shape_json(array.write_shape)},
                                                 {"chunk_shape", shape_json(array.chunk_shape)},
                                                 {"ext_metadata", std::move(ext)}}}});
  }
  return to_text(JsonObject{{"array_metadatas", std::move(list)}}, JsonStyle::kPython);
}

std::string shardings_text(const std::vector<std::pair<std::string, std::string>>& shardings) {
  std::map<std::string, std::string> sorted;
  for (const auto& [name, sharding] : shardings)
    sorted.insert_or_assign(encode_base64(as_bytes(name), Base64::kUrlSafe), sharding);
  JsonObject members;
  for (const auto& [name, sharding] : sorted) members.emplace_back(name, sharding);
  return to_text(members, JsonStyle::kCompact);
}

std::string strings_text(
    const std::vector<std::pair<std::string_view, std::string_view>>& strings) {
  Node root;
  for (const auto& [name, text] : strings) add_string(root, name, text);
  return to_text(node_json(root), JsonStyle::kCompact);
}

}  // namespace cairn::inline v0::orbax
