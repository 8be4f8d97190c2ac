// new_array.cc -- makes the metadata of new arrays.
#include <cairn/error.h>
#include <cairn/zarr/metadata/array_metadata.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/metadata/metadata_json.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kMaxNewRank = 32;  // TensorStore's limit

void check_dtype(DType dtype) {
  constexpr DType kRefused[] = {DType::kUint2, DType::kUint4, DType::kFloat8E4m3, DType::kOpaque};
  if (std::find(std::begin(kRefused), std::end(kRefused), dtype) == std::end(kRefused)) return;
  throw Error(Code::kUnimplemented,
              "cannot write arrays of " + std::string(dtype_name(dtype)) +
                  ": TensorStore and Orbax cannot read them; cast them to another type");
}

void check_shapes(const NewArray& array) {
  const Shape& shape = array.shape;
  const Shape& chunks = array.chunk_shape;
  const Shape& inner = array.inner_chunk_shape;
  if (shape.size() > kMaxNewRank)
    throw Error(Code::kInvalidArgument, "an array of rank " + std::to_string(shape.size()) +
                                            ": TensorStore takes up to " +
                                            std::to_string(kMaxNewRank));
  const bool negative =
      std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; });
  const bool empty =
      std::any_of(chunks.begin(), chunks.end(), [](std::int64_t n) { return n < 1; });
  if (negative || empty || chunks.size() != shape.size())
    throw Error(Code::kInvalidArgument, "chunk shape " + shape_text(chunks) +
                                            " does not fit array shape " + shape_text(shape));
  bool divides = inner.empty() || inner.size() == chunks.size();
  for (std::size_t d = 0; divides && d < inner.size(); ++d)
    divides = inner[d] > 0 && chunks[d] % inner[d] == 0;
  if (!divides)
    throw Error(Code::kInvalidArgument, "inner chunk shape " + shape_text(inner) +
                                            " does not divide chunk shape " + shape_text(chunks));
}

std::vector<ByteStep> compression_steps(const NewArray& array, std::size_t element_size) {
  const Compression& compression = array.compression;
  const int zstd_level = array.zarr_format == 3 ? 3 : 1;
  switch (compression.method) {
    case Compression::Method::kNone:
      return {};
    case Compression::Method::kBlosc:
      return {CompressStep{
          .codec = Codec::kBlosc,
          .options = {.level = compression.level.value_or(5),
                      .checksum = false,
                      .blosc = {.inner = BloscInner::kLz4,
                                .shuffle = BloscShuffle::kBits,
                                .type_size = array.zarr_format == 3 ? element_size : 0}}}};
    case Compression::Method::kAuto:
    case Compression::Method::kSmallest:
    case Compression::Method::kReproducible:
    case Compression::Method::kZstd:
      break;
  }
  return {CompressStep{.codec = Codec::kZstd,
                       .options = {.level = compression.level.value_or(zstd_level)}}};
}

CodecChain leaf_chain(const NewArray& array, const Shape& chunk_shape) {
  const std::size_t size = dtype_size(array.dtype);
  CodecChain chain;
  chain.shape = chunk_shape;
  chain.nbytes = chunk_bytes(chunk_shape, size);
  chain.set_order(false, array.dtype);
  chain.steps = compression_steps(array, size);
  return chain;
}

CodecChain sharded_chain(const NewArray& array) {
  auto shard = std::make_shared<ShardCodec>();
  shard->chunk_shape =
      array.inner_chunk_shape.empty() ? array.chunk_shape : array.inner_chunk_shape;
  shard->grid = grid_shape(array.chunk_shape, shard->chunk_shape);
  shard->codecs = leaf_chain(array, shard->chunk_shape);
  if (array.crc32c) shard->codecs.steps.emplace_back(Crc32cStep{});
  CodecChain chain;
  chain.shape = array.chunk_shape;
  chain.nbytes = chunk_bytes(array.chunk_shape, dtype_size(array.dtype));
  chain.shard = std::move(shard);
  return chain;
}

}  // namespace

ArrayMetadata make_metadata(const NewArray& array) {
  check_dtype(array.dtype);
  check_shapes(array);
  const bool v3 = array.zarr_format == 3;
  if (!v3 && (array.crc32c || !array.inner_chunk_shape.empty()))
    throw Error(Code::kInvalidArgument,
                "Zarr v2 does not support inner chunks or the codec crc32c");
  ArrayMetadata metadata;
  metadata.zarr_format = v3 ? 3 : 2;
  metadata.shape = array.shape;
  metadata.chunk_shape = array.chunk_shape;
  metadata.dtype = array.dtype;
  metadata.element_size = dtype_size(array.dtype);
  metadata.dtype_name = dtype_name(array.dtype);
  metadata.fill_is_null = !v3;
  metadata.fill_value = Bytes(metadata.element_size);
  metadata.keys = {.c_prefix = v3, .separator = v3 ? '/' : '.'};
  metadata.codecs = v3 ? sharded_chain(array) : leaf_chain(array, array.chunk_shape);
  if (v3) metadata.inner_chunk_shape = metadata.codecs.shard->chunk_shape;
  check_array_size(metadata.shape, metadata.element_size);
  return metadata;
}

}  // namespace cairn::inline v0::zarr
