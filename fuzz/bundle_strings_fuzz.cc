// bundle_strings_fuzz.cc -- any bytes are refused as strings of a TensorFlow checkpoint, or add up.
// The first byte says how many they are meant to be and in which byte order.
#include <cairn/error.h>
#include <cairn/formats/tensorflow/index/bundle_strings.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint64_t count = data[0] >> 1U;
  const cairn::ByteView entry(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  try {
    const auto read = [&](std::uint64_t offset, cairn::MutableByteView out) {
      if (offset + out.size() > entry.size()) std::abort();
      std::memcpy(out.data(), entry.data() + offset, out.size());
    };
    const cairn::BundleStrings strings =
        cairn::read_bundle_strings(count, entry.size(), (data[0] & 1U) != 0, read);
    if (std::accumulate(strings.lengths.begin(), strings.lengths.end(), strings.start) !=
        entry.size())
      std::abort();
  } catch (const cairn::Error&) {  // refused: fine
  }
  return 0;
}
