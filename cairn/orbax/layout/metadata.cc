// metadata.cc -- parses the small JSON files of an Orbax checkpoint.
#include <cairn/orbax/layout/metadata.h>

#include <cairn/base/base64.h>
#include <cairn/base/errors.h>
#include <cairn/base/json/python_str.h>
#include <cairn/base/json/scan.h>
#include <cairn/io/file.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <fmt/format.h>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 30U;
constexpr int kMaxNesting = 128;  // the maximum nesting of _strings.json

std::optional<std::int64_t> optional_time(const Json& object, std::string_view name) {
  const Json* value = object.find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  const auto time = value->as_int64();
  if (!time)
    data_loss("'" + std::string(name) + "' is " + std::string(value->type_text()) +
              ", not an integer");
  return time;
}

std::vector<std::pair<std::string, std::string>> parse_handlers(const Json* value) {
  std::vector<std::pair<std::string, std::string>> handlers;
  if (value == nullptr || value->is_null()) return handlers;
  if (const auto* text = value->as_string()) return {{"", *text}};
  const auto* members = value->as_object();
  if (members == nullptr) data_loss("'item_handlers' is " + std::string(value->type_text()));
  for (const auto& [item, handler] : *members) {
    if (handler.as_string() == nullptr && !handler.is_null())
      data_loss("the handler of item '" + item + "' is " + std::string(handler.type_text()));
    handlers.emplace_back(item, handler.is_null() ? "" : *handler.as_string());
  }
  return handlers;
}

Json object_or_null(const Json& parent, std::string_view name) {
  const Json* value = parent.find(name);
  if (value == nullptr || value->is_null()) return {};
  if (value->as_object() == nullptr)
    data_loss("'" + std::string(name) + "' is " + std::string(value->type_text()) +
              ", not an object");
  return *value;
}

// An array without a recorded shape has the value null.
Shape scan_shape_or_null(JsonScanner& in) { return in.null() ? Shape() : scan_shape(in); }

std::string scan_random_key_impl(JsonScanner& in) {
  std::string impl;
  if (in.null()) return impl;
  std::string_view member;
  in.begin_object();
  while (in.next_member(member)) {
    if (member == "random_key_impl" && !in.null())
      in.string(impl);
    else if (member != "random_key_impl")
      in.skip();
  }
  return impl;
}

StoredArrayMetadata scan_array_metadata(JsonScanner& in) {
  StoredArrayMetadata out;
  bool has_name = false;
  std::string_view member;
  in.begin_object();
  while (in.next_member(member)) {
    if (member == "param_name") {
      in.string(out.name);
      has_name = true;
    } else if (member == "write_shape") {
      out.write_shape = scan_shape_or_null(in);
    } else if (member == "chunk_shape") {
      out.chunk_shape = scan_shape_or_null(in);
    } else if (member == "ext_metadata") {
      out.random_key_impl = scan_random_key_impl(in);
    } else {
      in.skip();
    }
  }
  if (!has_name) in.fail("an array without 'param_name'");
  return out;
}

// The name of a parameter in _sharding: URL-safe base64 with padding.
std::string decode_name(std::string_view text) {
  std::string_view body = text;
  while (body.ends_with('=') && text.size() - body.size() < 2) body.remove_suffix(1);
  if (text.size() % 4 != 0)
    data_loss("'" + std::string(text) + "' is not base64: its length is not a multiple of 4");
  const auto bytes = decode_base64(body, Base64::kUrlSafe);
  if (!bytes) data_loss("'" + std::string(text) + "' is not URL-safe base64");
  return std::string(as_text(*bytes));
}

// Escapes one token of a JSON pointer: '~' becomes ~0, '/' becomes ~1.
std::string escape_token(std::string_view token) {
  std::string out;
  for (const char c : token) {
    if (c == '~' || c == '/')
      out += c == '~' ? "~0" : "~1";
    else
      out += c;
  }
  return out;
}

// Returns Python's str() of a JSON value that is not a string.
std::string python_text(std::string_view json) { return python_str(parse_json(json)); }

using FoundStrings = std::unordered_map<std::string, std::string>;

