// database_sink.cc -- streams of a database's writer, lent to threads.
#include <cairn/orbax/save/database_sink.h>

#include <memory>
#include <utility>

namespace cairn::orbax {
namespace {

ocdbt::WriterOptions with_files_of(std::uint64_t bytes) {
  ocdbt::WriterOptions options = database_options();
  options.target_data_file_size = bytes;
  return options;
}

}  // namespace

ocdbt::WriterOptions database_options() {
  ocdbt::WriterOptions options;
  options.config.emplace();
  options.config->max_inline_value_bytes = 1024;
  options.config->max_decoded_node_bytes = 100'000'000;
  return options;
}

DatabaseSink::DatabaseSink(StorePtr base, std::uint64_t target_file_bytes)
    : writer_(std::move(base), with_files_of(target_file_bytes)) {}

void DatabaseSink::write(std::string_view key, std::span<const ByteView> pieces) {
  // also if writing fails: others may wait for it
  const auto back = [this](ocdbt::Writer::Stream* stream) { give_back(stream); };
  const std::unique_ptr<ocdbt::Writer::Stream, decltype(back)> stream(take(), back);
  stream->write(key, pieces);
}

ocdbt::Writer::Stream* DatabaseSink::take() {
  std::unique_lock lock(mutex_);
  if (idle_.empty() && streams_ < kMostStreams) {
    ++streams_;
    return &writer_.stream();
  }
  given_back_.wait(lock, [&] { return !idle_.empty(); });
  ocdbt::Writer::Stream* stream = idle_.back();
  idle_.pop_back();
  return stream;
}

void DatabaseSink::give_back(ocdbt::Writer::Stream* stream) {
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(stream);
  }
  given_back_.notify_one();
}

}  // namespace cairn::orbax
