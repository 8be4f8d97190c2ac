// hdf5_checksum.h -- the two checksums that HDF5 puts behind its chunks; netCDF data in Zarr arrays
// has them, too.
#pragma once

#include <cairn/types.h>

#include <cstdint>

namespace cairn::zarr {

// Fletcher's checksum over big-endian 16-bit words (a last single byte is the high one of its
// word): the sum of the words in the low half, the sum of those sums in the high half, both modulo
// 65535, where 65535 stands for 0 unless all words are 0.
std::uint32_t fletcher32(ByteView bytes);

// Bob Jenkins' lookup3 ("hashlittle"), which is in the public domain.
std::uint32_t lookup3(ByteView bytes, std::uint32_t seed);

}  // namespace cairn::zarr
