// encode.cc -- runs a chain forwards: gather, shard, steps. It also chooses between compressed and
// raw zstd frames.
#include <cairn/zarr/write/encode.h>

#include <cairn/array/box.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/codec/compress.h>
#include <cairn/codec/zstd_frame.h>
#include <cairn/error.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/read/decode.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

using Sources = std::vector<ChunkSource>;

constexpr int kFastLevel = 1;      // zstd's level if none is given
constexpr int kSmallestLevel = 9;  // higher levels make weights no smaller
// A thread that compresses fewer bytes still counts as one that stores: the difference is lost in
// the time of taking a lock.
constexpr std::size_t kLargeCoding = std::size_t{64} << 10U;
// A chunk of this size is hashed while it is written, if there is a thread to spare.
constexpr std::size_t kHashedAside = std::size_t{8} << 20U;

// Returns the sources in the order of dimensions after the chain's transpose.
Sources transposed(const CodecChain& chain, Sources sources) {
  if (chain.order.empty()) return sources;
  for (ChunkSource& source : sources) {
    source.box = {.origin = chain.transposed(source.box.origin),
                  .shape = chain.transposed(source.box.shape)};
    source.from.shape = source.box.shape;
    source.from.strides = chain.transposed(source.from.strides);
  }
  return sources;
}

// Returns the sources' elements for this part of the chunk, in the part's coordinates.
Sources within(const Sources& sources, const Box& part) {
  Sources inner;
  for (const ChunkSource& source : sources) {
    const auto shared = intersect(source.box, part);
    if (!shared) continue;
    inner.push_back({.box = relative_to(*shared, part.origin),
                     .from = subview(source.from, relative_to(*shared, source.box.origin))});
  }
  return inner;
}

MutableArrayView view_of(const CodecChain& chain, const ArrayMetadata& metadata, std::byte* data) {
  return {.data = data,
          .dtype = metadata.dtype,
          .element_size = metadata.element_size,
          .shape = chain.shape,
          .strides = c_strides(chain.shape, metadata.element_size)};
}

bool same_type(const ArrayView& from, const ArrayMetadata& metadata) {
  return from.dtype == metadata.dtype && from.element_size == metadata.element_size;
}

Bytes stored_fill(const CodecChain& chain, const ArrayMetadata& metadata) {
  Bytes fill = metadata.fill_value;
  if (!chain.swap_bytes) return fill;
  const ArrayView from{.data = metadata.fill_value.data(),
                       .dtype = metadata.dtype,
                       .element_size = metadata.element_size,
                       .shape = {},
                       .strides = {}};
  copy_elements_swapped(from, {.data = fill.data(),
                               .dtype = from.dtype,
                               .element_size = from.element_size,
                               .shape = {},
                               .strides = {}});
  return fill;
}

void check_source_bools(const ArrayMetadata& metadata, ByteView elements) {
  if (metadata.dtype != DType::kBool) return;
  const auto bad =
      std::find_if(elements.begin(), elements.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad != elements.end())
    throw Error(Code::kInvalidArgument, "a bool element has value " +
                                            std::to_string(std::to_integer<int>(*bad)) +
                                            ", expected 0 or 1");
}

// Follows shards that consist of one inner chunk. Returns the chain of the innermost chunk, or of
// the first shard with several inner chunks.
const CodecChain& innermost(const CodecChain& chain) {
  const CodecChain* at = &chain;
  while (at->shard && at->shard->chunk_shape == at->shape) at = &at->shard->codecs;
  return *at;
}

}  // namespace

EncodeOptions encode_options(const Compression& compression, CompressionChoice* choice) {
  EncodeOptions options;
  switch (compression.method) {
    case Compression::Method::kAuto:
      options.choice = choice;
      break;
    case Compression::Method::kReproducible:
      break;
    case Compression::Method::kSmallest:
      options.zstd_effort = EncodeOptions::Effort::kSmallest;
      break;
    default:
      options.zstd_effort = EncodeOptions::Effort::kAsInMetadata;
  }
  return options;
}

std::uint64_t ChunkEncoder::encoded_bytes(const CodecChain& chain) const {
  if (chain.shard)
    return static_cast<std::uint64_t>(element_count(chain.shard->grid)) *
           encoded_bytes(chain.shard->codecs);
  std::uint64_t size = chain.nbytes;
  std::uint64_t total = 0;
  for (const ByteStep& step : chain.steps) {
    if (const auto* compress = std::get_if<CompressStep>(&step)) {
      size = compress_bound(compress->codec, size);
      total += size;
    } else {
      size += sizeof(std::uint32_t);
    }
  }
  return total;
}

