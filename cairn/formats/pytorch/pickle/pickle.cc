#include <cairn/formats/pytorch/pickle/pickle.h>

#include <bit>

namespace cairn::inline v0::pickle {

double Pickle::real(Value value) const { return std::bit_cast<double>(nodes_[value].word); }

ByteView Pickle::bytes(Value value) const {
  const Node& node = nodes_[value];
  return ByteView(node.is_own ? own_ : input_).subspan(node.word, node.count);
}

std::span<const Value> Pickle::items(Value value) const {
  const Node& node = nodes_[value];
  return std::span(links_).subspan(static_cast<std::uint32_t>(node.word), node.count);
}

bool Pickle::is_global(Value value, std::string_view name) const {
  if (kind(value) != Kind::kGlobal) return false;
  const std::string_view module = module_of(value), last = name_of(value);
  return name.size() == module.size() + 1 + last.size() && name.starts_with(module) &&
         name[module.size()] == '.' && name.ends_with(last);
}

}  // namespace cairn::inline v0::pickle
