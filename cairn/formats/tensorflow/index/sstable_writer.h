// sstable_writer.h -- writes LevelDB's sorted table (drawn in sstable.h) to a file, entry by entry.
// The output is byte-identical to TensorFlow's.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/io/byte_target.h>
#include <cairn/io/file.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Builds the contents of a block. An entry omits the bytes its key shares with the key before,
// except at restarts.
class SstableBlock {
 public:
  explicit SstableBlock(std::size_t restart_interval) : restart_interval_(restart_interval) {}

  // Appends an entry. The key must be greater than the last one.
  void add(std::string_view key, ByteView value);
  [[nodiscard]] bool empty() const { return entries_.size() == 0; }
  [[nodiscard]] const std::string& last_key() const { return last_key_; }
  // Bytes of the contents so far.
  [[nodiscard]] std::size_t size() const { return entries_.size() + 4 * restarts_.size() + 4; }
  // Returns the contents and leaves the block empty.
  Bytes finish();

 private:
  std::size_t restart_interval_;
  ByteWriter entries_;
  std::vector<std::uint32_t> restarts_ = {0};
  std::size_t since_restart_ = 0;
  std::string last_key_;
};

// Options of SstableWriter; the defaults are TensorFlow's.
struct SstableOptions {
  std::size_t block_bytes = 262'144;  // a data block ends with the entry that reaches this
  std::size_t restart_interval = 16;
  // As TensorFlow does: an entry of at least twice block_bytes begins a block of its own.
  bool large_entries_apart = true;
};

// Writes a table without compression. Memory: one block, and an index entry for each block.
class SstableWriter {
 public:
  // Appends to `file`, which must be empty and must outlive this object.
  explicit SstableWriter(ByteTarget& file, const SstableOptions& options = {})
      : file_(file), options_(options) {}

  // Throws invalid_argument if the key is not greater than the one before, or if the key or the
  // value has 2 GiB or more.
  void add(std::string_view key, ByteView value);
  // Writes everything that follows the data. No entry can be added afterwards.
  void finish();

 private:
  struct Handle {
    std::uint64_t offset = 0, size = 0;
  };
  Handle write_block(const Bytes& contents);
  // Writes the current data block; its index entry follows later.
  void end_block();
  // Adds the index entry of the last data block.
  void index_block(std::string_view separator);

  ByteTarget& file_;
  SstableOptions options_;
  SstableBlock data_{options_.restart_interval};
  SstableBlock index_{1};
  // the last data block; its index entry waits for the next key, which determines the separator
  std::optional<Handle> ended_;
  bool any_ = false;
  std::string last_key_;
};

}  // namespace cairn::inline v0