// Returns the elements to be stored, if one source already holds them contiguously.
std::optional<ByteView> ChunkEncoder::borrow(const CodecChain& chain,
                                             const Sources& sources) const {
  if (chain.shard || chain.swap_bytes || sources.size() != 1) return std::nullopt;
  const ArrayView& from = sources[0].from;
  if (from.shape != chain.shape || !same_type(from, metadata_) || !from.contiguous())
    return std::nullopt;
  return ByteView(from.data, static_cast<std::size_t>(chain.nbytes));
}

// Like borrow, for the innermost chunk of nested shards that each hold one chunk.
std::optional<ByteView> ChunkEncoder::borrowed() const {
  const CodecChain* chain = &metadata_.codecs;
  if (sources_.size() != 1) return std::nullopt;
  if (chain->order.empty() && !chain->shard) return borrow(*chain, sources_);
  Sources only = transposed(*chain, sources_);
  while (chain->shard && chain->shard->chunk_shape == chain->shape) {
    chain = &chain->shard->codecs;
    only = transposed(*chain, std::move(only));
  }
  return borrow(*chain, only);
}

std::uint64_t ChunkEncoder::begin(Sources sources) {
  end_ = {};
  pieces_ = {};
  decision_.reset();
  outcome_ = {};
  sources_ = std::move(sources);
  whole_.reset();
  return sample(borrowed());
}

std::uint64_t ChunkEncoder::begin(ByteView elements) {
  end_ = {};
  pieces_ = {};
  decision_.reset();
  outcome_ = {};
  sources_.clear();
  whole_ = elements;
  return sample(elements);
}

std::uint64_t ChunkEncoder::sample(const std::optional<ByteView>& elements) {
  const CodecChain& chain = innermost(metadata_.codecs);
  const bool choose = options_.zstd_effort == EncodeOptions::Effort::kAuto &&
                      !chain.steps.empty() && is_zstd(chain.steps[0]);
  if (elements && choose) decision_ = decide(*elements);
  gathered_bytes_ = elements ? 0 : metadata_.codecs.nbytes;
  encoded_bytes_ = decision_ && !decision_->compress && chain.steps.size() == 1
                       ? 0
                       : encoded_bytes(metadata_.codecs);
  return gathered_bytes_ + encoded_bytes_;
}

const Pieces& ChunkEncoder::encode(Scratch& elements, Scratch& encoded) {
  gathered_ = elements.bytes(gathered_bytes_);
  encoded_ = encoded.bytes(encoded_bytes_);
  if (whole_)
    encode_elements(metadata_.codecs, *whole_);
  else
    encode_chunk(metadata_.codecs, std::move(sources_));
  return pieces_;
}

bool ChunkEncoder::encode_chunk(const CodecChain& chain, Sources sources) {
  sources = transposed(chain, std::move(sources));
  return chain.shard ? encode_shard(chain, sources) : encode_elements(chain, sources);
}

// Encodes inner chunks in C order without gaps, as TensorStore does. An inner chunk that no source
// touches lies outside the array. Each inner chunk has its own part of the scratch memory, so
// several threads can encode them.
bool ChunkEncoder::encode_shard(const CodecChain& chain, const Sources& sources) {
  const ShardCodec& shard = *chain.shard;
  const auto count = static_cast<std::size_t>(element_count(shard.grid));
  const std::uint64_t encoded_size =
      std::min<std::uint64_t>(encoded_bytes(shard.codecs), encoded_.size());
  const std::uint64_t gathered_size =
      std::min<std::uint64_t>(shard.codecs.nbytes, gathered_.size());
  EncodeOptions options = options_;
  options.threads = std::max<std::size_t>(options_.threads / count, 1);
  std::vector<Pieces> inner(count);
  std::vector<ChunkOutcome> outcomes(count);
  const auto encode_one = [&](std::size_t number) {
    Box part{.origin = grid_position(shard.grid, static_cast<std::int64_t>(number)),
             .shape = shard.chunk_shape};
    for (std::size_t d = 0; d < part.rank(); ++d) part.origin[d] *= part.shape[d];
    Sources touched = within(sources, part);
    if (touched.empty()) return;
    ChunkEncoder encoder(metadata_, options);
    encoder.decision_ = decision_;
    encoder.gathered_ = gathered_.subspan(number * gathered_size, gathered_size);
    encoder.encoded_ = encoded_.subspan(number * encoded_size, encoded_size);
    encoder.encode_chunk(shard.codecs, std::move(touched));
    inner[number] = std::move(encoder.pieces_);
    outcomes[number] = encoder.outcome_;
  };
  if (options_.threads > 1 && options_.executor != nullptr) {
    options_.executor->for_each(count, encode_one);
  } else {
    for (std::size_t number = 0; number < count; ++number) encode_one(number);
  }
  for (const ChunkOutcome& outcome : outcomes) outcome_ += outcome;
  return join_shard(shard, inner);
}

