// data_writer.h -- appends values and nodes to data files of its own.
#pragma once

#include <cairn/kvstore.h>
#include <cairn/ocdbt/write/entries.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::ocdbt {

struct DataWriterOptions {
  std::string prefix;             // of the files' names
  std::uint64_t target_size = 0;  // a file that has reached it is done; 0: no limit
  // names follow from it and from `number`; else they are random
  std::optional<std::uint64_t> seed;
  std::uint64_t number = 0;  // tells writers of one seed apart
};

// For one thread at a time. A file is in its store only when it is finished.
class DataWriter {
 public:
  DataWriter(StorePtr base, FileSet& files, DataWriterOptions options);

  struct Place {
    std::uint32_t file = 0;  // number in the FileSet
    std::uint64_t offset = 0;
  };
  // Small parts are gathered in memory; large ones go to the store from where they are.
  Place append(std::span<const ByteView> parts);
  Place append(ByteView bytes) { return append({&bytes, 1}); }

  // Whether a file is begun and not finished.
  [[nodiscard]] bool is_open() const { return appender_ != nullptr; }
  [[nodiscard]] const std::string& prefix() const { return options_.prefix; }
  // Makes the file durable. The next append begins another one.
  void finish();
  // The keys of all files that have been finished.
  [[nodiscard]] const std::vector<std::string>& finished() const { return finished_; }

 private:
  void begin();
  void flush(std::span<const ByteView> more);

  StorePtr base_;
  FileSet& files_;
  DataWriterOptions options_;
  std::unique_ptr<Appender> appender_;
  std::string key_;
  std::uint32_t file_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t begun_ = 0;  // files so far
  Bytes gathered_;
  std::vector<std::string> finished_;
};

// 16 random bytes, or such as follow from the numbers.
std::array<std::uint8_t, 16> random_id();
std::array<std::uint8_t, 16> seeded_id(std::uint64_t seed, std::uint64_t number,
                                       std::uint64_t index);

}  // namespace cairn::ocdbt
