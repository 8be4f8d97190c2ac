// database_sink.cc -- gives the streams of a database's writer to threads.

#include <cairn/ocdbt/write/database_sink.h>

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

}  // namespace

DatabaseSink::DatabaseSink(StorePtr base, WriterOptions options)
    : writer_(std::move(base), std::move(options)) {}

template <class F>
void DatabaseSink::with_stream(F use) {
  const std::size_t own = number_of_thread() % kMostStreams;
  std::unique_lock<std::mutex> lock;
  std::size_t at = own;
  for (std::size_t i = 0; i < kMostStreams && !lock; ++i) {
    at = (own + i) % kMostStreams;
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
