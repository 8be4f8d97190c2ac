// decode.h -- decodes one stored value in memory and copies the wanted elements.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/types.h>
#include <cairn/zarr/codec/chain_stream.h>
#include <cairn/zarr/read/array.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cairn::inline v0::zarr {

// The wanted part of a chunk and its destination.
struct Wanted {
  Box part;              // in the chunk's coordinates
  MutableArrayView out;  // has the part's shape
};

// Returns the same request in the order of dimensions after the chain's transpose.
Wanted transposed(const CodecChain& chain, Wanted wanted);
// Returns whether all of the encoded chunk is wanted, in C order and without gaps, so that it can
// be decoded in place.
bool lands_whole(const CodecChain& chain, const Wanted& transposed_wanted);

// Returns the most scratch memory that decode_value takes for one value of this chain.
// `lands_whole` is the result of lands_whole() for the value.
std::uint64_t scratch_bytes(const CodecChain& chain, bool lands_whole);

// The data that decoding needs for every stored value of an array.
struct DecodeContext {
  const ArrayMetadata& metadata;
  MissingChunk missing;  // for inner chunks that a shard does not contain
  // Larger chunks are decoded in parts, or refused. Null: no limit.
  const ByteBudget* budget = nullptr;
};

// Returns whether decoding a chunk whole would take too much of the budget.
bool too_large(const CodecChain& chain, bool lands_whole, const ByteBudget* budget);
// Throws failed_precondition if a chunk of `length` stored bytes, which can only be decoded whole
// because of `why`, does not fit the budget.
void check_whole_fits(const CodecChain& chain, std::uint64_t length, const ByteBudget* budget,
                      const std::string& why);

// Decodes `stored`, the value of a chunk of this chain, which may be a shard. Throws data_loss.
void decode_value(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                  Wanted wanted, Scratch& scratch);
// One of several destinations for the same value.
struct Taker {
  std::byte* direct = nullptr;     // not null: decode all of the value here
  const Wanted* wanted = nullptr;  // not null: copy this part
};
// Decodes a chunk that is not a shard once, for all takers.
void decode_shared(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                   std::span<const Taker> takers, Scratch& scratch);
// Decodes a whole chunk that is not a shard into `out`, in C order and without gaps.
void decode_whole(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                  MutableByteView out);
// Copies raw elements and swaps their bytes if the chain says so. Throws data_loss for bool
// elements other than 0 and 1.
void land_elements(const DecodeContext& context, const CodecChain& chain, const ArrayView& from,
                   const MutableArrayView& to);

// Copies the wanted elements in stored order, one run of rows at a time. `wanted` is transposed.
void land_part(const DecodeContext& context, const CodecChain& chain, const Wanted& wanted,
               ChainStream& stream, Scratch& scratch);
// Returns the most scratch memory that land_part takes.
std::uint64_t part_scratch(const CodecChain& chain, std::size_t element_size, const Box& part);

// Handles elements that were never stored: fills them in, or throws data_loss.
void land_missing(const DecodeContext& context, const MutableArrayView& out);

// Throws data_loss if the elements are bool and one of them is neither 0 nor 1.
void check_bools(DType dtype, ByteView elements);

}  // namespace cairn::inline v0::zarr
