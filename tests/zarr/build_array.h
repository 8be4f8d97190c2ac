// build_array.h -- makes arrays of any size in a folder: only as much of a writer as tests of
// reading need.
#pragma once

#include <cairn/array/box.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/codec/decompress.h>
#include <cairn/storage/kvstore.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/read/array.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tests/support/temp_dir.h>

#include <random>
#include <string>

namespace cairn::zarr::testing {

enum class Packing { kRaw, kZstd, kZstdChecksum, kCrc32c /* v3 */ };

struct ArrayRecipe {
  int zarr_format = 2;
  Shape shape;
  Shape chunks;
  Shape inner;  // not empty: shards of such chunks (v3)
  Packing packing = Packing::kRaw;
  std::string missing;  // the chunk key that is left out
};

// Elements are uint32; every one differs from its neighbours.
inline Bytes test_elements(const Shape& shape) {
  Bytes bytes(static_cast<std::size_t>(element_count(shape)) * 4);
  std::mt19937 random(static_cast<unsigned>(bytes.size()));
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    // so that zstd has something to do
    const auto value = static_cast<std::uint32_t>(random()) & 0x00ffffffU;
    std::memcpy(bytes.data() + i, &value, 4);
  }
  return bytes;
}

inline Bytes pack(const Bytes& chunk, Packing packing) {
  if (packing == Packing::kCrc32c) {
    ByteWriter value;
    value.bytes(chunk).u32(crc32c(chunk));
    return std::move(value).take();
  }
  return packing == Packing::kRaw ? chunk
                                  : compress_zstd(chunk, 1, packing == Packing::kZstdChecksum);
}

// The chunk at `position` of a grid of `chunk_shape`, padded with 0xee where it reaches beyond
// `from`.
inline Bytes cut_chunk(const ArrayView& from, const std::vector<std::int64_t>& position,
                       const Shape& chunk_shape) {
  Bytes chunk(static_cast<std::size_t>(element_count(chunk_shape)) * 4, std::byte{0xee});
  Box inside{.origin = {}, .shape = chunk_shape};
  for (std::size_t d = 0; d < position.size(); ++d) {
    inside.origin.push_back(position[d] * chunk_shape[d]);
    inside.shape[d] = std::min(chunk_shape[d], from.shape[d] - inside.origin[d]);
  }
  const MutableArrayView whole = make_view(MutableByteView(chunk), DType::kUint32, chunk_shape);
  copy_elements(subview(from, inside), subview(whole, Box::whole(inside.shape)));
  return chunk;
}

inline Bytes make_shard(const Bytes& elements, const ArrayRecipe& recipe) {
  const ArrayView shard = make_view(ByteView(elements), DType::kUint32, recipe.chunks);
  const Shape grid = grid_shape(recipe.chunks, recipe.inner);
  ByteWriter value;
  ByteWriter index;
  for (std::int64_t i = 0; i < element_count(grid); ++i) {
    const Bytes chunk =
        pack(cut_chunk(shard, grid_position(grid, i), recipe.inner), recipe.packing);
    index.u64(value.size()).u64(chunk.size());
    value.bytes(chunk);
  }
  index.u32(crc32c(index.view()));
  value.bytes(index.view());
  return std::move(value).take();
}

inline std::string metadata_text(const ArrayRecipe& recipe) {
  const auto list = [](const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); };
  if (recipe.zarr_format == 2)
    return fmt::format(
        R"({{"zarr_format":2,"shape":{},"chunks":{},"dtype":"<u4","fill_value":7,"order":"C","filters":null,"compressor":{}}})",
        list(recipe.shape), list(recipe.chunks),
        recipe.packing == Packing::kRaw ? "null" : R"({"id":"zstd","level":1})");
  std::string codecs = R"({"name":"bytes","configuration":{"endian":"little"}})";
  if (recipe.packing == Packing::kCrc32c)
    codecs += R"(,{"name":"crc32c"})";
  else if (recipe.packing != Packing::kRaw)
    codecs += R"(,{"name":"zstd","configuration":{"level":1}})";
  if (!recipe.inner.empty())
    codecs = fmt::format(
        R"({{"name":"sharding_indexed","configuration":{{"chunk_shape":{},"codecs":[{}]}}}})",
        list(recipe.inner), codecs);
  return fmt::format(
      R"({{"zarr_format":3,"node_type":"array","shape":{},"data_type":"uint32","fill_value":7,"codecs":[{}],)"
      R"("chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{}}}}},"chunk_key_encoding":{{"name":"default"}}}})",
      list(recipe.shape), codecs, list(recipe.chunks));
}

// An array in a folder of its own, and the elements it has.
class BuiltArray {
 public:
  explicit BuiltArray(const ArrayRecipe& recipe)
      : recipe_(recipe), elements_(test_elements(recipe.shape)) {
    cairn::testing::put_file(path(recipe.zarr_format == 2 ? ".zarray" : "zarr.json"),
                             metadata_text(recipe));
    const ZarrArray array = open();
    const ArrayView all = make_view(ByteView(elements_), DType::kUint32, recipe.shape);
    const Shape grid = grid_shape(recipe.shape, recipe.chunks);
    for (std::int64_t i = 0; i < element_count(grid); ++i) {
      const auto position = grid_position(grid, i);
      const std::string key = array.metadata().keys.key(position);
      if (key == recipe.missing) continue;
      const Bytes chunk = cut_chunk(all, position, recipe.chunks);
      cairn::testing::put_file(path(key), recipe.inner.empty() ? pack(chunk, recipe.packing)
                                                               : make_shard(chunk, recipe));
    }
  }

  [[nodiscard]] ZarrArray open() const {
    return ZarrArray::open(open_file_store(folder_.path()), "a");
  }
  [[nodiscard]] std::string path(const std::string& key) const { return folder_ / ("a/" + key); }
  [[nodiscard]] const Bytes& elements() const { return elements_; }

  // The elements of a box, from what was stored.
  [[nodiscard]] Bytes expected(const Box& box) const {
    Bytes out(static_cast<std::size_t>(element_count(box.shape)) * 4);
    copy_elements(subview(make_view(ByteView(elements_), DType::kUint32, recipe_.shape), box),
                  make_view(MutableByteView(out), DType::kUint32, box.shape));
    return out;
  }
  // And from reading them.
  Bytes read(const Box& box, const ReadContext& context = {},
             MissingChunk missing = MissingChunk::kError) const {
    Bytes out(static_cast<std::size_t>(element_count(box.shape)) * 4);
    open().read(box, make_view(MutableByteView(out), DType::kUint32, box.shape), missing, context);
    return out;
  }

 private:
  ArrayRecipe recipe_;
  cairn::testing::TempDir folder_;
  Bytes elements_;
};

}  // namespace cairn::zarr::testing