void scan_strings(JsonScanner& in, const std::string& pointer, int depth,
                  const IsStringLeaf& is_leaf, FoundStrings& out) {
  if (depth > kMaxNesting)
    in.fail("nested more than " + std::to_string(kMaxNesting) + " levels deep");
  std::string_view member;
  in.begin_object();
  while (in.next_member(member)) {
    // Orbax uses the name itself as the pointer without escaping it, and rejects names that would
    // not read back unchanged.
    std::string name = pointer + escape_token(member);
    const char kind = in.peek();
    if (kind == '{') {
      if (is_leaf && is_leaf(name)) {
        const std::size_t begin = in.offset();
        out.insert_or_assign(name, python_text(in.skip()));
        in.return_to(begin);
      }
      scan_strings(in, name + "/", depth + 1, is_leaf, out);
    } else if (kind == '"')
      out.insert_or_assign(std::move(name), in.string());
    else
      out.insert_or_assign(std::move(name), python_text(in.skip()));
  }
}

}  // namespace

CheckpointMetadata parse_checkpoint_metadata(std::string_view json) {
  const Json object = parse_json(json);
  if (object.as_object() == nullptr)
    data_loss("expected an object, found " + std::string(object.type_text()));
  CheckpointMetadata out;
  out.item_handlers = parse_handlers(object.find("item_handlers"));
  out.init_time_ns = optional_time(object, "init_timestamp_nsecs");
  out.commit_time_ns = optional_time(object, "commit_timestamp_nsecs");
  out.metrics = object_or_null(object, "metrics");
  out.performance_metrics = object_or_null(object, "performance_metrics");
  out.custom_metadata = object_or_null(object, "custom_metadata");
  return out;
}

CheckpointMetadata read_checkpoint_metadata(const std::string& file) {
  const auto text = read_text_file(file, kMaxFile);
  return with_context([&] { return file; },
                      [&] { return parse_checkpoint_metadata(as_text(text)); });
}

CheckpointMetadata read_checkpoint_metadata(const FolderHandle& folder, const std::string& file) {
  const auto text = folder.read_text(file, kMaxFile);
  return with_context([&] { return file; },
                      [&] { return parse_checkpoint_metadata(as_text(text)); });
}

bool is_unfinished(const CheckpointMetadata& metadata) {
  return metadata.init_time_ns && !metadata.commit_time_ns && metadata.item_handlers.empty();
}

Json parse_root_metadata(std::string_view json) {
  const Json object = parse_json(json);
  if (object.as_object() == nullptr)
    data_loss("expected an object, found " + std::string(object.type_text()));
  (void)object_or_null(object, "internal_metadata");
  Json custom = object_or_null(object, "custom_metadata");
  const bool has_custom = custom.as_object() != nullptr && !custom.as_object()->empty();
  for (const auto& [name, value] : *object.as_object()) {
    if (name == "internal_metadata" || name == "custom_metadata") continue;
    if (has_custom)
      data_loss("unknown member '" + name + "' beside 'custom_metadata': Orbax refuses the file");
    custom.set(name, value);
  }
  return custom;
}

std::vector<StoredArrayMetadata> parse_array_metadatas(std::string_view json) {
  std::vector<StoredArrayMetadata> out;
  JsonScanner in(json);
  std::string_view member;
  bool has_list = false;
  in.begin_object();
  while (in.next_member(member)) {
    if (member != "array_metadatas") {
      in.skip();
      continue;
    }
    has_list = true;
    in.begin_array();
    while (in.next_item()) {
      in.begin_object();
      while (in.next_member(member)) {
        if (member == "array_metadata")
          out.push_back(scan_array_metadata(in));
        else
          in.skip();
      }
    }
  }
  in.finish();
  if (!has_list) in.fail("no 'array_metadatas'");
  return out;
}

std::vector<std::pair<std::string, std::string>> parse_shardings(std::string_view json) {
  std::vector<std::pair<std::string, std::string>> out;
  JsonScanner in(without_byte_order_mark(json));
  std::string_view name;
  in.begin_object();
  while (in.next_member(name)) {
    auto& [parameter, sharding] = out.emplace_back(decode_name(name), std::string());
    in.string(sharding);
  }
  in.finish();
  return out;
}

std::unordered_map<std::string, std::string> parse_strings(std::string_view json,
                                                           const IsStringLeaf& is_leaf) {
  FoundStrings out;
  JsonScanner in(without_byte_order_mark(json));
  scan_strings(in, "", 0, is_leaf, out);
  in.finish();
  return out;
}

Json given_json(const std::string& text, std::string_view what) {
  auto json = try_call([&] { return parse_json(text); });
  if (!json) throw Error(Code::kInvalidArgument, std::string(what) + ": " + json.error().message());
  return std::move(json).value();
}

Json given_object(const std::string& text, std::string_view what) {
  Json json = given_json(text, what);
  if (json.as_object() == nullptr)
    throw Error(Code::kInvalidArgument, std::string(what) + " is " + std::string(json.type_text()) +
                                            "; it must be a JSON object");
  return json;
}

}  // namespace cairn::inline v0::orbax
