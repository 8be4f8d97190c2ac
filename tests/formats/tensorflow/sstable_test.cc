// sstable_test.cc -- tables that LevelDB wrote, in every way it can; damaged ones; and hostile ones
// whose checksums fit.
#include <cairn/formats/tensorflow/index/sstable.h>
#include <gmock/gmock.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "tests/formats/golden.h"
#include "tests/formats/raw/raw_table.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::block_contents;
using testing::FailsWith;
using testing::handle_bytes;
using testing::put_entry;
using testing::RawHandle;
using testing::RawTable;
using testing::TempDir;

using Entries = std::vector<std::pair<std::string, std::string>>;

Entries entries_of(ByteView table) {
  Entries found;
  const auto read = [&](std::uint64_t offset, MutableByteView out) {
    ASSERT_LE(offset + out.size(), table.size()) << "lengths are checked before they are believed";
    std::memcpy(out.data(), table.data() + offset, out.size());
  };
  read_sstable(table.size(), read, [&](std::string_view key, ByteView value) {
    found.emplace_back(key, as_text(value));
  });
  return found;
}

Bytes written_by_leveldb(const TempDir& dir, const std::map<std::string, std::string>& items,
                         const leveldb::Options& options) {
  leveldb::WritableFile* opened = nullptr;
  EXPECT_TRUE(leveldb::Env::Default()->NewWritableFile((dir.path() + "/table"), &opened).ok());
  const std::unique_ptr<leveldb::WritableFile> file(opened);
  leveldb::TableBuilder builder(options, file.get());
  for (const auto& [key, value] : items) builder.Add(key, value);
  EXPECT_TRUE(builder.Finish().ok());
  EXPECT_TRUE(file->Close().ok());
  return read_file((dir.path() + "/table"));
}

Entries read_by_leveldb(const std::string& path) {
  leveldb::RandomAccessFile* opened = nullptr;
  EXPECT_TRUE(leveldb::Env::Default()->NewRandomAccessFile(path, &opened).ok());
  const std::unique_ptr<leveldb::RandomAccessFile> file(opened);
  leveldb::Table* table = nullptr;
  EXPECT_TRUE(leveldb::Table::Open({}, file.get(), std::filesystem::file_size(path), &table).ok());
  const std::unique_ptr<leveldb::Table> owned(table);
  const std::unique_ptr<leveldb::Iterator> at(table->NewIterator({}));
  Entries found;
  for (at->SeekToFirst(); at->Valid(); at->Next())
    found.emplace_back(at->key().ToString(), at->value().ToString());
  return found;
}

std::map<std::string, std::string> random_items(std::mt19937& random) {
  const auto bytes = [&](std::size_t most) {
    std::string text(random() % (most + 1), '\0');
    for (char& c : text) c = static_cast<char>(random() % 4 == 0 ? random() : 'a' + random() % 3);
    return text;
  };
  std::map<std::string, std::string> items;
  for (std::size_t i = 0, n = random() % 400; i < n; ++i)
    items[bytes(12)] = bytes(random() % 20 == 0 ? 2000 : 40);
  return items;
}

TEST(Sstable, ReadsWhatLevelDbWrites) {
  std::mt19937 random(11);
  const TempDir dir;
  for (int round = 0; round < 150; ++round) {
    leveldb::Options options;
    options.block_size = std::array<std::size_t, 4>{1, 200, 4096, 262144}[random() % 4];
    options.block_restart_interval = std::array<int, 3>{1, 16, 64}[random() % 3];
    options.compression = random() % 2 == 0 ? leveldb::kSnappyCompression : leveldb::kNoCompression;
    const auto items = random_items(random);
    EXPECT_EQ(entries_of(written_by_leveldb(dir, items, options)),
              Entries(items.begin(), items.end()))
        << "round " << round;
  }
}

TEST(Sstable, ReadsTensorFlowsAsLevelDbDoes) {
  for (const char* name : {"types", "slices"}) {
    const std::string path =
        testing::golden("tensorflow/tensorflow-2.21.0/" + std::string(name) + ".index");
    EXPECT_EQ(entries_of(read_file(path)), read_by_leveldb(path));
  }
}

TEST(Sstable, NoticesEveryDamagedBit) {
  const Bytes table = read_file(testing::golden("tensorflow/tensorflow-2.21.0/slices.index"));
  testing::for_each_bit_flip(table, [](ByteView bad, const std::string& what) {
    EXPECT_THAT([&] { entries_of(bad); }, FailsWith(Code::kDataLoss, "")) << what;
  });
  testing::for_each_truncation(table, [](ByteView bad, const std::string& what) {
    EXPECT_THAT([&] { entries_of(bad); }, FailsWith(Code::kDataLoss, "")) << what;
  });
}

Bytes bytes(std::string_view text) { return testing::to_bytes(as_bytes(text)); }

