// database_sink.h -- writes the values of arrays to a database, from several threads.
#pragma once

#include <cairn/kvstore/value_sink.h>
#include <cairn/ocdbt/write/writer.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::ocdbt {

// Lends each writing thread a stream, and with it a data file. At most kMostStreams exist: they
// keep any disk busy, and each needs memory. Further threads wait.
class DatabaseSink : public ValueSink {
 public:
  // Begins one commit to the database in `base`. Throws what Writer throws.
  DatabaseSink(StorePtr base, WriterOptions options);

  // Writes a value on a free stream; waits for one if all are in use.
  void write(std::string_view key, std::span<const ByteView> pieces) override;
  void remove(std::string_view /*key*/) override {}  // a new database has nothing to remove
  // Adds a value that is already in a data file of the database (Writer::Stream::refer).
  void refer(std::string_view key, const std::string& file, ByteRange range);
  // Publishes the values. Call it once, after the last write. Throws what Writer::commit throws.
  void commit() { writer_.commit(); }

 private:
  // Takes an idle stream, makes a new one, or waits for one.
  Writer::Stream* take();
  void give_back(Writer::Stream* stream);

  static constexpr std::size_t kMostStreams = 8;

  Writer writer_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::size_t streams_ = 0;
  std::vector<Writer::Stream*> idle_;
};

}  // namespace cairn::inline v0::ocdbt
