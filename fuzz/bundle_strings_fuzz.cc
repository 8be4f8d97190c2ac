// bundle_strings_fuzz.cc -- reads any bytes as the strings of a TensorFlow checkpoint. The lengths
// of accepted strings must add up to the size. The first byte gives the count and the byte order.
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
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
