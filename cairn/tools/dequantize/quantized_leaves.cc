#include <cairn/tools/dequantize/quantized_leaves.h>

#include <cairn/base/errors.h>
#include <cairn/tools/dequantize/leaf_formats.h>
#include <cairn/tools/dequantize/named_leaves.h>

#include <set>
#include <string>
#include <utility>

namespace cairn::inline v0 {
namespace {

// A quantised tensor of PyTorch takes the place of a dict. If its object has attributes, they stay,
// and it is a member beside them, as other tensors with attributes are.
void place_beside_attributes(const NamedLeaves& leaves, const std::vector<bool>& used,
                             std::vector<DequantizedLeaf>& found) {
  std::set<std::string> occupied;  // dicts that keep leaves
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (used[i]) continue;
    KeyPath path = leaves[i].path;
    while (!path.empty()) {
      path.pop_back();
      occupied.insert(leaves[i].item.value_or("") + path_text(path));
    }
  }
  for (DequantizedLeaf& leaf : found) {
    const TensorInfo& codes = leaves[leaf.codes];
    if (leaf.path.size() < codes.path.size() &&
        occupied.contains(codes.item.value_or("") + path_text(leaf.path)))
      leaf.path.push_back({"value", KeyType::kDict});
  }
}

// No other leaf may have the name of a result.
void check_paths(const NamedLeaves& leaves, const std::vector<bool>& used,
                 const std::vector<DequantizedLeaf>& found) {
  std::set<std::string> taken;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (!used[i]) taken.insert(leaves[i].full_name());
  for (const DequantizedLeaf& leaf : found) {
    TensorInfo named{.name = param_name(leaf.path), .item = leaves[leaf.codes].item};
    if (!taken.insert(named.full_name()).second)
      invalid_argument(leaves[leaf.codes].full_name() + ": would be dequantised to " +
                       named.full_name() + ", which is another leaf");
  }
}

StoredIntegers read_integers(const NamedLeaves& leaves) {
  StoredIntegers integers(leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    for (const auto& [codes, part] :
         {std::pair("weight_packed", "weight_shape"), std::pair("int_repr", "axis")})
      if (name_ends_with(leaves[i], codes))
        if (const auto found = leaves.sibling(i, codes, part)) integers.add(*found);
  integers.read();
  return integers;
}

}  // namespace

std::vector<DequantizedLeaf> find_quantized(const Checkpoint& source, const ModelConfig& config,
                                            std::optional<DType> dtype) {
  const NamedLeaves leaves(source);
  const StoredIntegers integers = read_integers(leaves);
  const LeafSearch search{leaves, integers, config, dtype ? dtype : config.dtype};
  for (std::size_t i = 0; i < leaves.size(); ++i) refuse_format_of(leaves, i);
  std::vector<DequantizedLeaf> found;
  std::vector<bool> used(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i)
    for (const auto& find : {find_scaled, find_mxfp4, find_packed, find_affine})
      if (auto leaf = find(search, i)) {
        used[i] = true;
        for (const std::size_t part : leaf->parameters) used[part] = true;
        found.push_back(*std::move(leaf));
        break;
      }
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (!used[i]) refuse_alone(leaves, i);
  if (found.empty()) refuse_other_method(config);
  place_beside_attributes(leaves, used, found);
  check_paths(leaves, used, found);
  return found;
}

}  // namespace cairn::inline v0
