// zarr_fuzz.h -- what the targets for both kinds of metadata do with an input.
#pragma once

#include <cairn/error.h>
#include <cairn/kvstore.h>
#include <cairn/zarr/read/array.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace cairn::zarr {

// Reads a corner of the array, whatever its shape, so that decoding meets every chain of codecs
// that can be spelled.
inline void read_corner(const ZarrArray& array) {
  const ArrayMetadata& metadata = array.metadata();
  if (metadata.element_size > 4096) return;
  Box box = Box::whole(metadata.shape);
  std::int64_t count = 1;
  for (std::int64_t& extent : box.shape) {
    extent = std::min<std::int64_t>(extent, count < 64 ? 4 : 1);
    count *= extent;
  }
  Array out = Array::allocate(metadata.dtype, metadata.element_size, box.shape);
  array.read(box, out.mutable_view(), MissingChunk::kFill);
}

// What can be written is read as the same again.
inline void check_text(const ArrayMetadata& metadata) {
  std::string text;
  try {
    text = metadata_text(metadata);
  } catch (const Error&) {  // readable, but nothing that others would read
    return;
  }
  if (metadata_text(metadata.zarr_format == 3 ? parse_zarr_json(text) : parse_zarray(text)) != text)
    std::abort();
}

// The metadata is the first line of the input; the rest, if there is any, is the value of the first
// chunk.
inline int fuzz_metadata(const char* key, const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), size);
  try {
    const StorePtr store = make_memory_store();
    store->write(key, as_bytes(input.substr(0, line)));
    const ZarrArray array = ZarrArray::open(store, "");
    check_text(array.metadata());
    if (line < size)
      store->write(array.chunk_key(std::vector<std::int64_t>(array.metadata().shape.size(), 0)),
                   as_bytes(input.substr(line + 1)));
    if (element_count(array.metadata().shape) < 10000)
      verify_array(array, "", MissingChunk::kFill, {});
    (void)array.try_view();
    read_corner(array);
  } catch (const Error&) {  // refused, as most inputs must be
  }
  return 0;
}

}  // namespace cairn::zarr
