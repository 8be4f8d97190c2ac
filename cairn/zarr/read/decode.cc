// decode.cc -- undoes a chain, starting from the stored bytes: steps, shard, byte order, transpose.
#include <cairn/zarr/read/decode.h>

#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/read/shard_walk.h>

#include <algorithm>
#include <string>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

void check_bool_view(const ArrayView& view) {
  if (view.dtype != DType::kBool) return;
  if (view.contiguous())
    return check_bools(view.dtype,
                       {view.data, static_cast<std::size_t>(element_count(view.shape))});
  for (std::int64_t i = 0; i < view.shape[0]; ++i) {
    ArrayView row = view;
    row.data += i * view.strides[0];
    row.shape.erase(row.shape.begin());
    row.strides.erase(row.strides.begin());
    check_bool_view(row);
  }
}

void decode_shard(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                  const Wanted& wanted, Scratch& scratch) {
  const ShardCodec& shard = *chain.shard;
  const ShardIndexRange range = shard_index_range(shard, stored.size());
  const auto index =
      decode_shard_index(shard, stored.subspan(range.offset, range.length), stored.size());
  const auto decode = [&](const ShardEntry& entry, Wanted inner) {
    if (entry.absent()) return land_missing(context, inner.out);
    decode_value(context, shard.codecs, stored.subspan(entry.offset, entry.nbytes),
                 std::move(inner), scratch);
  };
  for_each_inner_chunk(shard, index, wanted.part,
                       [&](std::int64_t number, const ShardEntry& entry, const ChunkPart& part) {
                         with_context([&] { return shard_entry_text(number); },
                                      [&] {
                                        decode(entry, {.part = part.in_chunk,
                                                       .out = subview(wanted.out, part.in_box)});
                                      });
                       });
}

// Returns a view of all elements of the encoded chunk.
ArrayView chunk_view(const DecodeContext& context, const CodecChain& chain, ByteView elements) {
  return {.data = elements.data(),
          .dtype = context.metadata.dtype,
          .element_size = context.metadata.element_size,
          .shape = chain.shape,
          .strides = c_strides(chain.shape, context.metadata.element_size)};
}

}  // namespace

Wanted transposed(const CodecChain& chain, Wanted wanted) {
  if (chain.order.empty()) return wanted;
  wanted.part = {.origin = chain.transposed(wanted.part.origin),
                 .shape = chain.transposed(wanted.part.shape)};
  wanted.out.shape = wanted.part.shape;
  wanted.out.strides = chain.transposed(wanted.out.strides);
  return wanted;
}

bool lands_whole(const CodecChain& chain, const Wanted& transposed_wanted) {
  return transposed_wanted.part.shape == chain.shape && transposed_wanted.out.contiguous();
}

std::uint64_t scratch_bytes(const CodecChain& chain, bool lands_whole) {
  // An inner chunk can land whole even if its shard does not. This bound ignores that case.
  if (chain.shard) return scratch_bytes(chain.shard->codecs, false);
  const std::uint64_t elements = lands_whole && !chain.swap_bytes ? 0 : chain.nbytes;
  return elements + memory_between(chain.steps, chain.nbytes);
}

void decode_value(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                  Wanted wanted, Scratch& scratch) {
  wanted = transposed(chain, std::move(wanted));
  if (chain.shard) return decode_shard(context, chain, stored, wanted, scratch);
  if (!chain.swap_bytes && lands_whole(chain, wanted))
    return decode_whole(context, chain, stored,
                        {wanted.out.data, static_cast<std::size_t>(chain.nbytes)});
  const ArrayView elements =
      chunk_view(context, chain, decode_steps(chain.steps, stored, chain.nbytes, scratch).bytes);
  land_elements(context, chain, subview(elements, wanted.part), wanted.out);
}

void decode_shared(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                   std::span<const Taker> takers, Scratch& scratch) {
  const auto whole = std::find_if(takers.begin(), takers.end(),
                                  [](const Taker& taker) { return taker.direct != nullptr; });
  ByteView elements;
  if (whole != takers.end()) {
    const MutableByteView out(whole->direct, static_cast<std::size_t>(chain.nbytes));
    decode_whole(context, chain, stored, out);
    elements = out;
  } else {
    elements = decode_steps(chain.steps, stored, chain.nbytes, scratch).bytes;
  }
  const ArrayView chunk = chunk_view(context, chain, elements);
  for (const Taker& taker : takers) {
    if (taker.direct == elements.data()) continue;
    if (taker.direct != nullptr) {
      std::copy(elements.begin(), elements.end(), taker.direct);
      continue;
    }
    const Wanted wanted = transposed(chain, *taker.wanted);
    land_elements(context, chain, subview(chunk, wanted.part), wanted.out);
  }
}

void decode_whole(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                  MutableByteView out) {
  decode_steps(chain.steps, stored, out);
  check_bools(context.metadata.dtype, out);
}

void land_elements(const DecodeContext& context, const CodecChain& chain, const ArrayView& from,
                   const MutableArrayView& to) {
  if (context.metadata.dtype == DType::kBool) check_bool_view(from);
  if (chain.swap_bytes) {
    copy_elements_swapped(from, to);
  } else {
    copy_elements(from, to);
  }
}

void land_missing(const DecodeContext& context, const MutableArrayView& out) {
  if (context.missing == MissingChunk::kError) throw Error(Code::kDataLoss, "the chunk is missing");
  fill_elements(context.metadata.fill_value, out);
}

void check_bools(DType dtype, ByteView elements) {
  if (dtype != DType::kBool) return;
  const auto bad =
      std::find_if(elements.begin(), elements.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == elements.end()) return;
  throw Error(Code::kDataLoss, "invalid bool value " + std::to_string(std::to_integer<int>(*bad)) +
                                   " at element " + std::to_string(bad - elements.begin()));
}

}  // namespace cairn::inline v0::zarr