// Joins the inner chunks and the index. An inner chunk without pieces is not stored.
bool ChunkEncoder::join_shard(const ShardCodec& shard, std::vector<Pieces>& inner) {
  std::vector<ShardEntry> index(inner.size());
  const std::uint64_t begin = pieces_.size();
  const std::size_t first = pieces_.views().size();
  // replaced below, when the index is known
  if (shard.index_at_start) pieces_.own(Bytes(shard_index_size(shard)));
  bool any = false;
  for (std::size_t number = 0; number < index.size(); ++number) {
    if (inner[number].size() == 0) continue;
    index[number] = {.offset = pieces_.size() - begin, .nbytes = inner[number].size()};
    pieces_.append(std::move(inner[number]));
    any = true;
  }
  if (!any) {
    pieces_.truncate(first);
  } else if (shard.index_at_start) {
    pieces_.replace(first, encode_shard_index(shard, index));
  } else {
    pieces_.own(encode_shard_index(shard, index));
  }
  return any;
}

bool ChunkEncoder::encode_elements(const CodecChain& chain, const Sources& sources) {
  const auto there = borrow(chain, sources);
  return encode_elements(chain, there ? *there : gather(chain, sources));
}

bool ChunkEncoder::encode_elements(const CodecChain& chain, ByteView elements) {
  check_source_bools(metadata_, elements);
  if (only_fill(chain, elements)) return false;
  const std::size_t first = pieces_.views().size();
  pieces_.borrow(elements);
  for (const ByteStep& step : chain.steps) apply(step, first);
  if (is_only_crc32c(chain.steps)) outcome_.incompressible_bytes += elements.size();
  return true;
}

bool ChunkEncoder::only_fill(const CodecChain& chain, ByteView elements) const {
  if (options_.fill_chunks == EncodeOptions::FillChunks::kStore || metadata_.fill_is_null)
    return false;
  const Bytes fill = stored_fill(chain, metadata_);
  const std::size_t rest = elements.size() - fill.size();
  // The first element is the fill value, and every other element equals the one before it.
  return std::memcmp(elements.data(), fill.data(), fill.size()) == 0 &&
         std::memcmp(elements.data(), elements.data() + fill.size(), rest) == 0;
}

ByteView ChunkEncoder::gather(const CodecChain& chain, const Sources& sources) {
  const MutableByteView room = gathered_.first(chain.nbytes);
  gathered_ = gathered_.subspan(chain.nbytes);
  const MutableArrayView chunk = view_of(chain, metadata_, room.data());
  const bool covered = std::any_of(sources.begin(), sources.end(), [&](const ChunkSource& source) {
    return source.box.shape == chain.shape;
  });
  if (!covered) fill_elements(stored_fill(chain, metadata_), chunk);
  for (const ChunkSource& source : sources) {
    const MutableArrayView to = subview(chunk, source.box);
    if (chain.swap_bytes) {
      gather_swapped(source.from, to);
    } else if (same_type(source.from, metadata_)) {
      copy_elements(source.from, to);
    } else {
      cast_elements(source.from, to);
    }
  }
  return room;
}

void ChunkEncoder::gather_swapped(const ArrayView& from, const MutableArrayView& to) const {
  if (same_type(from, metadata_)) return copy_elements_swapped(from, to);
  Bytes cast(static_cast<std::size_t>(element_count(to.shape)) * to.element_size);
  const MutableArrayView between = make_view(MutableByteView(cast), to.dtype, to.shape);
  cast_elements(from, between);
  copy_elements_swapped(as_const(between), to);
}

// Replaces the pieces from number `first` on by the output of the step.
void ChunkEncoder::apply(const ByteStep& step, std::size_t first) {
  if (const auto* compress_step = std::get_if<CompressStep>(&step))
    return compress(*compress_step, first);
  const auto* checksum = std::get_if<Crc32cStep>(&step);
  if (!checksum || checksum->at_start)
    throw Error(Code::kUnimplemented,
                "Cairn reads arrays with numcodecs filters, but does not write them; make a new "
                "array without filters");
  std::uint32_t crc = 0;
  for (const ByteView piece : pieces_.views().subspan(first)) crc = crc32c_extend(crc, piece);
  ByteWriter tail;
  tail.u32(crc);
  pieces_.own(std::move(tail).take());
}

