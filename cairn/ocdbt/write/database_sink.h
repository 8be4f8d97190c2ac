// database_sink.h -- writes the values of arrays to a database, from several threads.
#pragma once

#include <cairn/kvstore/value_sink.h>
#include <cairn/ocdbt/write/writer.h>

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace cairn::inline v0::ocdbt {

// Gives each writing thread a stream, and with it a data file. At most kMostStreams exist: they
// keep any disk busy, and each needs memory. Further threads share them. In an object store, there
// are only as many as write at once, because each file is a request, and as many as the memory
// allows.
class DatabaseSink : public ValueSink {
 public:
  // Begins one commit to the database in `base`. Throws what Writer throws.
  DatabaseSink(StorePtr base, WriterOptions options);

  // Writes a value on the thread's own stream, or on a free one; waits if all are in use.
  void write(std::string_view key, std::span<const ByteView> pieces) override;
  void write_before_end(std::string_view key, std::span<const ByteView> pieces,
                        const std::function<void()>& end) override;
  void remove(std::string_view /*key*/) override {}  // a new database has nothing to remove
  [[nodiscard]] bool waits() const override { return is_remote_; }
  // Adds a value that is already in a data file of the database (Writer::Stream::refer).
  void refer(std::string_view key, const std::string& file, ByteRange range);
  // Publishes the values. Call it once, after the last write. Throws what Writer::commit throws.
  void commit() { writer_.commit(); }

 private:
  // A thread returns to its place, so that threads share no lock and the keys of a stream are
  // nearly sorted.
  struct Place {
    std::mutex mutex;
    Writer::Stream* stream = nullptr;  // made by the first write
  };
  // Calls use(stream) while no other thread uses the stream.
  template <class F>
  void with_stream(F use);

  static constexpr std::size_t kMostStreams = 8;

  bool is_remote_;
  std::size_t most_streams_;
  Writer writer_;
  std::array<Place, kMostStreams> places_;
};

}  // namespace cairn::inline v0::ocdbt
