// bundle_index.h -- the index of a TensorFlow checkpoint (TensorBundle). It describes all tensors;
// the reader checks it before use.
//
// `<prefix>.index` is a sorted table (sstable.h). The entry with key "" is the header. Every other
// entry is a tensor, or a slice of one under its own key (slice_key). The bytes are in
// `<prefix>.data-00000-of-00001` and so on.
#pragma once

#include <cairn/formats/tensorflow/index/sstable.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// TensorFlow's message BundleHeaderProto.
struct BundleHeader {
  std::int32_t shards = 1;  // number of data files
  bool big_endian = false;  // byte order of the tensors; the index is always little-endian
  // VersionDef. A reader of version 1 accepts the file if min_consumer is at most 1 and
  // bad_consumers does not contain 1.
  std::int32_t producer = 0;
  std::int32_t min_consumer = 0;
  std::vector<std::int32_t> bad_consumers = {};
  bool operator==(const BundleHeader&) const = default;
};

// TensorSliceProto: for each dimension the start and the length, or nullopt for the whole
// dimension.
struct SliceExtent {
  std::int64_t start = 0;
  std::optional<std::int64_t> length = {};
  bool operator==(const SliceExtent&) const = default;
};
using TensorSlice = std::vector<SliceExtent>;
// "0,2:-", as TensorFlow writes it.
std::string slice_text(const TensorSlice& slice);

// TensorFlow's message BundleEntryProto.
struct BundleEntry {
  std::int32_t dtype = 0;  // TensorFlow's number of the type
  Shape shape;
  std::int32_t shard = 0;  // number of the data file
  std::int64_t offset = 0;
  std::int64_t size = 0;     // stored bytes
  std::uint32_t crc32c = 0;  // masked
  // If not empty, the tensor is stored in parts, and each part has its own entry under its
  // slice_key.
  std::vector<TensorSlice> slices = {};
  bool operator==(const BundleEntry&) const = default;
};

// Decode a message. They throw data_loss if the bytes are not such a message, and unimplemented for
// tensors of unknown rank. They skip unknown fields.
BundleHeader parse_bundle_header(ByteView bytes);
BundleEntry parse_bundle_entry(ByteView bytes);
// Encode a message, byte for byte as TensorFlow does.
Bytes encode_bundle_header(const BundleHeader& header);
Bytes encode_bundle_entry(const BundleEntry& entry);

// The key of a slice's entry: TensorFlow's ordered code of 0, the name, the rank, and each start
// and length (-1 for all).
std::string slice_key(std::string_view name, const TensorSlice& slice);

// Properties of one of TensorFlow's element types.
struct BundleType {
  std::string_view name;       // "float", "resource"
  std::optional<DType> dtype;  // nullopt: Cairn lacks this type
  std::size_t size = 0;        // stored bytes of an element; 0 if it has no fixed size
  // bytes that are swapped together for the other byte order; 0: TensorFlow refuses the type then
  std::size_t component = 0;
};
// Looks up a type by its number. Returns nullptr for an unknown number.
const BundleType* bundle_type(std::int32_t number);
inline constexpr std::int32_t kBundleString = 7;
inline constexpr std::int32_t kBundleVariant = 21;
// The largest rank of a TensorFlow tensor.
inline constexpr std::size_t kMaxBundleRank = 254;

// One stored part of a partitioned tensor.
struct BundlePart {
  Box box;
  BundleEntry entry;
};
// One tensor of the checkpoint.
struct BundleTensor {
  std::string name;  // the key: any bytes
  BundleEntry entry;
  // its slices, in order; they do not overlap, but need not cover the tensor
  std::vector<BundlePart> parts;
  // Of a damaged index (bundle_remains.h): slices whose entries are lost, and why nothing but the
  // name of the tensor is known.
  std::vector<Box> lost_slices = {};
  std::string why_lost = {};
};
// A whole decoded index.
struct BundleIndex {
  BundleHeader header;
  std::vector<BundleTensor> tensors;  // sorted by key
};

// The messages of an index, as stored.
struct BundleTable {
  BundleHeader header;
  std::vector<std::pair<std::string, BundleEntry>> entries;  // sorted by key
};

// Reads an index and decodes its messages. Throws data_loss, naming the key.
BundleTable read_bundle_table(std::uint64_t size, const SstableReadFn& read);
// Checks the whole index: versions, types, shapes, sizes against types and shapes, and shards. Each
// slice must lie in its tensor, have one entry and not overlap others. The caller checks that the
// data files are long enough. Throws data_loss, naming the key, and unimplemented if the file's
// version of TensorFlow is too new for this reader.
BundleIndex check_bundle_table(BundleTable table);
// Reads and checks the whole index.
inline BundleIndex read_bundle_index(std::uint64_t size, const SstableReadFn& read) {
  return check_bundle_table(read_bundle_table(size, read));
}

}  // namespace cairn::inline v0
