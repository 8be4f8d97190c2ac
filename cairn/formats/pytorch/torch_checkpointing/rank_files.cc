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
#include <set>
#include <variant>

namespace cairn::inline v0::pytorch::torch_checkpointing {
namespace {

// A DTensor is an object with the part of its rank as an attribute.
constexpr const char* kLocalTensor = "_local_tensor";

std::string joined(const TextPath& path) { return fmt::format("{}", fmt::join(path, ".")); }

const RawLeaf& part_of(const RankFile& file, const TextPath& tensor, const Box& box,
                       const TorchElement& element) {
  const RawLeaf* part = file.find(tensor);
  if (part == nullptr)
    data_loss(fmt::format("{}: has no part of it, although the metadata says so", file.path));
  if (!part->info.error.empty()) throw Error(part->info.error_code, part->info.error);
  if (part->info.shape != box.shape)
    data_loss(fmt::format("{}: its part has the shape [{}], the metadata says [{}]", file.path,
                          fmt::join(part->info.shape, ", "), fmt::join(box.shape, ", ")));
  if (part->info.dtype != element.dtype ||
      (element.dtype == DType::kOpaque && part->info.dtype_name != element.name))
    data_loss(fmt::format("{}: its part has elements of {}, the metadata says torch.{}", file.path,
                          part->info.dtype_name, element.name));
  return *part;
}

}  // namespace

TextPath texts_of(const KeyPath& path) {
  TextPath texts;
  texts.reserve(path.size());
  for (const Key& key : path) texts.push_back(key.text);
  return texts;
}

const RawLeaf* RankFile::find(const TextPath& tensor) const {
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
      read.parts.emplace(std::move(name), make_leaf(std::move(entry), number, shard.data_start));
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
    read.parts.emplace(std::move(path), leaf.leaf);
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
  std::vector<const RawLeaf*> parts;
  std::set<std::pair<Shape, Shape>> known;
  for (const Division& division : tensor.divisions) {
    if (division.shape != first.shape || division.dtype != first.dtype)
      data_loss("the ranks describe it differently");
    std::vector<std::uint64_t> ranks = division.ranks;
    std::ranges::sort(ranks);
    for (const std::uint64_t rank : ranks) {
      Box box = box_of_rank(division, rank);
      const auto file = std::ranges::find(files, rank, &RankFile::rank);
      if (file == files.end()) data_loss(fmt::format("rank {} has no file", rank));
      const RawLeaf& part = part_of(*file, tensor.path, box, *element);
      if (box.empty() || !known.emplace(box.origin, box.shape).second) continue;
      leaf.info.stored_nbytes += part.info.stored_nbytes;
      boxes.push_back(std::move(box));
      parts.push_back(&part);
    }
  }
  const Coverage coverage = cover(boxes, steps);
  if (!coverage.doubles.empty()) data_loss("the parts of its ranks overlap");
  if (coverage.elements != element_count(leaf.info.shape))
    data_loss(fmt::format("the parts of its ranks hold {} of its {} elements", coverage.elements,
                          element_count(leaf.info.shape)));
  leaf.slices.emplace();
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!parts[i]->unreadable.empty()) leaf.unreadable = parts[i]->unreadable;
    leaf.slices->push_back({.array = parts[i]->array, .box = std::move(boxes[i])});
  }
  return leaf;
}

}  // namespace cairn::inline v0::pytorch::torch_checkpointing
