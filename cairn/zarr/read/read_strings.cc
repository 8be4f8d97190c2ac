// read_strings.cc -- reads a whole array of strings: elements without a fixed size.
#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/zarr/codec/objects.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/read/shard_walk.h>

#include <utility>

namespace cairn::inline v0::zarr {
namespace {

// The destination of a chunk: the strings of the chunk's part inside the array.
struct StringPlace {
  Shape extents;                      // of that part, which begins at the chunk's origin
  std::vector<std::int64_t> strides;  // in strings
  std::int64_t first = 0;             // the number of its first string
};

// Returns the place in the order of dimensions after the chain's transpose.
StringPlace transposed_place(const CodecChain& chain, const StringPlace& place) {
  StringPlace out = place;
  for (std::size_t d = 0; d < chain.order.size(); ++d) {
    out.extents[d] = place.extents[chain.order[d]];
    out.strides[d] = place.strides[chain.order[d]];
  }
  return out;
}

std::int64_t offset_of(const std::vector<std::int64_t>& strides,
                       const std::vector<std::int64_t>& position) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < position.size(); ++d) offset += strides[d] * position[d];
  return offset;
}

// Visits the elements of a chunk in C order: the number of each in the result, or nullopt for
// elements outside the array, which writers store in the chunks at its edge.
class StringCursor {
 public:
  StringCursor(const Shape& chunk_shape, const StringPlace& place)
      : chunk_shape_(chunk_shape), place_(place), at_(chunk_shape.size()) {}

  std::optional<std::size_t> next() {
    bool inside = true;
    for (std::size_t d = 0; d < at_.size(); ++d) inside = inside && at_[d] < place_.extents[d];
    const std::int64_t number = place_.first + offset_of(place_.strides, at_);
    for (std::size_t d = at_.size(); d-- > 0;) {
      if (++at_[d] < chunk_shape_[d]) break;
      at_[d] = 0;
    }
    return inside ? std::optional(static_cast<std::size_t>(number)) : std::nullopt;
  }

 private:
  const Shape& chunk_shape_;
  const StringPlace& place_;
  std::vector<std::int64_t> at_;
};

class StringReader {
 public:
  StringReader(const ZarrArray& array, MissingChunk missing, std::uint64_t most)
      : array_(array), missing_(missing), most_(most), left_(most) {}

  std::vector<std::string> run();

 private:
  void read_chunk(const ChunkPart& part, const std::vector<std::int64_t>& strides);
  void read_value(const CodecChain& chain, ByteRange range, const StringPlace& place);
  void read_shard(const ShardCodec& shard, ByteRange range, const StringPlace& place);
  void fill(const StringPlace& place);
  void set(std::size_t number, ByteView element);
  void reserve(std::uint64_t bytes);
  [[noreturn]] void refuse_size() const;
  [[nodiscard]] Bytes stored(ByteRange range) const;

  const ZarrArray& array_;
  MissingChunk missing_;
  std::uint64_t most_;  // bytes that the result may take
  std::uint64_t left_;  // of most_
  std::string key_;     // of the current chunk
  std::vector<std::string> strings_;
};

std::vector<std::string> StringReader::run() {
  const ArrayMetadata& metadata = array_.metadata();
  const auto count = static_cast<std::uint64_t>(element_count(metadata.shape));
  if (count > most_ / sizeof(std::string)) refuse_size();
  reserve(count * sizeof(std::string));
  strings_.resize(count);
  const Box whole = Box::whole(metadata.shape);
  const auto strides = c_strides(metadata.shape, 1);
  for (ChunkCursor chunk(whole, metadata.chunk_shape); !chunk.done(); chunk.next()) {
    const ChunkPart& part = chunk.part();
    key_ = array_.chunk_key(part.position);
    with_context(
        [&] {
          return "chunk " + metadata.keys.key(part.position) + " (" +
                 array_.store()->describe(key_) + ")";
        },
        [&] { read_chunk(part, strides); });
  }
  return std::move(strings_);
}

void StringReader::read_chunk(const ChunkPart& part, const std::vector<std::int64_t>& strides) {
  const StringPlace place{part.in_box.shape, strides, offset_of(strides, part.in_box.origin)};
  const auto size = array_.store()->size(key_);
  if (!size) return fill(place);
  read_value(array_.metadata().codecs, {.offset = 0, .length = *size}, place);
}

void StringReader::read_value(const CodecChain& chain, ByteRange range, const StringPlace& place) {
  const StringPlace to = transposed_place(chain, place);
  if (chain.shard) return read_shard(*chain.shard, range, to);
  check_objects_size(*range.length);
  StringCursor cursor(chain.shape, to);
  decode_objects(chain, stored(range), most_, [&](ByteView element) {
    if (const auto number = cursor.next()) set(*number, element);
  });
}

void StringReader::read_shard(const ShardCodec& shard, ByteRange range, const StringPlace& place) {
  const ShardIndexRange at = shard_index_range(shard, *range.length);
  const auto index = decode_shard_index(
      shard, stored({.offset = range.offset + at.offset, .length = at.length}), *range.length);
  const auto read = [&](std::int64_t number, const ShardEntry& entry, const ChunkPart& part) {
    const StringPlace inner{part.in_box.shape, place.strides,
                            place.first + offset_of(place.strides, part.in_box.origin)};
    with_context([&] { return shard_entry_text(number); },
                 [&] {
                   if (entry.absent()) return fill(inner);
                   read_value(shard.codecs,
                              {.offset = range.offset + entry.offset, .length = entry.nbytes},
                              inner);
                 });
  };
  for_each_inner_chunk(shard, index, Box::whole(place.extents), read);
}

void StringReader::fill(const StringPlace& place) {
  if (missing_ == MissingChunk::kError) throw Error(Code::kDataLoss, "the chunk is missing");
  const Bytes& value = array_.metadata().fill_value;
  if (value.empty()) return;
  StringCursor cursor(place.extents, place);
  for (std::int64_t i = element_count(place.extents); i > 0; --i) set(*cursor.next(), value);
}

void StringReader::set(std::size_t number, ByteView element) {
  reserve(element.size());
  strings_[number] = as_text(element);
}

void StringReader::reserve(std::uint64_t bytes) {
  if (bytes > left_) refuse_size();
  left_ -= bytes;
}

void StringReader::refuse_size() const {
  throw Error(Code::kUnimplemented, "its strings take more than " + std::to_string(most_) +
                                        " bytes of memory; allow more with Resources::memory "
                                        "(--memory)");
}

Bytes StringReader::stored(ByteRange range) const {
  auto bytes = array_.store()->read(key_, range);
  if (!bytes) throw Error(Code::kDataLoss, "the chunk was removed while Cairn read it");
  return *std::move(bytes);
}

}  // namespace

std::vector<std::string> read_strings(const ZarrArray& array, MissingChunk missing,
                                      std::uint64_t most) {
  const ArrayMetadata& metadata = array.metadata();
  if (!has_strings(metadata))
    throw Error(Code::kInvalidArgument,
                "elements of type " + metadata.dtype_name + " are not strings");
  return StringReader(array, missing, most).run();
}

}  // namespace cairn::inline v0::zarr
