// text_items.cc -- finds, reads and compares the items that are one text.
#include <cairn/tools/source/text_items.h>

#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/read/orbax_reader.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kMostText = std::uint64_t{64} << 20U;  // as strings

// The same value with the members of all objects in one order.
Json ordered(const Json& json) {
  if (const JsonArray* array = json.as_array()) {
    JsonArray out;
    for (const Json& element : *array) out.push_back(ordered(element));
    return out;
  }
  const JsonObject* object = json.as_object();
  if (object == nullptr) return json;
  JsonObject out;
  for (const auto& [name, value] : *object) out.emplace_back(name, ordered(value));
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

}  // namespace

std::optional<TextItem> find_text(const orbax::Item& item) {
  if (item.kind != orbax::ItemKind::kOther) return std::nullopt;
  const orbax::Listing listing = orbax::list_directory(item.folder, item.path);
  for (const std::string_view name : orbax::json_item_files(item.name))
    if (listing.has_file(name))
      return TextItem{item, TextItemKind::kJson, orbax::join(item.path, name)};
  if (!listing.has_file(orbax::kProtoItemFile)) return std::nullopt;
  return TextItem{item, TextItemKind::kProto, orbax::join(item.path, orbax::kProtoItemFile)};
}

std::vector<TextItem> text_items(const Checkpoint& checkpoint) {
  const auto* source = dynamic_cast<const orbax::OrbaxCheckpoint*>(&checkpoint);
  std::vector<TextItem> found;
  if (source == nullptr || !source->is_whole()) return found;
  for (const orbax::Item& item : source->layout().items)
    if (auto text = find_text(item)) found.push_back(std::move(*text));
  return found;
}

std::string read_text(const TextItem& text) {
  std::string content(as_text(text.item.folder->read_text(text.file, kMostText)));
  if (text.kind == TextItemKind::kProto) return content;
  try {
    (void)parse_json(content);
  } catch (const Error& e) {
    throw Error(Code::kDataLoss, text.file + ": is not JSON: " + e.message());
  }
  return content;
}

bool same_text(TextItemKind kind, const std::string& a, const std::string& b) {
  if (a == b || kind == TextItemKind::kProto) return a == b;
  return ordered(parse_json(a)) == ordered(parse_json(b));
}

}  // namespace cairn::inline v0
