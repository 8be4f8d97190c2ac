// sstable_fuzz.cc -- reads any bytes as a table, and as the contents of a block with a valid
// checksum. The keys of an accepted table must increase, also those of what is left of a damaged
// one. Of a table that is accepted, everything is left.
#include <cairn/error.h>
#include <cairn/formats/tensorflow/index/sstable_salvage.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/formats/raw/raw_table.h"

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

// A function that collects entries and aborts if the keys do not increase.
auto collect(Entries& entries) {
  return [&entries](std::string_view key, cairn::ByteView value) {
    if (!entries.empty() && key <= entries.back().first) std::abort();
    entries.emplace_back(key, cairn::as_text(value));
  };
}

void read(cairn::ByteView table) {
  const auto read_at = [&](std::uint64_t offset, cairn::MutableByteView out) {
    if (offset > table.size() || out.size() > table.size() - offset) std::abort();
    if (!out.empty()) std::memcpy(out.data(), table.data() + offset, out.size());
  };
  Entries all, left;
  const cairn::SstableRemains remains =
      cairn::salvage_sstable(table.size(), read_at, collect(left));
  try {
    cairn::read_sstable(table.size(), read_at, collect(all));
    // Only a writer that does not write from front to back puts blocks in another order.
    if (remains.why_no_index.empty() && (!remains.lost.empty() || all != left)) std::abort();
  } catch (const cairn::Error& e) {
    if (e.code() != cairn::Code::kDataLoss) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace testing = cairn::testing;
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  read(bytes);
  // The first byte is the block type. The rest serves as the data block, then as the index block.
  if (size == 0) return 0;
  for (const bool is_index : {false, true}) {
    testing::RawTable table;
    cairn::ByteWriter index;
    const testing::RawHandle block = table.add_block(bytes.subspan(1), data[0] & 1U);
    testing::put_entry(index, 0, "\xff\xff\xff\xff", testing::handle_bytes(block));
    const testing::RawHandle meta = table.add_block(testing::block_contents({}));
    const testing::RawHandle blocks =
        is_index ? block : table.add_block(testing::block_contents(index.view()));
    read(std::move(table).finish(meta, blocks));
  }
  return 0;
}
