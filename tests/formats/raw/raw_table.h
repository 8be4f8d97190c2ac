// raw_table.h -- LevelDB tables made by hand, so that they can hold what no writer would write,
// under checksums that fit.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/tensorflow/index/sstable.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::testing {

// Reads a table in memory, which must outlive it; it never ends behind the table, as readers have
// checked what they ask for.
inline SstableReadFn reader_of(ByteView table) {
  return [table](std::uint64_t offset, MutableByteView out) {
    if (offset > table.size() || out.size() > table.size() - offset) std::abort();
    std::ranges::copy(table.subspan(offset, out.size()), out.begin());
  };
}

struct RawHandle {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

inline Bytes handle_bytes(const RawHandle& handle) {
  ByteWriter out;
  out.varint(handle.offset).varint(handle.size);
  return std::move(out).take();
}

inline void put_entry(ByteWriter& out, std::uint64_t shared, std::string_view rest,
                      ByteView value) {
  out.varint(shared).varint(rest.size()).varint(value.size()).text(rest).bytes(value);
}

inline Bytes block_contents(ByteView entries, const std::vector<std::uint32_t>& restarts = {0}) {
  ByteWriter out;
  out.bytes(entries);
  for (const std::uint32_t restart : restarts) out.u32(restart);
  out.u32(static_cast<std::uint32_t>(restarts.size()));
  return std::move(out).take();
}

// A table under construction: blocks, then the footer.
class RawTable {
 public:
  // Contents of whatever type they claim to be, with the checksum that fits.
  RawHandle add_block(ByteView contents, std::uint8_t type = 0) {
    const RawHandle handle{out_.size(), contents.size()};
    ByteWriter block;
    block.bytes(contents).u8(type);
    out_.bytes(block.view()).u32(crc32c_masked(crc32c(block.view())));
    return handle;
  }
  Bytes finish(const RawHandle& meta, const RawHandle& index) {
    ByteWriter footer;
    footer.bytes(handle_bytes(meta)).bytes(handle_bytes(index));
    while (footer.size() < 40) footer.u8(0);
    out_.bytes(footer.view()).u64(0xdb4775248b80fb57U);
    return std::move(out_).take();
  }

 private:
  ByteWriter out_;
};

// A sound table of one data block.
inline Bytes table_of(const std::vector<std::pair<std::string, Bytes>>& entries) {
  ByteWriter data;
  std::vector<std::uint32_t> restarts;
  for (const auto& [key, value] : entries) {
    restarts.push_back(static_cast<std::uint32_t>(data.size()));
    put_entry(data, 0, key, value);
  }
  RawTable table;
  const RawHandle block = table.add_block(block_contents(data.view(), restarts));
  const RawHandle meta = table.add_block(block_contents({}));
  ByteWriter index;
  put_entry(index, 0, entries.back().first, handle_bytes(block));
  return table.finish(meta, table.add_block(block_contents(index.view())));
}

}  // namespace cairn::testing
