// items.cc -- the steps of a root, and the items of a step that are one text.
#include <cairn/inspect.h>

#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/tools/source/open_to_verify.h>
#include <cairn/tools/source/text_items.h>

#include <algorithm>
#include <filesystem>

namespace cairn::inline v0 {
namespace {

std::optional<std::string> read_item(const Checkpoint& checkpoint, std::string_view name,
                                     TextItemKind kind) {
  const CheckpointInfo& info = checkpoint.info();
  if (info.format != "orbax") return std::nullopt;
  const orbax::Layout& layout = dynamic_cast<const orbax::OrbaxCheckpoint&>(checkpoint).layout();
  const auto item = std::ranges::find(layout.items, name, &orbax::Item::name);
  if (item == layout.items.end()) return std::nullopt;
  const auto text = find_text(*item);
  if (!text || text->kind != kind) return std::nullopt;
  return read_text(*text);
}

}  // namespace

std::vector<std::int64_t> step_numbers(const std::string& path, const StoreOptions& store) {
  std::vector<std::int64_t> numbers;
  for (const std::string& step : list_steps(path, store))
    if (const auto number = number_at_end(std::filesystem::path(step).filename().string()))
      numbers.push_back(*number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<std::string> read_json_item(const Checkpoint& checkpoint, std::string_view name) {
  return read_item(checkpoint, name, TextItemKind::kJson);
}

std::optional<std::string> read_proto_item(const Checkpoint& checkpoint, std::string_view name) {
  return read_item(checkpoint, name, TextItemKind::kProto);
}

}  // namespace cairn::inline v0
