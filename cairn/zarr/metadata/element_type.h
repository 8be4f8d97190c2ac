// element_type.h -- parses the element types in the `dtype` of `.zarray` and the `data_type` of
// `zarr.json`.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/types.h>

#include <cstddef>
#include <string>

namespace cairn::inline v0::zarr {

// The type of one element.
struct ElementType {
  DType dtype = DType::kUint8;
  // bytes of one element, in memory and stored; 0: elements differ in size (strings, objects)
  std::size_t size = 1;
  // Cairn's name. For kOpaque: NumPy's name ("|S8", "<U4", ">M8[ns]", "|V3", "|O"), the JSON of a
  // structure's fields, or v3's name for elements without a fixed size ("string").
  std::string name;
  bool big_endian = false;    // v2 only; never for kOpaque, whose elements are kept as stored
  bool needs_endian = false;  // v3: the `bytes` codec of these elements must name a byte order
};

// Parse an element type. Both throw data_loss for JSON that is not an element type, and
// unimplemented, naming the type, for one that Cairn does not know.
ElementType parse_v2_dtype(const Json& dtype);
ElementType parse_v3_data_type(const Json& data_type);

}  // namespace cairn::inline v0::zarr
