// database_sink.cc -- gives the streams of a database's writer to threads.

#include <cairn/ocdbt/write/database_sink.h>

#include <cairn/base/executor.h>
#include <cairn/kvstore/upload_memory.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace cairn::inline v0::ocdbt {

namespace {

// Numbers the threads of the process as they come.
std::size_t number_of_thread() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// The streams for which the memory of uploads suffices.
std::size_t streams_for(const WriterOptions& options, std::size_t most) {
  if (options.upload_memory == 0) return most;
  return std::clamp<std::size_t>(options.upload_memory / kLeastUploadMemory, 1, most);
}

// Divides that memory between the streams of the workers.
WriterOptions with_shares(WriterOptions options, std::size_t most) {
  options.streams = std::min(Workers(options.threads).executor().threads(), most);
  return options;
}

}  // namespace

DatabaseSink::DatabaseSink(StorePtr base, WriterOptions options)
    : is_remote_(options.upload_memory > 0),
      most_streams_(streams_for(options, kMostStreams)),
      writer_(std::move(base), with_shares(std::move(options), most_streams_)) {}

template <class F>
void DatabaseSink::with_stream(F use) {
  const std::size_t own = is_remote_ ? 0 : number_of_thread() % most_streams_;
  std::unique_lock<std::mutex> lock;
  std::size_t at = own;
  for (std::size_t i = 0; i < most_streams_ && !lock; ++i) {
    at = (own + i) % most_streams_;
    lock = std::unique_lock(places_[at].mutex, std::try_to_lock);
  }
  if (!lock) lock = std::unique_lock(places_[at = own].mutex);
  Place& place = places_[at];
  if (place.stream == nullptr) place.stream = &writer_.stream();
  use(*place.stream);
}

void DatabaseSink::write(std::string_view key, std::span<const ByteView> pieces) {
  with_stream([&](Writer::Stream& stream) { stream.write(key, pieces); });
}

void DatabaseSink::write_before_end(std::string_view key, std::span<const ByteView> pieces,
                                    const std::function<void()>& end) {
  with_stream([&](Writer::Stream& stream) { stream.write(key, pieces, end); });
}

void DatabaseSink::refer(std::string_view key, const std::string& file, ByteRange range) {
  with_stream([&](Writer::Stream& stream) { stream.refer(key, file, range); });
}

}  // namespace cairn::inline v0::ocdbt
