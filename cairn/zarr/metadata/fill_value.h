// fill_value.h -- parses the fill value: the element that is read where no chunk is stored.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>
#include <cairn/zarr/metadata/element_type.h>

namespace cairn::inline v0::zarr {

// Return one element, little-endian (kOpaque: as stored; empty for elements without a fixed size).
// In v2, JSON null or a null pointer gives zero bytes. Both throw data_loss for a value that the
// type does not have.
Bytes parse_v2_fill(const Json* fill, const ElementType& type);
Bytes parse_v3_fill(const Json& fill, const ElementType& type);

// Returns the bytes of an element without a fixed size: UTF-8 text (vlen-utf8) or any bytes
// (vlen-bytes). Empty for other codecs, whose elements are not read. Throws data_loss for a value
// that the codec does not have.
Bytes parse_object_fill(const Json& fill, ObjectCodec codec);

}  // namespace cairn::inline v0::zarr
