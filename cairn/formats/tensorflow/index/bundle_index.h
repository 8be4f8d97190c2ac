// bundle_index.h -- the index of a TensorFlow checkpoint (TensorBundle): what it says of all
// tensors, checked before it is believed.
//
// `<prefix>.index` is a sorted table (sstable.h). The entry of key "" is the header, every other
// one a tensor, or a slice of one under a key of its own (slice_key). The bytes are in
// `<prefix>.data-00000-of-00001` and so on.
#pragma once

#include <cairn/formats/tensorflow/index/sstable.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// BundleHeaderProto.
struct BundleHeader {
  std::int32_t shards = 1;  // data files
  bool big_endian = false;  // what tensors are stored as; the index is little-endian always
  // VersionDef. A reader of version 1 reads it if min_consumer is at most 1 and bad_consumers has
  // no 1.
  std::int32_t producer = 0;
  std::int32_t min_consumer = 0;
  std::vector<std::int32_t> bad_consumers = {};
  bool operator==(const BundleHeader&) const = default;
};

// TensorSliceProto: for each dimension where it begins and how many, or nullopt for all of it.
struct SliceExtent {
  std::int64_t start = 0;
  std::optional<std::int64_t> length = {};
  bool operator==(const SliceExtent&) const = default;
};
using TensorSlice = std::vector<SliceExtent>;
// "0,2:-", as TensorFlow writes it.
std::string slice_text(const TensorSlice& slice);

// BundleEntryProto.
struct BundleEntry {
  std::int32_t dtype = 0;  // TensorFlow's number of it
  Shape shape;
  std::int32_t shard = 0;  // the data file
  std::int64_t offset = 0;
  std::int64_t size = 0;     // bytes stored
  std::uint32_t crc32c = 0;  // masked
  // not empty: the tensor is in parts, and where it lies is said of each under its slice_key
  std::vector<TensorSlice> slices = {};
  bool operator==(const BundleEntry&) const = default;
};

// Throw data_loss for what is no such message; unimplemented for tensors of unknown rank. Fields
// that are not known are passed over.
BundleHeader parse_bundle_header(ByteView bytes);
BundleEntry parse_bundle_entry(ByteView bytes);
// Byte for byte what TensorFlow writes.
Bytes encode_bundle_header(const BundleHeader& header);
Bytes encode_bundle_entry(const BundleEntry& entry);

// The key under which the bytes of a slice are: TensorFlow's ordered code of 0, the name, the rank,
// and each start and length (-1 for all).
std::string slice_key(std::string_view name, const TensorSlice& slice);

// What TensorFlow knows of a type by its number.
struct BundleType {
  std::string_view name;       // "float", "resource"
  std::optional<DType> dtype;  // nullopt: Cairn has no such type
  std::size_t size = 0;        // bytes of an element as stored; 0 if it has no fixed size
  // bytes that a foreign byte order swaps at a time; 0: TensorFlow refuses it then
  std::size_t component = 0;
};
// nullptr for a number that is not known.
const BundleType* bundle_type(std::int32_t number);
inline constexpr std::int32_t kBundleString = 7;
inline constexpr std::int32_t kBundleVariant = 21;
// The most dimensions that a tensor of TensorFlow's has.
inline constexpr std::size_t kMaxBundleRank = 254;

// A part of a partitioned tensor.
struct BundlePart {
  Box box;
  BundleEntry entry;
};
struct BundleTensor {
  std::string name;  // the key: any bytes
  BundleEntry entry;
  // of its slices, in their order; they do not overlap, but need not cover it
  std::vector<BundlePart> parts;
};
struct BundleIndex {
  BundleHeader header;
  std::vector<BundleTensor> tensors;  // by key
};

// Reads and checks all of it: versions, types, shapes, sizes that fit types and shapes, shards,
// slices that lie in their tensor, have an entry each and do not overlap. Whether the data files
// are long enough is for who opens them. Throws data_loss, naming the key; unimplemented for
// versions of TensorFlow that this reader is too old for.
BundleIndex read_bundle_index(std::uint64_t size, const SstableReadFn& read);

}  // namespace cairn
