// chain_stream_fuzz.cc -- decodes any bytes in parts, through chains of up to three steps. Where a
// single compressor decodes the bytes as a whole, the parts must be the same value. A single CRC-32C
// must be accepted in parts where it is accepted as a whole, and only there. Input: the number of
// steps, one byte for each, two bytes of the decoded size, then the stored bytes.
#include <cairn/codec/decompress.h>
#include <cairn/error.h>
#include <cairn/zarr/codec/chain_stream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace {

using cairn::zarr::ByteStep;

constexpr std::uint64_t kMaxMemory = std::uint64_t{1} << 26U;

ByteStep step_of(std::uint8_t choice) {
  constexpr std::uint8_t kCodecs = 6;
  const bool odd = choice / 16 % 2 == 1;
  switch (choice % 10) {
    case 6:
      return cairn::zarr::Crc32cStep{odd};
    case 7:
      return cairn::zarr::ChecksumStep{static_cast<cairn::zarr::Checksum>(choice / 32 % 4), odd, 0};
    case 8:
      return cairn::zarr::ShuffleStep{odd ? 4U : 2U};
    case 9:
      return cairn::zarr::DeltaStep{{cairn::DType::kInt16, odd}, {cairn::DType::kInt16, odd}};
    default:
      return cairn::zarr::CompressStep{static_cast<cairn::Codec>(choice % kCodecs)};
  }
}

// The value decoded in parts of different sizes; nullopt if it is refused.
std::optional<cairn::Bytes> in_parts(const std::vector<ByteStep>& steps, cairn::ByteView stored,
                                     std::size_t size) {
  try {
    std::string why;
    const auto stream = cairn::zarr::ChainStream::open(steps, cairn::zarr::value_in_memory(stored),
                                                       size, kMaxMemory, why);
    if (!stream) return std::nullopt;
    cairn::Bytes out(size);
    for (std::size_t at = 0, n = 1; at < size; at += n, n = std::min(n * 3, size - at))
      stream->read(cairn::MutableByteView(out).subspan(at, n = std::min(n, size - at)));
    return out;
  } catch (const cairn::Error&) {
    return std::nullopt;
  }
}

// The value decoded as a whole; nullopt if it is refused.
std::optional<cairn::Bytes> as_a_whole(const std::vector<ByteStep>& steps, cairn::ByteView stored,
                                       std::size_t size) {
  try {
    cairn::Bytes out(size);
    (void)cairn::zarr::decode_steps(steps, stored, out);
    return out;
  } catch (const cairn::Error&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const std::size_t count = data[0] % 3 + 1;
  if (size < 3 + count) return 0;
  std::vector<ByteStep> steps;
  for (std::size_t i = 0; i < count; ++i) steps.push_back(step_of(data[1 + i]));
  const std::size_t decoded = data[1 + count] + (std::size_t{data[2 + count]} << 8U);
  const auto stored =
      cairn::ByteView(reinterpret_cast<const std::byte*>(data), size).subspan(3 + count);
  const auto* single = std::get_if<cairn::zarr::CompressStep>(&steps.front());
  if (count > 1 || single == nullptr) {
    const auto parts = in_parts(steps, stored, decoded);
    // Of no bytes, the stream reads none.
    const bool is_crc = count == 1 && std::get_if<cairn::zarr::Crc32cStep>(&steps.front());
    if (is_crc && decoded > 0 && parts != as_a_whole(steps, stored, decoded)) std::abort();
    return 0;
  }
  std::optional<cairn::Bytes> whole;
  try {
    whole = cairn::decompress(single->codec, stored, std::uint64_t{1} << 20U);
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  const auto parts = in_parts(steps, stored, whole ? whole->size() : decoded);
  if (whole && parts && *parts != *whole) std::abort();
  return 0;
}
