// text_items.h -- items of an Orbax step that are one text: JSON, or the text of a protocol buffer.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/orbax/layout/layout.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

enum class TextItemKind : std::uint8_t { kJson, kProto };

// An item without leaves that has one file of text.
struct TextItem {
  orbax::Item item;
  TextItemKind kind = TextItemKind::kJson;
  std::string file;  // path of the file
};

// nullopt for a tree, and for an item of which only its own handler knows the files.
std::optional<TextItem> find_text(const orbax::Item& item);
// The text items of a checkpoint that was opened as a whole; none if it is not a step of Orbax.
std::vector<TextItem> text_items(const Checkpoint& checkpoint);
// The text as stored. Throws data_loss for JSON that does not parse, and for a text above 64 MiB.
std::string read_text(const TextItem& text);
// Whether two texts of a kind have the same meaning: JSON is compared as values, and the order of
// the members of an object does not count.
bool same_text(TextItemKind kind, const std::string& a, const std::string& b);

}  // namespace cairn::inline v0
