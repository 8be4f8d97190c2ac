// sstable_writer.h -- LevelDB's sorted table (drawn in sstable.h), written to a file as it comes:
// the bytes that TensorFlow writes.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/io/file.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// What a block is made of. Entries share the beginnings of their keys with the entry before, but at
// restarts.
class SstableBlock {
 public:
  explicit SstableBlock(std::size_t restart_interval) : restart_interval_(restart_interval) {}

  // The key must be greater than the last one's.
  void add(std::string_view key, ByteView value);
  [[nodiscard]] bool empty() const { return entries_.size() == 0; }
  [[nodiscard]] const std::string& last_key() const { return last_key_; }
  // Bytes of the contents.
  [[nodiscard]] std::size_t size() const { return entries_.size() + 4 * restarts_.size() + 4; }
  // The contents; the block is empty then.
  Bytes finish();

 private:
  std::size_t restart_interval_;
  ByteWriter entries_;
  std::vector<std::uint32_t> restarts_ = {0};
  std::size_t since_restart_ = 0;
  std::string last_key_;
};

struct SstableOptions {
  std::size_t block_bytes = 262'144;  // a data block ends with the entry that reaches this
  std::size_t restart_interval = 16;
  // As TensorFlow does: an entry of at least twice a block's bytes begins a block of its own.
  bool large_entries_apart = true;
};

// A table, uncompressed. Memory: a block, and an index entry for each.
class SstableWriter {
 public:
  // Appends to `file`, which outlives it and is empty.
  explicit SstableWriter(AtomicFile& file, const SstableOptions& options = {})
      : file_(file), options_(options) {}

  // Throws invalid_argument if the key is not greater than the one before, or if key or value has 4
  // GiB.
  void add(std::string_view key, ByteView value);
  // Everything that is behind the data; nothing can be added then.
  void finish();

 private:
  struct Handle {
    std::uint64_t offset = 0, size = 0;
  };
  Handle write_block(const Bytes& contents);
  void end_block();
  void index_block(std::string_view separator);

  AtomicFile& file_;
  SstableOptions options_;
  SstableBlock data_{options_.restart_interval};
  SstableBlock index_{1};
  // the last data block, that waits for the next key to be told apart from
  std::optional<Handle> ended_;
  bool any_ = false;
  std::string last_key_;
};

}  // namespace cairn
