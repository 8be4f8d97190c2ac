#include <cairn/formats/pytorch/deepspeed/parameter_leaf.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/base/text.h>

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <utility>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

// The values of frozen parameters in one file, as indices of leaves.
using Fragments = std::map<std::string, std::size_t>;

const StateLeaf& fragment_leaf(const ModelFile& model, const Fragments& fragments,
                               const Parameter& parameter) {
  const auto found = fragments.find(parameter.name);
  if (found == fragments.end()) data_loss("it has no values among the frozen parameters");
  return model.file.state.leaves[found->second];
}

RawLeaf divided_leaf(const std::vector<ModelFile>& models, const std::vector<Fragments>& fragments,
                     const Parameter& parameter) {
  std::vector<FlatPart> parts;
  Lengths lengths;
  for (std::size_t rank = 0; rank < models.size(); ++rank) {
    parts.push_back(with_context(
        [&] { return models[rank].path + ": " + parameter.name; },
        [&] { return flat_part(fragment_leaf(models[rank], fragments[rank], parameter)); }));
    lengths.push_back({parts.back().count});
  }
  const std::vector<std::vector<Parameter>> groups = {{parameter}};
  const auto found = with_context([&] { return models[0].path + ": " + parameter.name; },
                                  [&] { return partition_parameters(groups, lengths); });
  const TorchElement& element = parts[0].element;
  return parameter_leaf(found[0], element, [&](const Fragment& fragment) -> const FlatPart& {
    if (parts[fragment.rank].element.name != element.name)
      fail_two_saves(models[fragment.rank].path, models[0].path, "another type of weights");
    return parts[fragment.rank];
  });
}

}  // namespace

RawLeaf parameter_leaf(const Partitioned& partitioned, const TorchElement& element,
                       const FindPart& find_part) {
  const Shape& shape = partitioned.parameter->shape;
  RawLeaf leaf;
  leaf.info.typestr = "np.ndarray";
  leaf.info.shape = shape;
  leaf.info.dtype = element.dtype;
  leaf.info.dtype_name = element.dtype == DType::kOpaque ? element.name : dtype_name(element.dtype);
  leaf.info.element_size = element.size;
  leaf.info.nbytes = leaf.info.stored_nbytes = elements_in(shape) * element.size;
  if (element.dtype == DType::kOpaque)
    leaf.unreadable =
        fmt::format("its elements are torch.{}, a type that Cairn does not have", element.name);
  if (shape.size() > kMostDimensions)
    leaf.unreadable =
        fmt::format("it has {} dimensions; Cairn reads up to {}", shape.size(), kMostDimensions);
  leaf.slices.emplace();
  for (const Fragment& fragment : partitioned.fragments) {
    const FlatPart& part = find_part(fragment);
    std::uint64_t from = fragment.from;
    for (Box& box : boxes_of_run(shape, static_cast<std::int64_t>(fragment.begin),
                                 static_cast<std::int64_t>(fragment.begin + fragment.count))) {
      const auto count = static_cast<std::uint64_t>(element_count(box.shape));
      leaf.slices->push_back({.array = part.elements(from, count), .box = std::move(box)});
      from += count;
    }
  }
  return leaf;
}

Weights frozen_weights(const std::vector<ModelFile>& models, bool is_divided) {
  Weights weights;
  std::vector<Fragments> fragments;
  fragments.reserve(models.size());
  for (const ModelFile& model : models)
    fragments.push_back(model.members("frozen_param_fragments"));
  for (const Parameter& parameter : models[0].states.frozen) {
    if (is_divided) {
      weights.emplace_back(parameter.name, divided_leaf(models, fragments, parameter));
      continue;
    }
    with_context([&] { return models[0].path + ": " + parameter.name; },
                 [&] {
                   const RawLeaf& leaf = fragment_leaf(models[0], fragments[0], parameter).leaf;
                   if (leaf.info.shape != parameter.shape)
                     data_loss("its frozen values have another shape");
                   weights.emplace_back(parameter.name, leaf);
                 });
  }
  return weights;
}

void fail_two_saves(const std::string& path, const std::string& other, std::string_view what) {
  throw Error(
      Code::kFailedPrecondition,
      fmt::format("{}: {} than in {}; the files are of two saves", path, what, name_of(other)));
}

}  // namespace cairn::inline v0::pytorch::deepspeed
