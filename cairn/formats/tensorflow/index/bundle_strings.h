// bundle_strings.h -- a tensor of strings as a TensorFlow checkpoint stores it.
//
//   varint length | ... one for each string, in C order
//   u32 masked crc32c of the lengths, each as a u32 (a u64 if it is more than 2^32 - 1), not as the
//   varints the strings, one behind the other
//
// The checksum of the entry goes on where that of the lengths ends: over its four bytes as stored,
// and the strings. In a big-endian checkpoint the integers that are summed and the stored checksum
// are big-endian; varints are as ever.
#pragma once

#include <cairn/formats/tensorflow/index/sstable.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn {

struct BundleStrings {
  std::vector<std::uint64_t> lengths;
  std::uint64_t start = 0;  // byte of the entry at which the first string begins
  // running crc32c, not masked, of what is before the strings; extended by them and masked it is
  // the entry's
  std::uint32_t crc = 0;
};

// The lengths of `count` strings in an entry of `size` bytes, which `read` reads from. Throws
// data_loss unless they are sound: they fit their checksum and add up to the rest of the entry.
// Memory: 8 bytes a string, of which there are at most as many as bytes.
BundleStrings read_bundle_strings(std::uint64_t count, std::uint64_t size, bool big_endian,
                                  const SstableReadFn& read);

struct BundleStringsHead {
  Bytes bytes;            // that stand before the strings
  std::uint32_t crc = 0;  // as BundleStrings::crc
};
// As TensorFlow writes it, little-endian.
BundleStringsHead encode_bundle_strings(std::span<const std::uint64_t> lengths);

}  // namespace cairn
