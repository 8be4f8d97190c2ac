#include <cairn/formats/pytorch/torch_checkpointing/rank_files.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/file/read_states.h>
#include <cairn/formats/pytorch/tensors/element.h>
#include <cairn/formats/pytorch/tensors/place.h>
#include <cairn/formats/raw/coverage.h>
#include <cairn/formats/safetensors/shard.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <variant>

namespace cairn::inline v0::pytorch::torch_checkpointing {
namespace {

// A DTensor is an object with the part of its rank as an attribute.
constexpr const char* kLocalTensor = "_local_tensor";

std::string joined(const TextPath& path) { return fmt::format("{}", fmt::join(path, ".")); }

// The tensor that a rank has. Throws data_loss unless it has elements of this type.
const RankTensor& tensor_in(const RankFile& file, const TextPath& tensor,
                            const TorchElement& element) {
  const RankTensor* found = file.find(tensor);
  if (found == nullptr)
    data_loss(fmt::format("{}: has no part of it, although the metadata says so", file.path));
  const TensorInfo& info = found->leaf.info;
  if (!info.error.empty()) throw Error(info.error_code, info.error);
  if (info.dtype != element.dtype ||
      (element.dtype == DType::kOpaque && info.dtype_name != element.name))
    data_loss(fmt::format("{}: its part has elements of {}, the metadata says torch.{}", file.path,
                          info.dtype_name, element.name));
  return *found;
}

std::vector<LocalPart> parts_of_rank(const Division& division, std::uint64_t rank) {
  if (division.parts) return *division.parts;
  return {{.box = box_of_rank(division, rank), .local = Shape(division.shape.size(), 0)}};
}

// Throws data_loss unless the part lies in a tensor of this shape. That of a mesh is all of it.
void check_part(const LocalPart& part, bool is_all, const std::string& path, const Shape& shape) {
  if (is_all) {
    if (shape == part.box.shape) return;
    data_loss(fmt::format("{}: its part has the shape [{}], the metadata says [{}]", path,
                          fmt::join(shape, ", "), fmt::join(part.box.shape, ", ")));
  }
  bool fits = shape.size() == part.local.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d)
    fits = part.local[d] <= shape[d] && part.box.shape[d] <= shape[d] - part.local[d];
  if (fits) return;
  data_loss(fmt::format(
      "{}: its tensor has the shape [{}]; the metadata names the elements [{}] "
      "from [{}] on",
      path, fmt::join(shape, ", "), fmt::join(part.box.shape, ", "), fmt::join(part.local, ", ")));
}

// A pickle may give a list of parts to any number of ranks, and each part takes memory.
void take_steps(std::uint64_t& steps, std::size_t parts) {
  constexpr std::uint64_t kStepsOfPart = 8;
  if (parts > steps / kStepsOfPart) data_loss("the parts of its ranks are too many");
  steps -= kStepsOfPart * parts;
}

// The bytes of a box of a tensor of a rank.
RawArray array_of(const RankTensor& from, const TorchElement& element, const Box& box) {
  const RawArray& whole = from.leaf.array;
  if (box.shape == from.leaf.info.shape) return whole;
  if (whole.is_packed())
    throw Error(Code::kUnimplemented,
                "its parts lie in tensors of which a byte holds several elements");
  TorchTensor tensor;
  if (from.tensor) {
    tensor = *from.tensor;
  } else {
    tensor.element = element;
    tensor.shape = from.leaf.info.shape;
    tensor.storage.element = element;
    tensor.storage.count = static_cast<std::uint64_t>(element_count(tensor.shape));
    std::int64_t stride = 1;
    tensor.strides.resize(tensor.shape.size());
    for (std::size_t d = tensor.shape.size(); d-- > 0; stride *= tensor.shape[d])
      tensor.strides[d] = stride;
  }
  return place_tensor(narrowed(std::move(tensor), box),
                      {.bytes = whole.within ? whole.within : std::make_shared<CommonBytes>(whole),
                       .big_endian = whole.big_endian});
}

// The ranks that have parts, the lowest one first, each with the division that it takes part in.
std::vector<std::pair<std::uint64_t, const Division*>> holders_of(const DividedTensor& tensor) {
  const Division& first = tensor.divisions.front();
  std::vector<std::pair<std::uint64_t, const Division*>> holders;
  for (const Division& division : tensor.divisions) {
    if (division.shape != first.shape || division.dtype != first.dtype)
      data_loss("the ranks describe it differently");
    for (const std::uint64_t rank : division.ranks) holders.emplace_back(rank, &division);
  }
  std::ranges::stable_sort(holders, {}, &std::pair<std::uint64_t, const Division*>::first);
  return holders;
}

}  // namespace

