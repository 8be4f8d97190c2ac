// shard_index_fuzz.cc -- decodes shard indexes and reads shards. The first 5 bytes choose the
// properties of the shard, the rest is its value.
#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/storage/kvstore.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/read/array.h>

#include <cstddef>
#include <cstdint>

namespace {

using namespace cairn;
using namespace cairn::zarr;

void decode_index(const std::uint8_t* options, ByteView value) {
  ShardCodec codec;
  codec.grid = {options[0], options[1]};
  codec.index_at_start = (options[2] & 1U) != 0;
  codec.index_big_endian = (options[2] & 2U) != 0;
  codec.index_crc32c = (options[2] & 4U) != 0;
  const ShardIndexRange range = shard_index_range(codec, value.size());
  decode_shard_index(codec, value.subspan(range.offset, range.length), value.size());
}

void read_shard(const std::uint8_t* options, ByteView value) {
  const StorePtr store = make_memory_store();
  const bool start = (options[2] & 1U) != 0;
  const bool crc = (options[2] & 4U) != 0;
  const std::string bytes = R"({"name":"bytes"})";
  const std::string big = R"({"name":"bytes","configuration":{"endian":"big"}})";
  const std::string little = R"({"name":"bytes","configuration":{"endian":"little"}})";
  const std::string inner =
      bytes + ((options[3] & 1U) != 0 ? R"(,{"name":"zstd","configuration":{"level":1}})" : "") +
      ((options[3] & 2U) != 0 ? R"(,{"name":"crc32c"})" : "");
  store->write(
      "zarr.json",
      as_bytes(
          R"({"zarr_format":3,"node_type":"array","shape":[4,4],"data_type":"uint8","fill_value":0,
    "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4,4]}},"chunk_key_encoding":{"name":"default"},
    "codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2,2],"codecs":[)" +
          inner + R"(],"index_location":")" + (start ? "start" : "end") + R"(","index_codecs":[)" +
          ((options[2] & 2U) != 0 ? big : little) + (crc ? R"(,{"name":"crc32c"})" : "") +
          "]}}]}"));
  store->write("c/0/0", value);
  const ZarrArray array = ZarrArray::open(store, "");
  verify_array(array, "", MissingChunk::kFill, {});
  Array out = Array::allocate(DType::kUint8, {4, 4});
  array.read(Box::whole({4, 4}), out.mutable_view(), MissingChunk::kFill);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  const ByteView value(reinterpret_cast<const std::byte*>(data + 5), size - 5);
  for (const auto decode : {decode_index, read_shard}) {
    try {
      decode(data, value);
    } catch (const Error&) {  // most inputs must be rejected
    }
  }
  return 0;
}
