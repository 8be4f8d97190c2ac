// sstable.h -- LevelDB's sorted table, as TensorFlow writes its index: read without believing any
// length in it.
//
//   [data block]... [metaindex block] [index block] [footer]
//   block     contents | u8 type: 0 raw, 1 snappy | u32 masked crc32c of both
//   contents  entries | u32 restart offset, for each restart | u32 number of restarts
//   entry     varint shared | varint non_shared | varint value_size | key[shared:] | value shared:
//   bytes taken from the key before footer    handle of the metaindex | handle of the index | zeros
//   up to byte 40 | u64 0xdb4775248b80fb57 handle    varint offset | varint size (without type and
//   checksum)
//
// The index block has an entry for each data block: a key not less than its last one and less than
// the next block's first, and its handle.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace cairn {

// Fills all of its second argument with the table's bytes from an offset on; that they lie inside
// it is checked before.
using SstableReadFn = std::function<void(std::uint64_t, MutableByteView)>;

// All entries in the order of their keys, which is that of their bytes. `entry` gets views that are
// good during the call. Throws data_loss, naming the byte, for whatever a table cannot have:
// lengths and handles beyond the file, checksums that do not fit, keys that do not increase, blocks
// without entries. Memory: a block at a time, and the index; decoded, at most 22 times what is
// stored.
void read_sstable(std::uint64_t size, const SstableReadFn& read,
                  const std::function<void(std::string_view key, ByteView value)>& entry);

// Whether the file ends as such a table does.
bool is_sstable(const std::string& path);

}  // namespace cairn
