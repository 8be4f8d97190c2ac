// fingerprint.cc -- XXH3 from xxHash's header, as inline code, so that the library need not be
// linked.
#define XXH_INLINE_ALL
#include <cairn/base/fingerprint.h>

#include <xxhash.h>

#include <random>

namespace cairn::inline v0 {
namespace {

std::uint64_t random_seed() {
  std::random_device device;
  const std::uint64_t high = device();
  return high << 32U | device();
}

}  // namespace

Fingerprint fingerprint(ByteView bytes) {
  static const std::uint64_t seed = random_seed();
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {.low = hash.low64, .high = hash.high64};
}

std::string fingerprint_library_version() {
  return std::to_string(XXH_VERSION_MAJOR) + "." + std::to_string(XXH_VERSION_MINOR) + "." +
         std::to_string(XXH_VERSION_RELEASE);
}

}  // namespace cairn::inline v0
