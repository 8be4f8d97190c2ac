// safetensors_fuzz.cc -- decodes any bytes as a safetensors file. A header that decodes must cover
// the data exactly and round-trip.
#include <cairn/error.h>
#include <cairn/formats/safetensors/header.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const std::uint64_t length =
        cairn::decode_safetensors_prefix(file.first(std::min<std::size_t>(size, 8)), size);
    const std::uint64_t data_size = size - 8 - length;
    const cairn::SafetensorsHeader header =
        cairn::decode_safetensors_header(file.subspan(8, length), data_size);
    std::uint64_t covered = 0;
    for (const auto& entry : header.tensors) covered += entry.end - entry.begin;
    if (covered != data_size) std::abort();
    const cairn::Bytes written = cairn::encode_safetensors_header(header);
    if (cairn::decode_safetensors_header(cairn::ByteView(written).subspan(8), data_size) != header)
      std::abort();
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
