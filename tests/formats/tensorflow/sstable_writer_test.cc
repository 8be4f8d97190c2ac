// sstable_writer_test.cc -- tables that are LevelDB's byte for byte, and where TensorFlow's are
// others, TensorFlow's.
#include <cairn/formats/tensorflow/index/sstable.h>
#include <cairn/formats/tensorflow/index/sstable_writer.h>
#include <cairn/io/atomic_file.h>
#include <gmock/gmock.h>
#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include <map>
#include <memory>
#include <random>

#include "tests/formats/golden.h"
#include "tests/formats/raw/raw_table.h"
#include "tests/support/matchers.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::TempDir;

using TableItems = std::map<std::string, std::string>;

Bytes written_by_us(const TempDir& dir, const TableItems& items,
                    const SstableOptions& options = {}) {
  const std::string path = dir.path() + "/ours";
  AtomicFile file(path);
  SstableWriter writer(file, options);
  for (const auto& [key, value] : items) writer.add(key, as_bytes(value));
  writer.finish();
  file.commit(Durability::kUnsynced);
  return read_file(path);
}

// With a flush before entries for which `apart` holds.
template <class Apart>
Bytes written_by_leveldb(const TempDir& dir, const TableItems& items, const SstableOptions& options,
                         Apart apart) {
  leveldb::Options leveldb_options;
  leveldb_options.block_size = options.block_bytes;
  leveldb_options.block_restart_interval = static_cast<int>(options.restart_interval);
  leveldb_options.compression = leveldb::kNoCompression;
  const std::string path = dir.path() + "/leveldbs";
  leveldb::WritableFile* opened = nullptr;
  EXPECT_TRUE(leveldb::Env::Default()->NewWritableFile(path, &opened).ok());
  const std::unique_ptr<leveldb::WritableFile> file(opened);
  leveldb::TableBuilder builder(leveldb_options, file.get());
  for (const auto& [key, value] : items) {
    if (apart(key, value)) builder.Flush();
    builder.Add(key, value);
  }
  EXPECT_TRUE(builder.Finish().ok());
  EXPECT_TRUE(file->Close().ok());
  return read_file(path);
}

TableItems items_of(ByteView table) {
  TableItems found;
  read_sstable(table.size(), testing::reader_of(table),
               [&](std::string_view key, ByteView value) { found.emplace(key, as_text(value)); });
  return found;
}

// Keys of few letters, the greatest byte among them, so that they share beginnings and separators
// meet their limits.
TableItems random_table_items(std::mt19937& random) {
  const auto bytes = [&](std::size_t most) {
    constexpr std::string_view kLetters("ab\xfe\xff\0", 5);
    std::string text(random() % (most + 1), '\0');
    for (char& c : text)
      c = random() % 8 == 0 ? static_cast<char>(random()) : kLetters[random() % kLetters.size()];
    return text;
  };
  TableItems items;
  for (std::size_t i = 0, n = random() % 400; i < n; ++i)
    items[bytes(12)] = bytes(random() % 20 == 0 ? 2000 : 40);
  return items;
}

TEST(SstableWriter, WritesTheBytesOfLevelDb) {
  const auto seed = testing::seed();
  std::mt19937 random(seed);
  const TempDir dir = TempDir::in_memory();
  for (int round = 0; round < 200; ++round) {
    const TableItems items = random_table_items(random);
    SstableOptions options;
    options.block_bytes = std::array<std::size_t, 4>{1, 200, 1500, 262144}[random() % 4];
    options.restart_interval = std::array<std::size_t, 3>{1, 16, 64}[random() % 3];
    options.large_entries_apart = random() % 2 == 0;
    const auto apart = [&](const std::string& key, const std::string& value) {
      return options.large_entries_apart && key.size() + value.size() >= 2 * options.block_bytes;
    };
    const Bytes ours = written_by_us(dir, items, options);
    ASSERT_EQ(ours, written_by_leveldb(dir, items, options, apart))
        << "seed " << seed << ", round " << round;
    ASSERT_EQ(items_of(ours), items) << "seed " << seed << ", round " << round;
  }
}

TEST(SstableWriter, WritesTheBytesOfTensorFlow) {
  const TempDir dir;
  for (const char* name : {"types", "slices"}) {
    const Bytes table =
        read_file(testing::golden("tensorflow/tensorflow-2.21.0/" + std::string(name) + ".index"));
    EXPECT_EQ(written_by_us(dir, items_of(table)), table);
  }
}

TEST(SstableWriter, WritesTablesWithoutEntries) {
  const TempDir dir;
  EXPECT_EQ(written_by_us(dir, {}),
            written_by_leveldb(dir, {}, {}, [](auto&&...) { return false; }));
}

TEST(SstableWriter, RefusesKeysThatDoNotIncrease) {
  const TempDir dir;
  AtomicFile file(dir / "x");
  SstableWriter writer(file);
  writer.add("", {});
  EXPECT_THAT([&] { writer.add("", {}); }, FailsWith(Code::kInvalidArgument, "must increase"));
  writer.add("b", {});
  EXPECT_THAT([&] { writer.add("a", {}); }, FailsWith(Code::kInvalidArgument, "must increase"));
}

}  // namespace
}  // namespace cairn
