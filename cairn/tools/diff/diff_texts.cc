// diff_texts.cc -- pairs the JSON and protocol buffer items of two steps by name.
#include <cairn/tools/diff/diff_texts.h>

#include <cairn/tools/source/name_match.h>
#include <cairn/tools/source/text_items.h>

#include <algorithm>
#include <optional>

namespace cairn::inline v0 {
namespace {

// What one checkpoint has under the name of an item.
struct Side {
  const TextItem* item = nullptr;
  std::optional<std::string> text;  // none if it cannot be read
};

Side read_side(const TextItem* item, DiffSide& out) {
  if (item == nullptr) return {};
  out.kind = LeafKind::kString;
  out.typestr = item->kind == TextItemKind::kJson ? "json" : "proto";
  out.dtype_name = "string";
  auto text = try_call([&] { return read_text(*item); });
  if (text) return {item, std::move(text).value()};
  out.error = text.error().message();
  return {item, std::nullopt};
}

LeafDiff compare(const std::string& name, const TextItem* a, const TextItem* b) {
  LeafDiff leaf;
  leaf.item = name;
  const Side of_a = read_side(a, leaf.a);
  const Side of_b = read_side(b, leaf.b);
  if (b == nullptr) leaf.state = LeafState::kOnlyInA;
  if (a == nullptr) leaf.state = LeafState::kOnlyInB;
  if (a == nullptr || b == nullptr || !of_a.text || !of_b.text) return leaf;
  if (a->kind != b->kind) {
    leaf.differs.emplace_back("kind");
  } else if (!same_text(a->kind, *of_a.text, *of_b.text)) {
    leaf.differs.emplace_back("values");
    leaf.a.text = *of_a.text;
    leaf.b.text = *of_b.text;
  }
  return leaf;
}

const TextItem* find(const std::vector<TextItem>& items, const std::string& name) {
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const TextItem& one) { return one.item.name == name; });
  return found == items.end() ? nullptr : &*found;
}

bool is_step(const Checkpoint& checkpoint) {
  const CheckpointInfo info = checkpoint.info();
  return info.format == "orbax" && !info.items.empty();
}

}  // namespace

void compare_texts(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options,
                   DiffReport& report) {
  if (!is_step(a) || !is_step(b)) return;
  const std::vector<TextItem> of_a = text_items(a);
  const std::vector<TextItem> of_b = text_items(b);
  const auto is_selected = [&](const TextItem& one) {
    return selects_item(options.include, options.exclude, one.item.name);
  };
  for (const TextItem& one : of_a)
    if (is_selected(one))
      report.leaves.push_back(compare(one.item.name, &one, find(of_b, one.item.name)));
  for (const TextItem& one : of_b)
    if (is_selected(one) && find(of_a, one.item.name) == nullptr)
      report.leaves.push_back(compare(one.item.name, nullptr, &one));
}

}  // namespace cairn::inline v0
