#include <cairn/tools/dequantize/block_extents.h>

#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cairn::inline v0 {
namespace {

std::int64_t blocks_over(std::int64_t extent, std::int64_t block) {
  return extent / block + (extent % block != 0 ? 1 : 0);
}

[[noreturn]] void wrong_shape(const Shape& weight, const Shape& scale, const Shape& configured) {
  std::string blocks;
  if (!configured.empty())
    blocks = fmt::format(" in blocks of {} (config.json)", shape_text(configured));
  data_loss(fmt::format("its scale has the shape {}, which does not fit a weight of shape {}{}",
                        shape_text(scale), shape_text(weight), blocks));
}

// The extent of `count` blocks over an axis. 0: no extent gives as many.
std::int64_t deduced(std::int64_t extent, std::int64_t count, std::size_t axis) {
  if (count == extent) return 1;
  if (count == 1) return extent;
  if (count < 1 || count > extent) return 0;
  const std::int64_t exact = extent % count == 0 ? extent / count : 0;
  const auto power = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(blocks_over(extent, count))));
  const bool power_fits = blocks_over(extent, power) == count;
  if (exact != 0 && power_fits && exact != power)
    invalid_argument(fmt::format(
        "the size of its blocks along axis {} is ambiguous: {} scales for {} elements may be for "
        "blocks of {} or of {}; put the model's config.json beside its files",
        axis, count, extent, exact, power));
  return exact != 0 ? exact : power_fits ? power : 0;
}

}  // namespace

Shape block_extents(const Shape& weight, const Shape& scale, const Shape& configured) {
  if (element_count(scale) == 1) return {};
  if (weight.size() != scale.size() || configured.size() > weight.size())
    wrong_shape(weight, scale, configured);
  Shape blocks;
  const std::size_t free_axes = weight.size() - configured.size();
  for (std::size_t d = 0; d < weight.size(); ++d) {
    std::int64_t block = 0;
    if (d < free_axes)
      block = deduced(weight[d], scale[d], d);
    else if (blocks_over(weight[d], configured[d - free_axes]) == scale[d])
      block = configured[d - free_axes];
    if (block == 0 && weight[d] == 0 && scale[d] == 0) block = 1;
    if (block == 0) wrong_shape(weight, scale, configured);
    blocks.push_back(block);
  }
  return blocks;
}

std::string blocks_text(const Shape& blocks, const Shape& weight) {
  if (blocks.empty()) return "per tensor";
  const std::size_t last = blocks.size() - 1;
  const bool by_rows =
      std::all_of(blocks.begin(), blocks.end() - 1, [](std::int64_t n) { return n == 1; });
  if (by_rows && blocks[last] >= weight[last]) return "per channel";
  if (by_rows) return fmt::format("groups of {}", blocks[last]);
  std::string text;
  for (const std::int64_t extent : blocks)
    text += fmt::format("{}{}", text.empty() ? "" : " x ", extent);
  return "blocks of " + text;
}

}  // namespace cairn::inline v0
