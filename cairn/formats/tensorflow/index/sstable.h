// sstable.h -- LevelDB's sorted table, which TensorFlow uses for its index. The reader trusts no
// length in it.
//
//   [data block]... [metaindex block] [index block] [footer]
//
//   block     contents | u8 type: 0 raw, 1 snappy | u32 masked crc32c of both
//   contents  entries | u32 restart offset, for each restart | u32 number of restarts
//   entry     varint shared | varint non_shared | varint value_size | key[shared:] | value
//             shared: how many bytes of the key before this key begins with
//   footer    handle of the metaindex | handle of the index | zeros up to byte 40
//             | u64 0xdb4775248b80fb57
//   handle    varint offset | varint size (without type and checksum)
//
// The index block has an entry for each data block. Its key is not less than the last key of that
// block and less than the first key of the next block; its value is the block's handle.
#pragma once

#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {

// The last eight bytes of the file.
inline constexpr std::uint64_t kSstableMagic = 0xdb4775248b80fb57U;
// The type of a block that is not compressed.
inline constexpr std::uint8_t kRawBlock = 0;

// Fills all of its second argument with the table's bytes from an offset on. The caller has checked
// that they lie inside the table.
using SstableReadFn = std::function<void(std::uint64_t, MutableByteView)>;

// Calls `entry` for all entries, ordered by the bytes of their keys. The views are valid during the
// call only. Throws data_loss, naming the byte, for everything that a valid table cannot have:
// lengths and handles beyond the file, checksums that do not match, keys that do not increase,
// blocks without entries. Memory: one block at a time, and the index; a decoded block is at most 22
// times its stored size.
void read_sstable(std::uint64_t size, const SstableReadFn& read,
                  const std::function<void(std::string_view key, ByteView value)>& entry);

// The first entry of a table. Reads one block. Throws as read_sstable().
std::optional<std::pair<std::string, Bytes>> first_sstable_entry(std::uint64_t size,
                                                                 const SstableReadFn& read);

// Whether the file ends with the magic number of such a table.
bool is_sstable(const File& file);
bool is_sstable(const FileTree& tree, const std::string& path);

}  // namespace cairn::inline v0
