// decode.cc -- undoes a chain, starting from the stored bytes: steps, shard, byte order, transpose.
#include <cairn/zarr/read/decode.h>

#include <cairn/array/box.h>
#include <cairn/base/git_lfs.h>
#include <cairn/error.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/read/read_tasks.h>
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

// A run is a range of rows of one dimension; all dimensions inside it are wanted whole.
Shape run_shape_of(const CodecChain& chain, std::size_t element_size, const Box& part) {
  const auto strides = c_strides(chain.shape, element_size);
  Shape run_shape = part.shape;
  std::size_t d = part.rank();
  if (d == 0) return run_shape;
  --d;
  while (d > 0 && part.shape[d] == chain.shape[d]) --d;
  run_shape[d] = std::min(part.shape[d], static_cast<std::int64_t>(kRunBytes) / strides[d] + 1);
  std::fill(run_shape.begin(), run_shape.begin() + static_cast<std::ptrdiff_t>(d), 1);
  return run_shape;
}

// Opens a stream of a chunk that is too large to decode whole. Returns null if it must be decoded
// whole and fits the budget.
std::unique_ptr<ChainStream> open_parts(const DecodeContext& context, const CodecChain& chain,
                                        ByteView stored) {
  std::string why;
  auto stream = ChainStream::open(chain.steps, value_in_memory(stored), chain.nbytes,
                                  context.budget->limit(), why);
  if (!stream) check_whole_fits(chain, stored.size(), context.budget, why);
  return stream;
}

// Decodes a part of a chunk that is too large to decode whole, and verifies the rest. Returns false
// if the chunk must be decoded whole.
bool decode_part(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                 const Wanted& wanted, Scratch& scratch) {
  return explain_lfs_pointer(stored, [&] {
    const auto stream = open_parts(context, chain, stored);
    if (!stream) return false;
    land_part(context, chain, wanted, *stream, scratch);
    stream->skip(chain.nbytes - stream->position());
    return true;
  });
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

bool too_large(const CodecChain& chain, bool lands_whole, const ByteBudget* budget) {
  return budget != nullptr && scratch_bytes(chain, lands_whole) > budget->limit() / 2;
}

void check_whole_fits(const CodecChain& chain, std::uint64_t length, const ByteBudget* budget,
                      const std::string& why) {
  if (budget == nullptr) return;
  const std::uint64_t needed = length + scratch_bytes(chain, false);
  if (needed <= budget->limit()) return;
  throw Error(Code::kFailedPrecondition,
              "the chunk has " + std::to_string(length) + " stored and " +
                  std::to_string(chain.nbytes) + " decoded bytes, and decoding it takes " +
                  std::to_string(needed) + " bytes of memory, because " + why +
                  "; reading may take " + std::to_string(budget->limit()) +
                  ": raise the memory limit");
}

void decode_value(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                  Wanted wanted, Scratch& scratch) {
  wanted = transposed(chain, std::move(wanted));
  if (chain.shard) return decode_shard(context, chain, stored, wanted, scratch);
  if (!chain.swap_bytes && lands_whole(chain, wanted))
    return decode_whole(context, chain, stored,
                        {wanted.out.data, static_cast<std::size_t>(chain.nbytes)});
  if (too_large(chain, false, context.budget) &&
      decode_part(context, chain, stored, wanted, scratch))
    return;
  const ArrayView elements =
      chunk_view(context, chain, decode_steps(chain.steps, stored, chain.nbytes, scratch).bytes);
  land_elements(context, chain, subview(elements, wanted.part), wanted.out);
}

void decode_shared(const DecodeContext& context, const CodecChain& chain, ByteView stored,
                   std::span<const Taker> takers, Scratch& scratch) {
  if (too_large(chain, false, context.budget)) {
    for (const Taker& taker : takers) {
      if (taker.direct != nullptr)
        decode_whole(context, chain, stored,
                     {taker.direct, static_cast<std::size_t>(chain.nbytes)});
      else
        decode_value(context, chain, stored, *taker.wanted, scratch);
    }
    return;
  }
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
  const bool in_parts = too_large(chain, true, context.budget) && explain_lfs_pointer(stored, [&] {
                          const auto stream = open_parts(context, chain, stored);
                          if (stream) stream->read(out);
                          return stream != nullptr;
                        });
  if (!in_parts) decode_steps(chain.steps, stored, out);
  check_bools(context.metadata.dtype, out);
}

std::uint64_t part_scratch(const CodecChain& chain, std::size_t element_size, const Box& part) {
  return static_cast<std::uint64_t>(element_count(run_shape_of(chain, element_size, part))) *
         element_size;
}

void land_part(const DecodeContext& context, const CodecChain& chain, const Wanted& wanted,
               ChainStream& stream, Scratch& scratch) {
  const std::size_t element_size = context.metadata.element_size;
  const auto strides = c_strides(chain.shape, element_size);
  const Box& part = wanted.part;
  const Box rows = Box::whole(part.shape);
  const Shape run_shape = run_shape_of(chain, element_size, part);
  for (ChunkCursor run(rows, run_shape); !run.done(); run.next()) {
    const Box& box = run.part().in_box;
    std::uint64_t offset = 0;
    for (std::size_t d = 0; d < box.rank(); ++d)
      offset += static_cast<std::uint64_t>((part.origin[d] + box.origin[d]) * strides[d]);
    stream.skip(offset - stream.position());
    const auto size = static_cast<std::size_t>(element_count(box.shape)) * element_size;
    const MutableArrayView out = subview(wanted.out, box);
    const bool straight = out.contiguous() && !chain.swap_bytes;
    const MutableByteView bytes =
        straight ? MutableByteView(out.data, size) : scratch.bytes(size).first(size);
    stream.read(bytes);
    if (straight) {
      check_bools(context.metadata.dtype, bytes);
    } else {
      const ArrayView elements{.data = bytes.data(),
                               .dtype = context.metadata.dtype,
                               .element_size = element_size,
                               .shape = box.shape,
                               .strides = c_strides(box.shape, element_size)};
      land_elements(context, chain, elements, out);
    }
  }
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
