// hdf5_checksum.h -- the two checksums that HDF5 appends to its chunks. netCDF data in Zarr arrays
// has them, too.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>

namespace cairn::inline v0::zarr {

// Returns Fletcher's checksum over big-endian 16-bit words; a last single byte is the high byte of
// its word. The low half is the sum of the words, the high half the sum of those sums, both modulo
// 65535. A half is 65535 instead of 0 unless all words are 0.
std::uint32_t fletcher32(ByteView bytes);

// The same, over bytes that arrive in parts.
class Fletcher32 {
 public:
  void add(ByteView bytes);
  [[nodiscard]] std::uint32_t value() const;

 private:
  void add_words(ByteView words);

  std::uint64_t sum_ = 0;
  std::uint64_t sum_of_sums_ = 0;
  std::byte odd_{};  // the first byte of a word whose second byte has not arrived
  bool has_odd_ = false;
};

// Returns Bob Jenkins' lookup3 hash ("hashlittle"), which is in the public domain.
std::uint32_t lookup3(ByteView bytes, std::uint32_t seed);

}  // namespace cairn::inline v0::zarr