ChunkEncoder::Decision ChunkEncoder::decide(ByteView elements) const {
  CompressionChoice* const choice = options_.choice;
  if (choice != nullptr && is_small_chunk(elements.size()) && choice->stores_small_as_is())
    return {.compress = false, .is_worthwhile = true};
  const CompressionEstimate estimate = estimate_compression(elements);
  const bool compress = choice != nullptr ? choice->should_compress(estimate, elements.size())
                                          : estimate.is_worthwhile;
  return {.compress = compress, .is_worthwhile = estimate.is_worthwhile};
}

// XXH64 has one result for all of a frame, so one thread makes it. Without this, nothing of a chunk
// of a gibibyte would be written in its first 0.1 s.
bool ChunkEncoder::hash_aside(ByteView in, MutableByteView checksum) {
  const CodecChain& chain = metadata_.codecs;
  if (in.size() < kHashedAside || options_.threads < 2 || chain.shard || chain.steps.size() != 1)
    return false;
  try {
    end_ = std::async(std::launch::async, put_raw_zstd_checksum, in, checksum);
  } catch (const std::system_error&) {  // no more threads
    return false;
  }
  return true;
}

void ChunkEncoder::borrow_raw(ByteView in) {
  RawZstdFrame frame = begin_raw_zstd_frame(in);
  if (!hash_aside(in, frame.checksum)) put_raw_zstd_checksum(in, frame.checksum);
  for (const ByteView piece : frame.pieces) pieces_.borrow(piece);
  pieces_.keep(std::move(frame.framing));
}

std::size_t ChunkEncoder::compress_to_scratch(Codec codec, const CompressOptions& options,
                                              ByteView in) {
  return compress_into(codec, options, in, encoded_.first(compress_bound(codec, in.size())));
}

void ChunkEncoder::compress_or_borrow(CompressOptions options, ByteView in) {
  const auto decided = std::exchange(decision_, std::nullopt);
  const Decision decision = decided ? *decided : decide(in);
  if (!decision.compress) {
    (decision.is_worthwhile ? outcome_.raw_bytes : outcome_.incompressible_bytes) += in.size();
    return borrow_raw(in);
  }
  options.level = kFastLevel;
  CompressionChoice* const choice = options_.choice;
  if (choice == nullptr) {
    options.threads = 1;
    return take_scratch(compress_to_scratch(Codec::kZstd, options, in));
  }
  std::optional<CompressionChoice::Coding> coding;
  if (in.size() >= kLargeCoding) coding.emplace(*choice);
  const auto start = choice->now();
  const std::size_t n = compress_to_scratch(Codec::kZstd, options, in);
  const auto elapsed = choice->now() - start;
  outcome_ += {.compressed_bytes = in.size(),
               .compressed_size = n,
               .is_small = in.size() < kLargeCoding,
               .coding = elapsed * static_cast<std::int64_t>(options.threads),
               .elapsed_coding = elapsed};
  take_scratch(n);
}

void ChunkEncoder::compress(const CompressStep& step, std::size_t first) {
  const ByteView in = pieces_.joined(first);
  pieces_.truncate(first);
  CompressOptions options = step.options;
  options.threads = options_.threads;
  if (options.blosc.type_size == 0) options.blosc.type_size = metadata_.element_size;
  if (step.codec != Codec::kZstd) return take_scratch(compress_to_scratch(step.codec, options, in));
  options.checksum = options.checksum || options_.zstd_checksum == EncodeOptions::Checksum::kAlways;
  if (options_.zstd_effort == EncodeOptions::Effort::kAuto) return compress_or_borrow(options, in);
  const bool smallest = options_.zstd_effort == EncodeOptions::Effort::kSmallest;
  if (smallest) options.level = kSmallestLevel;
  const std::size_t n = compress_to_scratch(step.codec, options, in);
  if (smallest && n >= raw_zstd_frame_size(in.size())) return borrow_raw(in);
  take_scratch(n);
}

void ChunkEncoder::take_scratch(std::size_t n) {
  pieces_.borrow(encoded_.first(n));
  encoded_ = encoded_.subspan(n);
}

}  // namespace cairn::inline v0::zarr
