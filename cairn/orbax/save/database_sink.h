// database_sink.h -- values of arrays to a database, from many threads at once.
#pragma once

#include <cairn/handlers/array_writer.h>
#include <cairn/kvstore.h>
#include <cairn/ocdbt/write/writer.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::orbax {

// Of every database that Orbax makes.
ocdbt::WriterOptions database_options();

// Every thread that writes has a stream for itself, and with it a data file. Some streams keep any
// disk busy, and each has memory of its own; of more threads the others wait.
class DatabaseSink : public handlers::ValueSink {
 public:
  // target_file_bytes: of the data files; 0: no limit.
  DatabaseSink(StorePtr base, std::uint64_t target_file_bytes);

  void write(std::string_view key, std::span<const ByteView> pieces) override;
  void remove(std::string_view /*key*/) override {}  // in a new database there is nothing to remove
  void commit() { writer_.commit(); }

 private:
  ocdbt::Writer::Stream* take();
  void give_back(ocdbt::Writer::Stream* stream);

  static constexpr std::size_t kMostStreams = 8;

  ocdbt::Writer writer_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::size_t streams_ = 0;
  std::vector<ocdbt::Writer::Stream*> idle_;
};

}  // namespace cairn::orbax
