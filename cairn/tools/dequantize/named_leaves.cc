#include <cairn/tools/dequantize/named_leaves.h>

#include <cairn/base/errors.h>

#include <fmt/format.h>

namespace cairn::inline v0 {
namespace {

constexpr std::int64_t kMostIntegers = 64;

bool is_integer_list(const TensorInfo& leaf) {
  const DTypeKind kind = dtype_kind(leaf.dtype);
  return leaf.kind == LeafKind::kArray && leaf.error.empty() &&
         (kind == DTypeKind::kInt || kind == DTypeKind::kUint) && leaf.shape.size() <= 1 &&
         element_count(leaf.shape) <= kMostIntegers;
}

}  // namespace

NamedLeaves::NamedLeaves(const Checkpoint& source) : source_(source), tensors_(source.tensors()) {
  by_name_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].full_name(), i);
}

std::optional<std::size_t> NamedLeaves::sibling(std::size_t i, std::string_view from,
                                                std::string_view to) const {
  std::string name = tensors_[i].full_name();
  if (!std::string_view(name).ends_with(from)) return std::nullopt;
  name.replace(name.size() - from.size(), from.size(), to);
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::size_t> NamedLeaves::readable(std::size_t i, std::string_view from,
                                                 std::string_view to) const {
  const auto found = sibling(i, from, to);
  if (!found) return std::nullopt;
  const TensorInfo& leaf = tensors_[*found];
  if (leaf.kind != LeafKind::kArray || !leaf.error.empty() || leaf.dtype == DType::kOpaque)
    data_loss(fmt::format("{}: a parameter of {} that is not an array of numbers{}{}",
                          leaf.full_name(), tensors_[i].full_name(), leaf.error.empty() ? "" : ": ",
                          leaf.error));
  return found;
}

std::size_t NamedLeaves::required(std::size_t i, std::string_view from, std::string_view to) const {
  if (const auto found = readable(i, from, to)) return *found;
  std::string name = tensors_[i].full_name();
  name.replace(name.size() - from.size(), from.size(), to);
  invalid_argument(fmt::format("{}: cannot be dequantised without {}, which the checkpoint lacks",
                               tensors_[i].full_name(), name));
}

void StoredIntegers::read() {
  std::vector<std::pair<std::size_t, Array>> arrays;
  std::vector<ReadRequest> requests;
  for (const std::size_t index : wanted_) {
    const TensorInfo& leaf = leaves_[index];
    if (!is_integer_list(leaf)) continue;
    arrays.emplace_back(index, Array::allocate(leaf.dtype, leaf.shape));
    requests.push_back({index, Box::whole(leaf.shape), arrays.back().second.mutable_view()});
  }
  if (!requests.empty()) leaves_.source().read(requests, {});
  for (const auto& [index, array] : arrays) {
    const Array wide = array.cast(DType::kInt64);
    const auto* begin = reinterpret_cast<const std::int64_t*>(wide.bytes().data());
    found_[index].assign(begin, begin + element_count(array.shape()));
  }
}

const std::vector<std::int64_t>& StoredIntegers::at(std::size_t index) const {
  const auto found = found_.find(index);
  if (found == found_.end())
    data_loss(leaves_[index].full_name() + ": expected a list of integers, found " +
              leaves_[index].dtype_name + shape_text(leaves_[index].shape));
  return found->second;
}

}  // namespace cairn::inline v0
