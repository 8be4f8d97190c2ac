// write_small.cc -- encodes and writes small arrays, a block of them in one task.
#include <cairn/zarr/write/write_small.h>

#include <cairn/error.h>
#include <cairn/zarr/codec/workspaces.h>

#include <algorithm>
#include <array>
#include <string>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 10U;
constexpr std::size_t kMostRank = 64;
constexpr std::size_t kArraysPerTask = 64;  // arrays of one task, if their writes do not wait

std::string only_chunk(const ArrayMetadata& metadata) {
  constexpr std::array<std::int64_t, kMostRank> kZeros{};
  return metadata.keys.key(std::span(kZeros).first(metadata.shape.size()));
}

// Writes arrays one after the other.
class BlockWriter {
 public:
  BlockWriter(ValueSink& sink, const EncodeOptions& encode, const WriteContext& context,
              Workspace& space)
      : sink_(sink), encode_(encode), context_(context), space_(space), work_(encode.choice) {}

  // Elements' bytes that are written.
  [[nodiscard]] std::uint64_t written() const { return written_; }
  void write(const SmallWrite& write) {
    const ArrayMetadata& metadata = write.array->metadata();
    if (&metadata != metadata_) {  // neighbours often share it
      metadata_ = &metadata;
      chunk_ = only_chunk(metadata);
    }
    with_context([&] { return write.array->name() + ": chunk " + chunk_; },
                 [&] { write_chunk(write, metadata); });
  }
  // Call it after the last write.
  void finish() { work_.finish(outcome_); }

 private:
  void write_chunk(const SmallWrite& write, const ArrayMetadata& metadata) {
    const ByteView elements(write.elements, static_cast<std::size_t>(metadata.codecs.nbytes));
    ZarrArray::put_key_prefix(write.array->name(), key_);
    key_ += chunk_;
    if (context_.fingerprints != nullptr && !context_.fingerprints->has(key_))
      context_.fingerprints->note(key_, fingerprint(elements));
    ChunkEncoder encoder(metadata, encode_);
    encoder.begin(elements);
    const Pieces& value = encoder.encode(space_.decoded, space_.encoded);
    outcome_ += encoder.outcome();
    if (value.size() > 0)
      sink_.write(key_, value.views());
    else
      sink_.remove(key_);
    written_ += elements.size();
  }

  ValueSink& sink_;
  const EncodeOptions& encode_;
  const WriteContext& context_;
  Workspace& space_;
  CompressionChoice::Work work_;
  ChunkOutcome outcome_;
  const ArrayMetadata* metadata_ = nullptr;
  std::string chunk_;  // the key of a chunk of metadata_, below the array's name
  std::string key_;
  std::uint64_t written_ = 0;
};

}  // namespace

bool is_small_whole(const ArrayMetadata& metadata) {
  const CodecChain& chain = metadata.codecs;
  return metadata.element_size > 0 && metadata.shape == metadata.chunk_shape &&
         metadata.shape.size() <= kMostRank && chain.nbytes <= kMostBytes && chain.order.empty() &&
         !chain.shard && !chain.swap_bytes;
}

void write_small(std::span<const SmallWrite> writes, ValueSink& sink, const EncodeOptions& encode,
                 const WriteContext& context) {
  Executor& executor = context.executor != nullptr ? *context.executor : default_executor();
  Workspaces workspaces;
  const std::size_t per_task = sink.waits() ? 1 : kArraysPerTask;
  executor.for_each((writes.size() + per_task - 1) / per_task, [&](std::size_t block) {
    const Workspaces::Loan space(workspaces);
    BlockWriter writer(sink, encode, context, *space);
    const std::size_t end = std::min(writes.size(), (block + 1) * per_task);
    for (std::size_t i = block * per_task; i < end; ++i) writer.write(writes[i]);
    writer.finish();
    // Once a block, because all cores share this number.
    if (context.progress)
      context.progress->done.fetch_add(writer.written(), std::memory_order_relaxed);
  });
}

}  // namespace cairn::inline v0::zarr
