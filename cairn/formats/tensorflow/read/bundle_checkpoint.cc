// bundle_checkpoint.cc -- reads strings, and describes slices in messages.
#include <cairn/formats/tensorflow/read/bundle_checkpoint.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/formats/raw/spare_bits.h>
#include <cairn/formats/tensorflow/index/bundle_entry_bytes.h>

#include <fmt/format.h>

#include <numeric>

namespace cairn::inline v0 {

void BundleCheckpoint::throw_gap(std::size_t tensor, const Box& box, std::int64_t covered) const {
  if (const auto found = lost_.find(tensor); found != lost_.end())
    for (const BundleLost& lost : found->second)
      if (const auto common = intersect(lost.box, box); common && !common->empty())
        data_loss(fmt::format("{}: {}: {}", tensors()[tensor].name, box_text(lost.box), lost.why));
  RawCheckpoint::throw_gap(tensor, box, covered);
}

std::string BundleCheckpoint::where(const RawSlice& slice) const {
  if (!slice.array.stream) return RawCheckpoint::where(slice);
  const RawRun& run = static_cast<const EntryStream&>(*slice.array.stream).where();
  return fmt::format("{}: {}, byte {}", tensors()[slice.tensor].name, files()[run.file].path(),
                     run.offset);
}

std::string BundleCheckpoint::read_string(std::size_t index) const {
  const TensorInfo& info = string_leaf(index);
  if (!info.shape.empty())
    invalid_argument(fmt::format("{}: it is an array of strings of shape {}", info.name,
                                 shape_text(info.shape)));
  return std::move(read_strings(index).front());
}

std::vector<std::string> BundleCheckpoint::read_strings(std::size_t index) const {
  const TensorInfo& info = string_leaf(index);
  if (!info.error.empty()) data_loss(info.name + ": " + info.error);
  const auto read = [&](const RawSlice& slice) {
    const auto& entry = static_cast<const StringEntry&>(*slice.array.stream);
    return with_context([&] { return where(slice); }, [&] { return entry.strings(files()); });
  };
  if (const RawSlice* whole = whole_slice(index)) return read(*whole);
  std::int64_t covered = 0;
  for (const RawSlice& slice : slices_of(index)) covered += element_count(slice.box->shape);
  const std::int64_t all = element_count(info.shape);
  if (covered != all) throw_gap(index, Box::whole(info.shape), covered);
  std::vector<std::string> strings(static_cast<std::size_t>(all));
  const auto strides = c_strides(info.shape, 1);
  for (const RawSlice& slice : slices_of(index)) {
    std::vector<std::string> part = read(slice);
    auto next = part.begin();
    const auto& origin = slice.box->origin;
    const std::int64_t first =
        std::inner_product(strides.begin(), strides.end(), origin.begin(), std::int64_t{0});
    for_each_element(slice.box->shape, strides, [&](std::int64_t offset) {
      strings[static_cast<std::size_t>(first + offset)] = std::move(*next++);
    });
  }
  return strings;
}

}  // namespace cairn::inline v0
