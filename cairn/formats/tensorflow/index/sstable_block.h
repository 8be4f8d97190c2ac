// sstable_block.h -- the parts of a sorted table (drawn in sstable.h): its footer, the places of
// its blocks, and the entries of a block.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/formats/tensorflow/index/sstable.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0 {

inline constexpr std::uint64_t kSstableFooter = 48;
// Bytes behind the contents of a block: its type and checksum.
inline constexpr std::uint64_t kSstableTrailer = 5;
// TensorFlow ends a block at a quarter of a megabyte; only a larger entry makes a larger block.
inline constexpr std::uint64_t kMaxSstableBlock = std::uint64_t{64} << 20U;

// The location of a block; the trailer follows it.
struct SstableHandle {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  [[nodiscard]] std::uint64_t end() const { return offset + size + kSstableTrailer; }
};
// Reads a handle. Throws data_loss unless the block lies before `end`.
SstableHandle take_sstable_handle(ByteReader& in, std::uint64_t end);

struct SstableFooter {
  SstableHandle meta, index;
};
// Throws data_loss if the table does not end with a valid footer.
SstableFooter read_sstable_footer(std::uint64_t size, const SstableReadFn& read);

// The contents of a block, not compressed. Throws data_loss unless its checksum is right.
Bytes read_sstable_block(const SstableHandle& handle, const SstableReadFn& read);

// The entries of one block, in order. Throws data_loss for malformed ones.
class SstableEntries {
 public:
  // `contents` must outlive this object.
  explicit SstableEntries(ByteView contents);

  // Moves to the next entry; returns false at the end.
  bool next();
  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] ByteView value() const { return value_; }

 private:
  // Restarts tell where a key is stored in full. A sequential reader does not need them, but checks
  // that they are right.
  std::vector<std::uint32_t> restarts_;
  std::size_t restart_ = 0;  // the next expected restart
  ByteReader in_;
  std::string key_;
  ByteView value_;
};

}  // namespace cairn::inline v0
