// database_sink.cc -- lends the streams of a database's writer to threads.

#include <cairn/ocdbt/write/database_sink.h>

#include <memory>
#include <utility>

namespace cairn::inline v0::ocdbt {

DatabaseSink::DatabaseSink(StorePtr base, WriterOptions options)
    : writer_(std::move(base), std::move(options)) {}

void DatabaseSink::write(std::string_view key, std::span<const ByteView> pieces) {
  // Returns the stream even if writing fails: other threads may wait for it.
  const auto back = [this](Writer::Stream* stream) { give_back(stream); };
  const std::unique_ptr<Writer::Stream, decltype(back)> stream(take(), back);
  stream->write(key, pieces);
}

void DatabaseSink::refer(std::string_view key, const std::string& file, ByteRange range) {
  Writer::Stream* stream = take();
  stream->refer(key, file, range);
  give_back(stream);
}

Writer::Stream* DatabaseSink::take() {
  std::unique_lock lock(mutex_);
  if (idle_.empty() && streams_ < kMostStreams) {
    ++streams_;
    return &writer_.stream();
  }
  given_back_.wait(lock, [&] { return !idle_.empty(); });
  Writer::Stream* stream = idle_.back();
  idle_.pop_back();
  return stream;
}

void DatabaseSink::give_back(Writer::Stream* stream) {
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(stream);
  }
  given_back_.notify_one();
}

}  // namespace cairn::inline v0::ocdbt
