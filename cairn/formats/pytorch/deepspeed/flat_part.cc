#include <cairn/formats/pytorch/deepspeed/flat_part.h>

#include <cairn/base/errors.h>

namespace cairn::inline v0::pytorch::deepspeed {

RawArray FlatPart::elements(std::uint64_t from, std::uint64_t n) const {
  RawArray part = array;
  RawRun& run = part.runs.front();
  run.offset += from * element.size;
  run.length = n * element.size;
  return part;
}

FlatPart flat_part(const StateLeaf& leaf) {
  const TensorInfo& info = leaf.leaf.info;
  if (!info.error.empty()) throw Error(info.error_code, info.error);
  if (!leaf.leaf.unreadable.empty()) throw Error(Code::kUnimplemented, leaf.leaf.unreadable);
  if (!leaf.tensor || info.shape.size() != 1) data_loss("it is not a tensor of one dimension");
  FlatPart part{.element = leaf.tensor->element,
                .count = static_cast<std::uint64_t>(info.shape[0]),
                .array = leaf.leaf.array};
  const RawArray& array = part.array;
  const bool is_plain = !array.stream && !array.is_packed() && !array.negated &&
                        !array.conjugated && array.axes.empty() &&
                        array.runs.size() == (part.count == 0 ? 0U : 1U);
  if (!is_plain) throw Error(Code::kUnimplemented, "its elements do not lie one behind the other");
  return part;
}

}  // namespace cairn::inline v0::pytorch::deepspeed
