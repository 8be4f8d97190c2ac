// name_table.cc -- finds tensors by name.

#include <cairn/tree/name_table.h>

#include <bit>
#include <functional>

namespace cairn::inline v0 {

NameTable::NameTable(std::span<const TensorInfo> tensors)
    : tensors_(tensors), slots_(std::bit_ceil(2 * tensors.size() + 1), kEmpty) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::size_t& slot = slots_[slot_of(tensors[i].name)];
    if (slot == kEmpty)
      slot = i;
    else
      repeated_.emplace_back(i, slot);
  }
}

std::size_t NameTable::slot_of(std::string_view name) const {
  std::size_t slot = std::hash<std::string_view>()(name) & (slots_.size() - 1);
  while (slots_[slot] != kEmpty && tensors_[slots_[slot]].name != name)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

std::optional<std::size_t> NameTable::find(std::string_view name) const {
  const std::size_t i = slots_[slot_of(name)];
  return i == kEmpty ? std::nullopt : std::optional(i);
}

}  // namespace cairn::inline v0
