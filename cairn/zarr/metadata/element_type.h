// element_type.h -- what the `dtype` of `.zarray` and the `data_type` of `zarr.json` say about one
// element.
#pragma once

#include <cairn/base/json.h>
#include <cairn/types.h>

#include <cstddef>
#include <string>

namespace cairn::zarr {

struct ElementType {
  DType dtype = DType::kUint8;
  // bytes of one element, in memory and stored; 0: they differ (strings, objects)
  std::size_t size = 1;
  // Cairn's name. For kOpaque NumPy's ("|S8", "<U4", ">M8[ns]", "|V3", "|O"), the JSON of the
  // fields of a structure, or what v3 calls elements of no fixed size ("string").
  std::string name;
  bool big_endian = false;    // v2 only; kOpaque elements are kept as stored, so never for them
  bool needs_endian = false;  // v3: elements whose `bytes` codec must name a byte order
};

// Both throw data_loss for what is no such type, and unimplemented, naming it, for one Cairn does
// not know.
ElementType parse_v2_dtype(const Json& dtype);
ElementType parse_v3_data_type(const Json& data_type);

}  // namespace cairn::zarr
