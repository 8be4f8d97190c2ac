// checkpoint.cc -- what every open checkpoint can do, whatever its format: find a tensor by name,
// read, view, load.
#include <cairn/checkpoint.h>

#include <cairn/array/arena.h>
#include <cairn/base/executor.h>
#include <cairn/tree/build_tree.h>
#include <cairn/tree/leaf_value.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kMaxCheckedPiece = std::uint64_t{64} << 20U;  // bytes read at once

// Calls f for parts of the box that have about `most` elements at most.
void for_each_piece(const Box& box, std::int64_t most, const std::function<void(const Box&)>& f) {
  if (element_count(box.shape) <= std::max<std::int64_t>(most, 1)) return f(box);
  const auto longest = static_cast<std::size_t>(
      std::max_element(box.shape.begin(), box.shape.end()) - box.shape.begin());
  Box first = box, second = box;
  first.shape[longest] /= 2;
  second.shape[longest] -= first.shape[longest];
  second.origin[longest] += first.shape[longest];
  for_each_piece(first, most, f);
  for_each_piece(second, most, f);
}

// Reads a leaf and drops its values. Throws the error of the read.
void check_leaf(const Checkpoint& checkpoint, std::size_t index) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  check_readable(tensor.full_name(), tensor);
  if (tensor.is_string()) return (void)checkpoint.read_strings(index);
  const auto most =
      static_cast<std::int64_t>(kMaxCheckedPiece / std::max<std::size_t>(tensor.element_size, 1));
  for_each_piece(Box::whole(tensor.shape), most, [&](const Box& box) {
    Array piece = Array::allocate(tensor.dtype, tensor.element_size, box.shape);
    checkpoint.read(std::vector<ReadRequest>{{index, box, piece.mutable_view()}}, {});
  });
}

}  // namespace

VerifyReport Checkpoint::verify(const ProgressFn& progress) const {
  VerifyReport report;
  CheckpointInfo info = this->info();
  report.path = std::move(info.path);
  report.step = info.step;
  const auto& all = tensors();
  const std::uint64_t total = std::accumulate(
      all.begin(), all.end(), std::uint64_t{0},
      [](std::uint64_t sum, const TensorInfo& tensor) { return sum + tensor.nbytes; });
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_array() && !all[i].is_string() && !all[i].is_custom()) continue;
    ++report.tensors;
    try {
      check_leaf(*this, i);
      report.bytes += all[i].nbytes;
      if (progress) progress(report.bytes, total);
    } catch (const Error& e) {
      report.findings.push_back({severity_of(e.code()), all[i].full_name(), "", 0, e.message()});
    }
    if (all[i].is_array()) report.unprotected.push_back(all[i].full_name());
  }
  return report;
}

std::string Checkpoint::read_string(std::size_t index) const {
  const TensorInfo& tensor = tensors()[index];
  throw Error(Code::kInvalidArgument,
              "'" + tensor.full_name() + "' is not a string (kind: " + tensor.typestr + ")");
}

Executor& Checkpoint::executor() const { return default_executor(); }

void Checkpoint::read(std::string_view name, const Box& box, const MutableArrayView& out) const {
  const std::vector<ReadRequest> request{{index(name), box, out}};
  read(request, {});
}

Array Checkpoint::read(std::string_view name) const {
  const std::size_t i = index(name);
  const TensorInfo& tensor = tensors()[i];
  check_readable(tensor.name, tensor);
  if (!tensor.is_array())
    throw Error(Code::kInvalidArgument,
                "'" + tensor.name + "' is not an array (kind: " + tensor.typestr + ")");
  Array array = Array::allocate(tensor.dtype, tensor.element_size, tensor.shape);
  const std::vector<ReadRequest> request{{i, Box::whole(tensor.shape), array.mutable_view()}};
  read(request, {});
  return array;
}

void Checkpoint::check_type(std::string_view name, DType wanted) const {
  const TensorInfo& tensor = info(name);
  if (tensor.is_array() && tensor.error.empty() && tensor.dtype != wanted)
    throw Error(Code::kInvalidArgument, "'" + tensor.full_name() + "' is " + tensor.dtype_name +
                                            ", not " + std::string(dtype_name(wanted)) +
                                            "; read(name).cast(dtype) converts it");
}

