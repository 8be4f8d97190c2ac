// sstable_salvage.h -- reads the entries of the whole blocks of a damaged table.
//
// Each block has a checksum. If the footer and the index block are whole, they tell where the
// blocks are. Otherwise the blocks themselves do: a raw block ends with a table of restarts, which
// has a recognisable form, and its checksum tells where it begins.
#pragma once

#include <cairn/formats/tensorflow/index/sstable.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Bytes of a table in which entries are lost.
struct LostSstableBytes {
  std::uint64_t begin = 0, end = 0;
  std::string why;
};
struct SstableRemains {
  std::vector<LostSstableBytes> lost;  // in order; empty: no entry is lost
  // Why the footer or the index block cannot be read; "" if they can.
  std::string why_no_index;
};

// Calls `entry` for all entries of the blocks whose checksums are right, ordered by key. Throws
// data_loss for no damage: it returns what is lost. Exceptions of `read` and `entry` pass.
//
// Without an index block, blocks that are compressed are lost, and so is what lies behind the first
// 256 MiB of the table. Memory: then the table, else as read_sstable(). Time: linear in the size of
// the table; a table made to look like many blocks is not searched to its end.
SstableRemains salvage_sstable(
    std::uint64_t size, const SstableReadFn& read,
    const std::function<void(std::string_view key, ByteView value)>& entry);

}  // namespace cairn::inline v0
