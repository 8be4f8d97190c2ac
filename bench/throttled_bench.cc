// throttled_bench.cc -- saves the same weights into a store of limited speed with the compressions
// auto, none and zstd:1 in turn, and compares their times.
//
//   throttled_bench FOLDER RATE BYTES ROUNDS
//
// RATE is in bytes per second, 0 for as fast as the file system of FOLDER. BYTES of bfloat16
// weights in arrays of 32 MiB are written by the writer of every save, as one database, and synced.
// Prints a line for each round, and the medians of the ratios: auto to none, to zstd:1, and to the
// better of both in that round.
#include <cairn/array/box.h>
#include <cairn/base/executor.h>
#include <cairn/handlers/array_writer.h>
#include <cairn/ocdbt/write/database_sink.h>
#include <cairn/types.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/faulty_store.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using cairn::Bytes;
using cairn::ByteView;

constexpr std::uint64_t kArray = std::uint64_t{32} << 20U;
constexpr std::size_t kPiece = std::size_t{1} << 20U;
constexpr std::uint64_t kBuffer = std::uint64_t{2} << 20U;

// Lets bytes pass at a rate that all threads share. Like a device, it has a buffer: what a thread
// oversleeps, or does between two small writes, is not lost.
class Throttle {
 public:
  explicit Throttle(double rate) : rate_(rate) {
    if (rate != 0) buffered_ = time_of(kBuffer);
  }
  void pass(std::uint64_t bytes) {
    if (rate_ == 0) return;
    std::unique_lock lock(mutex_);
    free_ = std::max(free_, Clock::now() - buffered_) + time_of(bytes);
    const auto until = free_;
    lock.unlock();
    std::this_thread::sleep_until(until);
  }

 private:
  [[nodiscard]] Clock::duration time_of(std::uint64_t bytes) const {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / rate_));
  }

  double rate_;
  Clock::duration buffered_{};
  std::mutex mutex_;
  Clock::time_point free_;
};

class ThrottledAppender : public cairn::Appender {
 public:
  ThrottledAppender(std::unique_ptr<cairn::Appender> base, Throttle& throttle)
      : base_(std::move(base)), throttle_(throttle) {}
  // In pieces, so that threads take turns.
  void append(std::span<const ByteView> parts) override {
    for (ByteView part : parts)
      while (!part.empty()) {
        const ByteView piece = part.first(std::min(part.size(), kPiece));
        throttle_.pass(piece.size());
        base_->append(std::span(&piece, 1));
        part = part.subspan(piece.size());
      }
  }
  [[nodiscard]] std::uint64_t size() const override { return base_->size(); }
  void commit() override { base_->commit(); }

 private:
  std::unique_ptr<cairn::Appender> base_;
  Throttle& throttle_;
};

class ThrottledStore : public cairn::testing::ForwardingStore {
 public:
  ThrottledStore(cairn::StorePtr base, double rate)
      : ForwardingStore(std::move(base)), throttle_(rate) {}
  void write(std::string_view key, ByteView value) override {
    throttle_.pass(value.size());
    ForwardingStore::write(key, value);
  }
  std::unique_ptr<cairn::Appender> append(std::string_view key) override {
    return std::make_unique<ThrottledAppender>(ForwardingStore::append(key), throttle_);
  }

 private:
  Throttle throttle_;
};

// Numbers distributed like trained weights, as bfloat16.
Bytes weights() {
  Bytes out(kArray);
  std::mt19937_64 bits(1);
  std::normal_distribution<float> normal(0, 0.02F);
  for (std::size_t at = 0; at < out.size(); at += 2) {
    const float value = normal(bits);
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    const auto upper = static_cast<std::uint16_t>(word >> 16U);
    std::memcpy(out.data() + at, &upper, sizeof(upper));
  }
  return out;
}

double save(const std::string& folder, double rate,
            const std::vector<const cairn::StoreArray*>& arrays, cairn::Compression compression) {
  fs::remove_all(folder);
  cairn::Executor& executor = cairn::default_executor();
  cairn::zarr::CompressionChoice choice(executor.threads(), {});
  cairn::handlers::ArrayWriteOptions options;
  options.compression = compression;
  if (compression == cairn::Compression::kAuto) options.choice = &choice;
  const auto start = Clock::now();
  cairn::handlers::ArrayWriter writer(arrays, options);
  cairn::ocdbt::WriterOptions database;
  database.config.emplace();
  cairn::ocdbt::DatabaseSink sink(
      std::make_shared<ThrottledStore>(cairn::open_file_store(folder, cairn::Durability::kSynced),
                                       rate),
      std::move(database));
  writer.write(sink, {});
  sink.commit();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (options.choice != nullptr) {
    const cairn::CompressionReport report = choice.report();
    fmt::print("  {} MB compressed, {} MB as is: {}\n", report.compressed_bytes / 1'000'000,
               (report.raw_bytes + report.incompressible_bytes) / 1'000'000, report.reason);
  }
  fs::remove_all(folder);
  return seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(const std::string& folder, double rate, std::uint64_t bytes, int rounds) {
  // All arrays share their elements: each is a chunk of its own, so no encoder sees them twice.
  const Bytes data = weights();
  std::vector<cairn::StoreArray> arrays;
  for (std::uint64_t at = 0; at < bytes; at += kArray) {
    cairn::StoreArray& array = arrays.emplace_back();
    array.name = fmt::format("w{}", arrays.size());
    array.dtype = array.source_dtype = cairn::DType::kBfloat16;
    array.shape = {static_cast<std::int64_t>(kArray / 2048), 1024};
    array.data = data.data();
  }
  std::vector<const cairn::StoreArray*> pointers;
  pointers.reserve(arrays.size());
  for (const cairn::StoreArray& array : arrays) pointers.push_back(&array);
  std::vector<double> to_none, to_zstd, to_better;
  for (int round = 0; round < rounds; ++round) {
    const double none = save(folder, rate, pointers, cairn::Compression::kNone);
    const double automatic = save(folder, rate, pointers, cairn::Compression::kAuto);
    const double zstd = save(folder, rate, pointers, cairn::Compression::zstd(1));
    fmt::print("none {:.2f} s, auto {:.2f} s, zstd:1 {:.2f} s\n", none, automatic, zstd);
    std::fflush(stdout);
    to_none.push_back(automatic / none);
    to_zstd.push_back(automatic / zstd);
    to_better.push_back(automatic / std::min(none, zstd));
  }
  fmt::print("auto / none {:.2f}, auto / zstd:1 {:.2f}, auto / better {:.2f}\n", median(to_none),
             median(to_zstd), median(to_better));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) throw std::invalid_argument("expected FOLDER RATE BYTES ROUNDS");
  run(argv[1], std::stod(argv[2]), std::stoull(argv[3]), std::stoi(argv[4]));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "throttled_bench: {}\n", error.what());
  return 1;
}
