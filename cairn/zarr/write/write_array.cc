// write_array.cc -- writes the chunks that the boxes touch, in parallel.
#include <cairn/zarr/write/write_array.h>

#include <cairn/error.h>
#include <cairn/zarr/codec/workspaces.h>
#include <cairn/zarr/write/chunk_plan.h>
#include <cairn/zarr/write/unchanged.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

class Writer {
 public:
  Writer(std::span<const ArrayWrite> writes, ValueSink& sink, const WriteContext& context)
      : plan_(writes),
        sink_(sink),
        context_(context),
        executor_(context.executor ? *context.executor : default_executor()) {}

  void run() {
    executor_.for_each(plan_.size(), [&](std::size_t i) {
      with_context([&] { return plan_.where(i); }, [&] { write_chunk(i); });
    });
  }
  // Takes chunks from both ends in turn. The trained arrays of a model often lie together, so this
  // lets one thread compare while another waits for the disk.
  void run(ReusableValues& earlier) {
    const std::size_t n = plan_.size();
    executor_.for_each(n, [&](std::size_t i) {
      const std::size_t number = i % 2 == 0 ? i / 2 : n - 1 - i / 2;
      with_context([&] { return plan_.where(number); }, [&] { write_if_changed(number, earlier); });
    });
  }

 private:
  void write_chunk(std::size_t number);
  void write_if_changed(std::size_t number, ReusableValues& earlier);
  void encode_chunk(const ArrayWrite& write, PlannedChunk chunk, const std::string& key);
  void note(const ArrayMetadata& metadata, const PlannedChunk& chunk, const std::string& key);

  ChunkPlan plan_;
  ValueSink& sink_;
  const WriteContext& context_;
  Executor& executor_;
  Workspaces workspaces_;
};

// Allocates memory for the chunk's current elements, which the parts overlay. It is not filled
// here.
Array old_elements(const ArrayMetadata& metadata, const Box& chunk) {
  return Array::allocate(metadata.dtype, metadata.element_size, chunk.shape);
}

void Writer::write_chunk(std::size_t number) {
  const ArrayWrite& write = plan_.write_of(number);
  PlannedChunk chunk = plan_.chunk(number);
  const std::string key = write.array.chunk_key(chunk.position);
  const auto bytes = static_cast<std::uint64_t>(chunk.given) * write.array.metadata().element_size;
  if (context_.reusable == nullptr || !context_.reusable->has(key))
    encode_chunk(write, std::move(chunk), key);
  if (context_.progress) context_.progress->done.fetch_add(bytes, std::memory_order_relaxed);
}

void Writer::write_if_changed(std::size_t number, ReusableValues& earlier) {
  const ArrayWrite& write = plan_.write_of(number);
  PlannedChunk chunk = plan_.chunk(number);
  const std::string key = write.array.chunk_key(chunk.position);
  // A value that cannot be read is not the one that is to be saved.
  const auto same = try_call([&] {
    const auto location = earlier.take(key);
    return location && is_unchanged(write.array.metadata(), chunk, *location, key, context_);
  });
  if (same && same.value()) return earlier.keep(key);
  earlier.replace(key);
  encode_chunk(write, std::move(chunk), key);
}

// Notes the fingerprint of the elements, unless the search for unchanged values has.
void Writer::note(const ArrayMetadata& metadata, const PlannedChunk& chunk,
                  const std::string& key) {
  if (context_.fingerprints == nullptr || context_.fingerprints->has(key)) return;
  if (const auto elements = chunk.contiguous(metadata))
    context_.fingerprints->note(key, fingerprint(*elements));
}

void Writer::encode_chunk(const ArrayWrite& write, PlannedChunk chunk, const std::string& key) {
  const ArrayMetadata& metadata = write.array.metadata();
  note(metadata, chunk, key);
  std::vector<ChunkSource> sources = std::move(chunk.sources);
  Array old;
  std::uint64_t reading = 0;
  if (!chunk.is_complete() && write.array.store()) {
    old = old_elements(metadata, chunk.box);
    sources.insert(sources.begin(), {.box = Box::whole(chunk.box.shape), .from = old.view()});
    reading = old.bytes().size() + 2 * metadata.codecs.nbytes;
  }
  EncodeOptions encode = write.encode;
  // else the other threads would have nothing to do
  encode.threads = std::max<std::size_t>(executor_.threads() / plan_.size(), 1);
  encode.executor = &executor_;
  ChunkEncoder encoder(metadata, encode);
  const std::uint64_t needed = encoder.begin(std::move(sources)) + reading;
  const auto held =
      context_.budget && needed > 0 ? context_.budget->acquire(needed) : ByteBudget::Lease();
  // Reads without the budget: this thread already holds its share.
  if (reading > 0) write.array.read(chunk.box, old.mutable_view(), MissingChunk::kFill);

  const Workspaces::Loan space(workspaces_);
  std::optional<Executor::Turn> turn;
  if (sink_.waits()) turn.emplace(executor_);
  CompressionChoice::Work work(encode.choice);
  const Pieces& value = encoder.encode(space->decoded, space->encoded);
  turn.reset();
  if (encoder.outcome().compressed_bytes > 0) work.begin_storing();
  if (value.size() > 0) {
    if (encoder.ends_later())
      sink_.write_before_end(key, value.views(), [&] { encoder.wait_for_end(); });
    else
      sink_.write(key, value.views());
  } else {
    sink_.remove(key);
  }
  work.finish(encoder.outcome());
}

}  // namespace

void write_boxes(std::span<const ArrayWrite> writes, ValueSink& sink, const WriteContext& context) {
  Writer(writes, sink, context).run();
}

void write_changed(std::span<const ArrayWrite> writes, ReusableValues& earlier, ValueSink& sink,
                   const WriteContext& context) {
  Writer(writes, sink, context).run(earlier);
}

}  // namespace cairn::inline v0::zarr
