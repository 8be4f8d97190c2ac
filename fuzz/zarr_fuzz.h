// zarr_fuzz.h -- the code that the fuzz targets for both versions of Zarr metadata share.
#pragma once

#include <cairn/error.h>
#include <cairn/storage/kvstore.h>
#include <cairn/zarr/metadata/group_metadata.h>
#include <cairn/zarr/read/array.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace cairn::zarr {

// Reads a corner of the array, whatever its shape, so that every chain of codecs that metadata can
// express is decoded.
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

// Reads an array of strings. The limit keeps hostile shapes small.
inline void read_all_strings(const ZarrArray& array) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 20U;
  const auto strings = read_strings(array, MissingChunk::kFill, kMost);
  if (strings.size() != static_cast<std::size_t>(element_count(array.metadata().shape)))
    std::abort();
}

// Metadata that can be written must read back as the same metadata.
inline void check_text(const ArrayMetadata& metadata) {
  std::string text;
  try {
    text = metadata_text(metadata);
    // the array is readable, but this metadata cannot be written for other readers
  } catch (const Error&) {
    return;
  }
  if (metadata_text(metadata.zarr_format == 3 ? parse_zarr_json(text) : parse_zarray(text)) != text)
    std::abort();
}

// The first line of the input is the metadata. The rest, if any, is the value of the first chunk.
inline int fuzz_metadata(const char* key, const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), size);
  for (const std::string_view name : {".zgroup", ".zattrs", ".zmetadata", "zarr.json"})
    (void)try_call([&] { return find_group_fault(name, input.substr(0, line)); });
  try {
    const StorePtr store = make_memory_store();
    store->write(key, as_bytes(input.substr(0, line)));
    const ZarrArray array = ZarrArray::open(store, "");
    check_text(array.metadata());
    if (line < size)
      store->write(array.chunk_key(std::vector<std::int64_t>(array.metadata().shape.size(), 0)),
                   as_bytes(input.substr(line + 1)));
    if (element_count(array.metadata().shape) < 10000)
      verify_array(array, "", MissingChunk::kFill, {.must_suit_tensorstore = true});
    (void)array.try_view();
    if (has_strings(array.metadata()))
      read_all_strings(array);
    else
      read_corner(array);
  } catch (const Error&) {  // most inputs must be rejected
  }
  return 0;
}

}  // namespace cairn::zarr