TextPath texts_of(const KeyPath& path) {
  TextPath texts;
  texts.reserve(path.size());
  for (const Key& key : path) texts.push_back(key.text);
  return texts;
}

const RankTensor* RankFile::find(const TextPath& tensor) const {
  const auto found =
      parts.find(format == ItemFormat::kSafetensors ? TextPath{joined(tensor)} : tensor);
  return found == parts.end() ? nullptr : &found->second;
}

std::pair<RankFile, File> read_rank_file(const FileTree& tree, const std::string& folder,
                                         const ItemFile& named, std::uint32_t number,
                                         Executor& executor) {
  RankFile read{.rank = named.rank,
                .path = folder + "/" + named.path,
                .file = {},
                .parts = {},
                .format = named.format};
  if (!tree.exists(read.path)) data_loss(read.path + ": the file is missing");
  if (named.format == ItemFormat::kSafetensors) {
    OpenShard shard = open_shard(tree, read.path);
    for (SafetensorsEntry& entry : shard.header.tensors) {
      TextPath name = {entry.name};
      read.parts.emplace(std::move(name),
                         RankTensor{make_leaf(std::move(entry), number, shard.data_start)});
    }
    return {std::move(read), std::move(shard.file)};
  }
  File file = with_read_ahead(tree.open(read.path));
  const auto parse = [](const pickle::Pickle& /*pickle*/) { return std::monostate(); };
  read.file = read_states(file, number, executor, parse).file;
  for (const StateLeaf& leaf : read.file.state.leaves) {
    if (!leaf.tensor) continue;
    TextPath path = texts_of(leaf.leaf.info.path);
    if (path.size() > 1 && path.back() == kLocalTensor) path.pop_back();
    read.parts.emplace(std::move(path), RankTensor{leaf.leaf, leaf.tensor});
  }
  return {std::move(read), std::move(file)};
}

RawLeaf whole_tensor(const DividedTensor& tensor, const std::vector<RankFile>& files,
                     std::uint64_t& steps) {
  const Division& first = tensor.divisions.front();
  const auto element = element_of_dtype(first.dtype);
  if (!element)
    throw Error(Code::kUnimplemented,
                fmt::format("its elements are {}, a type that Cairn does not know", first.dtype));
  RawLeaf leaf;
  leaf.info.typestr = "np.ndarray";
  leaf.info.shape = first.shape;
  leaf.info.dtype = element->dtype;
  leaf.info.dtype_name =
      element->dtype == DType::kOpaque ? element->name : dtype_name(element->dtype);
  leaf.info.element_size = element->size;
  TorchTensor whole;
  whole.element = *element;
  whole.shape = first.shape;
  leaf.info.nbytes = memory_of(whole);

  std::vector<Box> boxes;
  std::set<std::pair<Shape, Shape>> known;
  leaf.slices.emplace();
  for (const auto& [rank, division] : holders_of(tensor)) {
    if (division->parts) take_steps(steps, division->parts->size());
    std::vector<LocalPart> parts = parts_of_rank(*division, rank);
    const std::uint64_t wanted = rank;
    const auto file = std::ranges::find(files, wanted, &RankFile::rank);
    if (file == files.end()) data_loss(fmt::format("rank {} has no file", rank));
    const RankTensor& from = tensor_in(*file, tensor.path, *element);
    for (LocalPart& part : parts) {
      check_part(part, !division->parts, file->path, from.leaf.info.shape);
      if (part.box.empty() || !known.emplace(part.box.origin, part.box.shape).second) continue;
      if (!from.leaf.unreadable.empty()) leaf.unreadable = from.leaf.unreadable;
      const Box local{.origin = std::move(part.local), .shape = part.box.shape};
      leaf.slices->push_back({.array = array_of(from, *element, local), .box = part.box});
      leaf.info.stored_nbytes += leaf.slices->back().array.stored_bytes();
      boxes.push_back(std::move(part.box));
    }
  }
  const Coverage coverage = cover(boxes, steps);
  if (!coverage.doubles.empty()) data_loss("the parts of its ranks overlap");
  if (coverage.elements != element_count(leaf.info.shape))
    data_loss(fmt::format("the parts of its ranks hold {} of its {} elements", coverage.elements,
                          element_count(leaf.info.shape)));
  return leaf;
}

}  // namespace cairn::inline v0::pytorch::torch_checkpointing
