// sstable_salvage_test.cc -- damaged tables: every entry of an untouched block comes back, and no
// other.
#include <cairn/formats/tensorflow/index/sstable_block.h>
#include <cairn/formats/tensorflow/index/sstable_salvage.h>
#include <cairn/formats/tensorflow/index/sstable_writer.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <random>

#include "tests/formats/raw/raw_table.h"
#include "tests/support/damage.h"

namespace cairn {
namespace {

using testing::block_contents;
using testing::handle_bytes;
using ::testing::IsEmpty;
using testing::put_entry;
using testing::RawHandle;
using testing::RawTable;
using testing::reader_of;
using ::testing::SizeIs;

using Entries = std::vector<std::pair<std::string, std::string>>;

struct SalvagedEntries {
  Entries entries;
  SstableRemains remains;
};

SalvagedEntries salvage_table(ByteView table) {
  SalvagedEntries out;
  out.remains = salvage_sstable(
      table.size(), reader_of(table),
      [&](std::string_view key, ByteView value) { out.entries.emplace_back(key, as_text(value)); });
  return out;
}

// A block and its entries.
struct SampleBlock {
  std::uint64_t begin = 0, end = 0;
  Entries entries;
};

// A table as a writer makes it, and where its blocks are.
struct SampleTable {
  Bytes table;
  std::vector<SampleBlock> blocks;
};

// Values like the messages of an index, with runs of zeros.
SampleTable sample_table(std::size_t entries, std::size_t block_bytes,
                         std::size_t restart_interval) {
  std::mt19937 random(static_cast<unsigned>(entries + block_bytes));
  std::map<std::string, std::string> items;
  for (std::size_t i = 0; i < entries; ++i) {
    std::string value("\x08\x01\x12\x00", 4);
    value.append(random() % 12, static_cast<char>(random() % 3 == 0 ? random() : 0));
    items["layer" + std::to_string(random() % 1000) + "/kernel"] = value;
  }
  items[""] = std::string("\x08\x01\x1a\x02\x08\x01", 6);
  MemoryTarget file;
  SstableWriter writer(file, {.block_bytes = block_bytes, .restart_interval = restart_interval});
  for (const auto& [key, value] : items) writer.add(key, as_bytes(value));
  writer.finish();
  SampleTable out;
  out.table = file.bytes();
  const auto read = reader_of(out.table);
  const Bytes index = read_sstable_block(read_sstable_footer(out.table.size(), read).index, read);
  for (SstableEntries handles{ByteView(index)}; handles.next();) {
    ByteReader in(handles.value());
    const SstableHandle handle = take_sstable_handle(in, out.table.size());
    SampleBlock& block = out.blocks.emplace_back(SampleBlock{handle.offset, handle.end(), {}});
    const Bytes contents = read_sstable_block(handle, read);
    for (SstableEntries all{ByteView(contents)}; all.next();)
      block.entries.emplace_back(all.key(), as_text(all.value()));
  }
  return out;
}

bool is_touched(const SampleTable& whole, const SampleBlock& block, ByteView bad) {
  return bad.size() < block.end ||
         !std::equal(bad.begin() + static_cast<std::ptrdiff_t>(block.begin),
                     bad.begin() + static_cast<std::ptrdiff_t>(block.end),
                     whole.table.begin() + static_cast<std::ptrdiff_t>(block.begin));
}

// The entries of the blocks that are as they were.
Entries untouched_entries(const SampleTable& whole, ByteView bad) {
  Entries entries;
  for (const SampleBlock& block : whole.blocks)
    if (!is_touched(whole, block, bad))
      entries.insert(entries.end(), block.entries.begin(), block.entries.end());
  return entries;
}

// Checks that exactly the blocks that were touched lie in bytes that are reported as lost.
void expect_lost(const SampleTable& whole, ByteView bad, const SstableRemains& remains) {
  for (const SampleBlock& block : whole.blocks) {
    const bool is_lost = std::ranges::any_of(remains.lost, [&](const LostSstableBytes& lost) {
      return lost.begin <= block.begin &&
             std::min<std::uint64_t>(block.end, bad.size()) <= lost.end;
    });
    ASSERT_EQ(is_lost, is_touched(whole, block, bad)) << "the block at byte " << block.begin;
  }
}

std::vector<SampleTable> sample_tables() {
  return {sample_table(3, 4096, 16), sample_table(60, 4096, 16), sample_table(60, 100, 16),
          sample_table(40, 300, 2), sample_table(20, 1, 1)};
}

TEST(SstableSalvage, LosesNothingOfAWholeTable) {
  for (const SampleTable& whole : sample_tables()) {
    const SalvagedEntries found = salvage_table(whole.table);
    EXPECT_EQ(found.entries, untouched_entries(whole, whole.table));
    EXPECT_THAT(found.remains.lost, IsEmpty());
    EXPECT_EQ(found.remains.why_no_index, "");
  }
}

TEST(SstableSalvage, GivesTheBlocksThatABitFlipLeaves) {
  for (const SampleTable& whole : sample_tables()) {
    std::uint64_t bit = 0;
    testing::for_each_bit_flip(whole.table, [&](ByteView bad, const std::string& what) {
      const std::uint64_t at = bit++ / 8;
      const SalvagedEntries found = salvage_table(bad);
      ASSERT_EQ(found.entries, untouched_entries(whole, bad)) << what;
      const bool is_data = at < whole.blocks.back().end;
      ASSERT_THAT(found.remains.lost, SizeIs(is_data ? 1 : 0)) << what;
    });
  }
}

TEST(SstableSalvage, GivesTheBlocksBeforeTheEndOfATruncatedTable) {
  for (const SampleTable& whole : sample_tables())
    testing::for_each_truncation(whole.table, [&](ByteView bad, const std::string& what) {
      const SalvagedEntries found = salvage_table(bad);
      ASSERT_EQ(found.entries, untouched_entries(whole, bad)) << what;
      ASSERT_NE(found.remains.why_no_index, "") << what;
      if (bad.size() < whole.blocks.back().end) {
        ASSERT_THAT(found.remains.lost, SizeIs(1)) << what;
      }
    });
}

TEST(SstableSalvage, FindsBlocksBehindDamageWithoutAnIndex) {
  std::mt19937 random(5);
  for (const SampleTable& whole : sample_tables())
    for (int round = 0; round < 300; ++round) {
      Bytes bad = whole.table;
      // The index block ends 48 bytes before the end of the table.
      bad[bad.size() - 50] ^= std::byte{1};
      const std::uint64_t data_end = whole.blocks.back().end;
      const std::uint64_t begin = random() % data_end;
      const std::uint64_t end =
          begin + 1 + random() % std::min<std::uint64_t>(600, data_end - begin);
      const auto kind = random() % 3;
      for (std::uint64_t at = begin; at < end; ++at)
        bad[at] =
            kind == 0 ? std::byte{0} : static_cast<std::byte>(random() % (kind == 1 ? 256 : 2));
      bad[begin] = whole.table[begin] ^ std::byte{0x55};
      const SalvagedEntries found = salvage_table(bad);
      ASSERT_EQ(found.entries, untouched_entries(whole, bad)) << "bytes " << begin << " to " << end;
      ASSERT_NO_FATAL_FAILURE(expect_lost(whole, bad, found.remains));
    }
}

Bytes bytes_of(std::string_view text) {
  const ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}

TEST(SstableSalvage, RefusesBlocksThatNoWriterWrites) {
  const Bytes value = bytes_of("v");
  const auto data = [&](std::string_view key) {
    ByteWriter out;
    put_entry(out, 0, key, value);
    return block_contents(out.view());
  };
  const auto finish = [](RawTable& table, const std::vector<RawHandle>& blocks) {
    ByteWriter index;
    std::vector<std::uint32_t> restarts;
    char key = '0';
    for (const RawHandle& block : blocks) {
      restarts.push_back(static_cast<std::uint32_t>(index.size()));
      put_entry(index, 0, std::string(1, ++key), handle_bytes(block));
    }
    const RawHandle meta = table.add_block(block_contents({}));
    return std::move(table).finish(meta, table.add_block(block_contents(index.view(), restarts)));
  };
  {
    RawTable table;
    const RawHandle b = table.add_block(data("b")), a = table.add_block(data("a"));
    const SalvagedEntries found = salvage_table(finish(table, {b, a}));
    EXPECT_EQ(found.entries, (Entries{{"b", "v"}})) << "keys increase";
    EXPECT_THAT(found.remains.lost, SizeIs(1));
  }
  {
    RawTable table;
    const RawHandle a = table.add_block(data("a"));
    const SalvagedEntries found = salvage_table(finish(table, {a, a, a}));
    EXPECT_EQ(found.entries, (Entries{{"a", "v"}})) << "no block counts twice";
    EXPECT_NE(found.remains.why_no_index, "");
  }
  {
    RawTable table;
    const RawHandle a = table.add_block(bytes_of("no block"));
    EXPECT_THAT(salvage_table(finish(table, {a})).entries, IsEmpty());
  }
  EXPECT_THAT(salvage_table({}).entries, IsEmpty());
}

TEST(SstableSalvage, EndsSoonForATableOfLikelyBlocks) {
  // Each 13 bytes may end a block that begins anywhere before.
  Bytes bad;
  const Bytes one = block_contents({});
  while (bad.size() < (std::size_t{8} << 20U)) {
    bad.insert(bad.end(), one.begin(), one.end());
    bad.resize(bad.size() + 5);
  }
  const std::clock_t start = std::clock();  // of the processor: other processes do not count
  const SalvagedEntries found = salvage_table(bad);
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 60);
  EXPECT_THAT(found.entries, IsEmpty());
  EXPECT_THAT(found.remains.lost, SizeIs(1));
}

}  // namespace
}  // namespace cairn