Array Checkpoint::view(std::string_view name) const {
  const std::size_t i = index(name);
  const TensorInfo& tensor = tensors()[i];
  check_readable(tensor.name, tensor);
  if (!tensor.is_array())
    throw Error(Code::kInvalidArgument,
                "'" + tensor.name + "' is not an array (kind: " + tensor.typestr + ")");
  if (auto mapped = try_view(i)) return *std::move(mapped);
  throw Error(Code::kFailedPrecondition,
              "'" + tensor.name +
                  "' cannot be mapped: it is not stored as one uncompressed chunk in a local file" +
                  " (chunks of " + shape_text(tensor.chunk_shape) + " for shape " +
                  shape_text(tensor.shape) + "); read it instead");
}

void Checkpoint::check_complete() const {
  CheckpointInfo info = this->info();
  std::vector<MissingPart>& missing = info.missing;
  std::erase_if(missing, [](const MissingPart& part) { return part.is_listed; });
  if (missing.empty() || (info.allow_missing && !tensors().empty())) return;
  constexpr std::size_t kNamed = 10;
  std::string parts;
  for (std::size_t i = 0; i < missing.size() && i < kNamed; ++i)
    parts.append(i > 0 ? "; " : "").append(missing[i].text);
  if (missing.size() > kNamed)
    parts.append("; and ").append(std::to_string(missing.size() - kNamed)).append(" more");
  throw Error(
      Code::kDataLoss,
      parts + (tensors().empty() ? std::string("; nothing is left to read")
                                 : ". Use the rest with --allow-missing "
                                   "(allow_missing)" +
                                       std::string(info.items.empty() ? ""
                                                                      : ", or choose an item with "
                                                                        "--item (item)")));
}

std::vector<Tree> Checkpoint::load_leaves(const ProgressFn& progress) const {
  check_complete();
  const auto& all = tensors();
  std::vector<Tree> leaves(all.size());
  std::vector<ReadRequest> requests;
  requests.reserve(all.size());
  ArrayArena arena;
  for (const TensorInfo& tensor : all)
    if (tensor.is_array()) arena.expect(tensor.nbytes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_array() && !all[i].is_custom()) continue;
    check_readable(all[i].full_name(), all[i]);
    auto [array, out] = arena.allocate(all[i].dtype, all[i].element_size, all[i].shape);
    leaves[i] = Tree(std::move(array));
    requests.push_back({i, Box::whole(all[i].shape), std::move(out)});
  }
  read(requests, progress);
  for (std::size_t i = 0; i < all.size(); ++i) {
    // Orbax saves complex numbers only as NumPy values: a Python number could not be saved again.
    const bool stays =
        all[i].typestr == "scalar" && dtype_kind(all[i].dtype) == DTypeKind::kComplex;
    if (!all[i].is_array())
      leaves[i] = other_leaf(i);
    else if (!stays)
      leaves[i] = array_leaf(all[i], std::move(std::get<Array>(leaves[i].value())));
  }
  return leaves;
}

Tree Checkpoint::other_leaf(std::size_t index) const {
  const TensorInfo& tensor = tensors()[index];
  if (!tensor.is_string()) return empty_leaf(tensor.typestr);
  if (tensor.shape.empty()) return Tree(read_string(index));
  return strings_leaf(tensor, read_strings(index));
}

Tree Checkpoint::load(const ProgressFn& progress) const {
  std::vector<Tree> leaves = load_leaves(progress);
  return tree_of([&](std::size_t i) { return std::move(leaves[i]); });
}

Tree Checkpoint::structure() const {
  return tree_of([](std::size_t i) { return Tree(static_cast<std::int64_t>(i)); });
}

Tree Checkpoint::rich_structure() const {
  return rich_tree_of([](std::size_t i) { return Tree(static_cast<std::int64_t>(i)); });
}

Tree Checkpoint::tree_of(const std::function<Tree(std::size_t)>& leaf) const {
  const auto& all = tensors();
  if (all.empty()) return Tree(Tree::Dict{});
  std::deque<KeyPath> below_items;  // the paths that start with the item's name
  std::vector<const KeyPath*> paths;
  paths.reserve(all.size());
  for (const TensorInfo& tensor : all) {
    if (!tensor.item) {
      paths.push_back(&tensor.path);
      continue;
    }
    KeyPath& path = below_items.emplace_back();
    path.reserve(tensor.path.size() + 1);
    path.push_back({*tensor.item, KeyType::kDict});
    path.insert(path.end(), tensor.path.begin(), tensor.path.end());
    paths.push_back(&path);
  }
  return build_tree(paths, leaf);
}

}  // namespace cairn::inline v0
