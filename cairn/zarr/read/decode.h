// decode.h -- from one stored value in memory to the elements wanted of it.
#pragma once

#include <cairn/types.h>
#include <cairn/zarr/read/array.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::zarr {

// What is wanted of a chunk and where it goes.
struct Wanted {
  Box part;              // in the chunk's coordinates
  MutableArrayView out;  // of the part's shape
};

// The same in the order of dimensions in which `chain` encodes: after its transpose.
Wanted transposed(const CodecChain& chain, Wanted wanted);
// Whether all of the encoded chunk is wanted, in C order and without gaps: so that it can be
// decoded in place.
bool lands_whole(const CodecChain& chain, const Wanted& transposed_wanted);

// Scratch memory that decode_value takes at most for one value of this chain, which lands whole or
// does not.
std::uint64_t scratch_bytes(const CodecChain& chain, bool lands_whole);

// What every stored value of an array needs for decoding.
struct DecodeContext {
  const ArrayMetadata& metadata;
  MissingChunk missing;  // what to do with inner chunks that a shard does not hold
};

// Decodes `stored`, the value of a chunk of this chain, whole shards included. Throws data_loss.
void decode_value(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                  Wanted wanted, Scratch& scratch);
// What one of several wants of the same value.
struct Taker {
  std::byte* direct = nullptr;     // set: all of it, in place
  const Wanted* wanted = nullptr;  // set: this part
};
// Decodes a chunk without an inner grid once, for all takers.
void decode_shared(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                   std::span<const Taker> takers, Scratch& scratch);
// Decodes a chunk without an inner grid, all of it, in C order and without gaps, into `out`.
void decode_whole(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                  MutableByteView out);
// Copies raw elements; swaps their bytes if the chain says so; refuses bool values that are none.
void land_elements(const DecodeContext& context, const CodecChain& chain, const ArrayView& from,
                   const MutableArrayView& to);

// Elements that were never stored: fills them in, or throws data_loss.
void land_missing(const DecodeContext& context, const MutableArrayView& out);

// Throws data_loss if elements are bool and one of them is neither 0 nor 1.
void check_bools(DType dtype, ByteView elements);

}  // namespace cairn::zarr
