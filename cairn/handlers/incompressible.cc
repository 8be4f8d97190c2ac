// incompressible.cc -- samples arrays, and combines the samples of several processes.
#include <cairn/handlers/incompressible.h>

#include <cairn/array/byte_count.h>
#include <cairn/zarr/write/encode.h>

#include <algorithm>

namespace cairn::inline v0::handlers {
namespace {

constexpr std::size_t kSampledTogether = 64;  // arrays of one task
// Smaller arrays keep zstd. A sample of each would take longer than their checksums.
constexpr std::uint64_t kSmallestSampled = 16 << 10;  // bytes

Sampled sample(ByteView elements) {
  if (elements.empty()) return Sampled::kNothing;
  return zarr::worth_compressing(elements) ? Sampled::kShrinks : Sampled::kIncompressible;
}

Sampled sample_parts(const StoreArray& array) {
  Sampled all = Sampled::kNothing;
  for (const StorePart& part : *array.parts) {
    if (part.from.data == nullptr || !part.from.contiguous()) continue;
    const auto size = static_cast<std::size_t>(byte_count(part.box.shape, array.dtype));
    all = std::max(all, sample({part.from.data, size}));
  }
  return all;
}

Sampled sample_array(const StoreArray& array) {
  const std::uint64_t size = byte_count(array.shape, array.dtype);
  if (array.source_dtype != array.dtype || size < kSmallestSampled) return Sampled::kNothing;
  if (array.parts) return sample_parts(array);
  if (array.data == nullptr) return Sampled::kNothing;
  return sample({array.data, static_cast<std::size_t>(size)});
}

}  // namespace

bool stores_incompressible_raw(int zarr_format, const Compression& compression) {
  return zarr_format == 3 && (compression.method == Compression::kAuto ||
                              compression.method == Compression::kReproducible);
}

std::vector<Sampled> sample_arrays(std::span<const StoreArray> arrays, Executor& executor) {
  std::vector<Sampled> sampled(arrays.size());
  executor.for_each((arrays.size() + kSampledTogether - 1) / kSampledTogether,
                    [&](std::size_t block) {
                      const std::size_t begin = block * kSampledTogether;
                      const std::size_t end = std::min(arrays.size(), begin + kSampledTogether);
                      for (std::size_t i = begin; i < end; ++i)
                        sampled[i] = sample_array(arrays[i]);
                    });
  return sampled;
}

Bytes sampled_message(std::span<const StoreArray> arrays, std::span<const Sampled> sampled) {
  Bytes message;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (arrays[i].parts) message.push_back(static_cast<std::byte>(sampled[i]));
  return message;
}

void merge_sampled(std::span<const StoreArray> arrays, std::span<const Bytes> messages,
                   std::vector<Sampled>& sampled) {
  const bool equal = std::all_of(messages.begin(), messages.end(), [&](const Bytes& message) {
    return message.size() == messages[0].size();
  });
  std::size_t at = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].parts || arrays[i].device_array) sampled[i] = Sampled::kNothing;
    if (!arrays[i].parts) continue;
    for (std::size_t process = 0; equal && process < messages.size(); ++process)
      sampled[i] = std::max(sampled[i], static_cast<Sampled>(messages[process][at]));
    ++at;
  }
}

}  // namespace cairn::inline v0::handlers
