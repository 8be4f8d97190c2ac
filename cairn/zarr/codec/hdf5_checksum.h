// hdf5_checksum.h -- the two checksums that HDF5 appends to its chunks. netCDF data in Zarr arrays
// has them, too.
#pragma once

#include <cairn/types.h>

#include <cstdint>

namespace cairn::inline v0::zarr {

// Returns Fletcher's checksum over big-endian 16-bit words; a last single byte is the high byte of
// its word. The low half is the sum of the words, the high half the sum of those sums, both modulo
// 65535. A half is 65535 instead of 0 unless all words are 0.
std::uint32_t fletcher32(ByteView bytes);

// Returns Bob Jenkins' lookup3 hash ("hashlittle"), which is in the public domain.
std::uint32_t lookup3(ByteView bytes, std::uint32_t seed);

}  // namespace cairn::inline v0::zarr
