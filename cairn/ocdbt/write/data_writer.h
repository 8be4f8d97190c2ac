// data_writer.h -- appends values and nodes to new data files.
#pragma once

#include <cairn/ocdbt/write/entries.h>
#include <cairn/storage/kvstore.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::ocdbt {

// Options of a DataWriter.
struct DataWriterOptions {
  std::string prefix;             // prefix of the file names
  std::uint64_t target_size = 0;  // a file that has reached this size is finished; 0: no limit
  // file names derive from `seed` and `number`; nullopt: they are random
  std::optional<std::uint64_t> seed;
  std::uint64_t number = 0;  // distinguishes writers with the same seed
  std::uint64_t memory = 0;  // as of limit_memory(); 0: no limit is set
};

// Writes data files one after the other. Use it from one thread at a time. A file appears in its
// store only when it is finished.
class DataWriter {
 public:
  DataWriter(StorePtr base, FileSet& files, DataWriterOptions options);

  // The location of appended bytes.
  struct Place {
    std::uint32_t file = 0;  // number in the FileSet
    std::uint64_t offset = 0;
  };
  // Appends the parts and returns their location. Gathers small parts in memory; passes large ones
  // to the store without a copy. `end`, if not null, is called before the last part is read.
  Place append(std::span<const ByteView> parts, const std::function<void()>& end = nullptr);
  Place append(ByteView bytes) { return append({&bytes, 1}); }

  // Returns whether a file has been begun and not finished.
  [[nodiscard]] bool is_open() const { return appender_ != nullptr; }
  [[nodiscard]] const std::string& prefix() const { return options_.prefix; }
  // Makes the current file durable. The next append begins another file.
  void finish();
  // Returns the keys of all finished files.
  [[nodiscard]] const std::vector<std::string>& finished() const { return finished_; }

 private:
  // Begins a new file.
  void begin();
  // Passes the gathered bytes and then `more` to the store.
  void flush(std::span<const ByteView> more);

  StorePtr base_;
  FileSet& files_;
  DataWriterOptions options_;
  std::unique_ptr<Appender> appender_;
  std::string key_;
  std::uint32_t file_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t begun_ = 0;  // number of files begun so far
  Bytes gathered_;
  std::vector<std::string> finished_;
};

// Return 16 random bytes, or 16 bytes derived from the numbers.
std::array<std::uint8_t, 16> random_id();
std::array<std::uint8_t, 16> seeded_id(std::uint64_t seed, std::uint64_t number,
                                       std::uint64_t index);

}  // namespace cairn::inline v0::ocdbt
