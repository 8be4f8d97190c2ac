// fingerprint.h -- 128-bit hashes that tell whether bytes are still those that were there before.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <string>

namespace cairn::inline v0 {

// A hash of some bytes.
struct Fingerprint {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Fingerprint&) const = default;
};
// Returns the XXH3 hash of the bytes, with a seed that each process draws at random. Fingerprints
// are therefore comparable within one process only, and no two contents are mistaken for each other
// in every run. Not for bytes that somebody chooses in order to deceive.
Fingerprint fingerprint(ByteView bytes);

// The version of xxHash, which computes them.
std::string fingerprint_library_version();

}  // namespace cairn::inline v0