// A table of one data block with these contents.
Bytes table_with(ByteView contents, std::uint8_t type = 0, std::string_view separator = "z") {
  RawTable table;
  const RawHandle block = table.add_block(contents, type);
  const RawHandle meta = table.add_block(block_contents({}));
  ByteWriter index;
  put_entry(index, 0, separator, handle_bytes(block));
  return table.finish(meta, table.add_block(block_contents(index.view())));
}

Bytes table_with_index(const std::function<void(ByteWriter&, const RawHandle&)>& put_index) {
  RawTable table;
  ByteWriter data;
  put_entry(data, 0, "k", bytes("v"));
  const RawHandle block = table.add_block(block_contents(data.view()));
  const RawHandle meta = table.add_block(block_contents({}));
  ByteWriter index;
  put_index(index, block);
  return table.finish(meta, table.add_block(block_contents(index.view())));
}

TEST(Sstable, RefusesWhatNoWriterWrites) {
  const auto refuses = [](const Bytes& table, const char* text) {
    EXPECT_THAT([&] { entries_of(table); }, FailsWith(Code::kDataLoss, text)) << text;
  };
  const auto entries = [](const std::function<void(ByteWriter&)>& put) {
    ByteWriter out;
    put(out);
    return std::move(out).take();
  };
  const Bytes one = entries([](ByteWriter& out) { put_entry(out, 0, "k", bytes("v")); });
  EXPECT_EQ(entries_of(table_with(block_contents(one))), (Entries{{"k", "v"}}))
      << "the undamaged table";

  refuses(bytes("short"), "are too few for a table");
  refuses(Bytes(48, std::byte{0}), "magic number");
  refuses(RawTable().finish({~std::uint64_t{0} - 3, 4}, {0, 0}), "is not inside the table");
  refuses(RawTable().finish({0, ~std::uint64_t{0}}, {0, 0}), "is not inside the table");
  refuses(RawTable().finish({0, 0}, {0, 0}), "is not inside the table");
  refuses(table_with(block_contents(one), 7), "of type 7");
  refuses(table_with(block_contents(one), 1), "snappy");
  refuses(table_with(bytes("\xff\xff\xff\xff\x0f")), "restarts");
  refuses(table_with(bytes("\xff\xff\xff\xff\x07"), 1),
          "decodes to more than the expected 67108864 bytes");
  refuses(table_with(bytes("\xff\xff\xff\x1f"), 1), "cannot decode");
  refuses(table_with(block_contents({})), "has no entries");
  refuses(table_with(block_contents(one, {})), "0 restarts");
  refuses(table_with(block_contents(one, {0, 1})), "restart");
  refuses(table_with(block_contents(one, {0, 0})), "restarts do not");
  refuses(table_with(block_contents(one, {1})), "restarts do not");
  refuses(table_with(block_contents(one, {0, 0xfffffff0U})),
          "a restart does not point to an entry");
  refuses(table_with(block_contents(entries(
              [](ByteWriter& out) { out.varint(0).varint(1).varint(0xffffffffU).text("k"); }))),
          "unexpected end");
  refuses(table_with(block_contents(entries(
              [](ByteWriter& out) { out.varint(0).varint(0xffffffffU).varint(0).text("k"); }))),
          "unexpected end");
  refuses(table_with(block_contents(entries(
              [](ByteWriter& out) { put_entry(out, 0, "k", {}), put_entry(out, 2, "k", {}); }))),
          "shares 2 bytes");
  const auto twice = [&](const char* first, const char* second) {
    return block_contents(entries([&](ByteWriter& out) {
      put_entry(out, 0, first, {});
      put_entry(out, 0, second, {});
    }));
  };
  refuses(table_with(twice("b", "a")), "do not increase");
  refuses(table_with(twice("a", "a")), "do not increase");
  refuses(table_with(twice("a", "b"), 0, "a"), "greater than its index entry");

  refuses(table_with_index([](ByteWriter& out, const RawHandle& block) {
            put_entry(out, 0, "k", handle_bytes({block.offset, block.size + 1000}));
          }),
          "is not inside the table");
  refuses(table_with_index([](ByteWriter& out, const RawHandle& block) {
            put_entry(out, 0, "k", handle_bytes({block.offset + 1, block.size}));
          }),
          "checksum");
  refuses(table_with_index(
              [](ByteWriter& out, const RawHandle&) { put_entry(out, 0, "k", bytes("\x80")); }),
          "unexpected end");
  refuses(table_with_index([](ByteWriter& out, const RawHandle&) {
            put_entry(out, 0, "k", bytes(std::string_view("\0\0\0", 3)));
          }),
          "");
  // the same block again and again
  refuses(table_with_index([](ByteWriter& out, const RawHandle& block) {
            put_entry(out, 0, "k", handle_bytes(block));
            put_entry(out, 0, "l", handle_bytes(block));
          }),
          "do not increase");
}

}  // namespace
}  // namespace cairn
