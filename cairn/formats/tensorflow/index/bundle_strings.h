// bundle_strings.h -- a tensor of strings as a TensorFlow checkpoint stores it.
//
//   varint length | ...           one for each string, in C order
//   u32 masked crc32c             of the lengths, not as varints but each as a u32
//                                 (a u64 if it is more than 2^32 - 1)
//   the strings, one after another
//
// The checksum of the entry continues the checksum of the lengths: over its four stored bytes, then
// the strings. In a big-endian checkpoint the integers that are summed and the stored checksum are
// big-endian; varints do not change.
#pragma once

#include <cairn/formats/tensorflow/index/sstable.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// The decoded head of an entry of strings.
struct BundleStrings {
  std::vector<std::uint64_t> lengths;
  std::uint64_t start = 0;  // offset in the entry of the first string
  // running crc32c, not masked, of everything before the strings; extended by the strings and
  // masked it equals the entry's checksum
  std::uint32_t crc = 0;
};

// Reads the lengths of `count` strings from an entry of `size` bytes through `read`. Throws
// data_loss unless they match their checksum and add up to the rest of the entry. Memory: 8 bytes a
// string; there are at most as many strings as bytes.
BundleStrings read_bundle_strings(std::uint64_t count, std::uint64_t size, bool big_endian,
                                  const SstableReadFn& read);

// The encoded head of an entry of strings.
struct BundleStringsHead {
  Bytes bytes;            // everything before the strings
  std::uint32_t crc = 0;  // as BundleStrings::crc
};
// Encodes the head as TensorFlow does, little-endian.
BundleStringsHead encode_bundle_strings(std::span<const std::uint64_t> lengths);

}  // namespace cairn::inline v0
