// sstable_fuzz.cc -- reads any bytes as a table, and as the contents of a block with a valid
// checksum. The keys of an accepted table must increase.
#include <cairn/error.h>
#include <cairn/formats/tensorflow/index/sstable.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "tests/formats/raw/raw_table.h"

namespace {

void read(cairn::ByteView table) {
  std::optional<std::string> last;
  const auto read_at = [&](std::uint64_t offset, cairn::MutableByteView out) {
    if (offset > table.size() || out.size() > table.size() - offset) std::abort();
    std::memcpy(out.data(), table.data() + offset, out.size());
  };
  try {
    cairn::read_sstable(table.size(), read_at, [&](std::string_view key, cairn::ByteView) {
      if (last && key <= *last) std::abort();
      last = key;
    });
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
