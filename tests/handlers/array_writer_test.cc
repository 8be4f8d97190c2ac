// Plans of arrays that are fetched in parts.
#include <cairn/handlers/array_writer.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::handlers {
namespace {

using cairn::testing::FailsWith;

// Sees keys, and keeps no values.
class KeySink : public ValueSink {
 public:
  void write(std::string_view key, std::span<const ByteView> /*pieces*/) override {
    const std::lock_guard lock(mutex_);
    keys.emplace(key);
  }
  void remove(std::string_view /*key*/) override {}
  std::set<std::string> keys;

 private:
  std::mutex mutex_;
};

StoreArray bytes_of_shape(Shape shape, Shape piece) {
  StoreArray array;
  array.name = "w";
  array.shape = std::move(shape);
  array.write_shape = std::move(piece);
  return array;
}

// An exabyte has a million million portions: they are made when they are written.
TEST(ArrayWriter, PlansAnArrayOfAnyShape) {
  ArrayWriteOptions options;
  options.memory = 1 << 22;
  const StoreArray array = bytes_of_shape({std::int64_t{1} << 60U}, {1 << 20});
  ArrayWriter writer({&array}, options);
  EXPECT_TRUE(writer.has_values());
  KeySink sink;
  int batches = 0;
  const auto fetch = [&](std::span<ReadRequest> requests) {
    for (const ReadRequest& request : requests) {
      EXPECT_LE(request.box.shape[0], 1 << 21);
      std::fill_n(request.out.data, request.box.shape[0], std::byte{1});
    }
    if (++batches == 4) throw Error(Code::kIo, "enough");
  };
  EXPECT_THAT([&] { writer.write_values(sink, fetch); }, FailsWith(Code::kIo, "enough"));
  EXPECT_FALSE(sink.keys.empty());
}

TEST(ArrayWriter, WritesEveryChunkOnce) {
  for (const std::uint64_t memory : {64U, 1000U, 1U << 20U}) {
    ArrayWriteOptions options;
    options.memory = memory;
    const StoreArray array = bytes_of_shape({13, 17}, {4, 8});
    const StoreArray empty = bytes_of_shape({0, 3}, {1, 3});
    ArrayWriter writer({&array, &empty}, options);
    KeySink sink;
    std::int64_t elements = 0;
    writer.write_values(sink, [&](std::span<ReadRequest> requests) {
      for (const ReadRequest& request : requests) {
        elements += element_count(request.box.shape);
        for (std::int64_t i = 0; i < element_count(request.box.shape); ++i)
          request.out.data[i] = std::byte{1};
      }
    });
    EXPECT_EQ(elements, 13 * 17) << memory;
    const Shape& chunk = writer.chunk_shape(0);
    EXPECT_EQ(sink.keys.size(), static_cast<std::size_t>((13 + chunk[0] - 1) / chunk[0] *
                                                         ((17 + chunk[1] - 1) / chunk[1])))
        << memory;
  }
}

Shape chunk_of(const StoreArray& array, const ArrayWriteOptions& options) {
  return ArrayWriter({&array}, options).chunk_shape(0);
}

// Each chunk is one run of the piece. The limit of memory applies, too. Files that are smaller than
// such chunks have those of Orbax's rule.
TEST(ArrayWriter, CutsAlongLeadingDimensionsWhatTheUserHasNotCut) {
  const StoreArray array = bytes_of_shape({64, 64}, {});
  ArrayWriteOptions options;
  options.free_chunk_bytes = 1024;
  EXPECT_EQ(chunk_of(array, options), (Shape{16, 64}));
  EXPECT_EQ(chunk_of(bytes_of_shape({64, 64}, {32, 32}), options), (Shape{32, 32}));
  EXPECT_EQ(chunk_of(bytes_of_shape({64, 64}, {64, 32}), options), (Shape{32, 32}));
  EXPECT_EQ(chunk_of(bytes_of_shape({61, 61}, {}), options), (Shape{61, 61}));
  options.file_bytes = 1024;
  EXPECT_EQ(chunk_of(array, options), (Shape{16, 64}));
  options.file_bytes = 600;
  EXPECT_EQ(chunk_of(array, options), zarr::choose_chunk_shape({64, 64}, {64, 64}, 1, {600, {}}));
  options.file_bytes = std::nullopt;
  options.memory = 2048;  // a batch has half of it, and a chunk a quarter of the batch
  EXPECT_EQ(chunk_of(array, options), (Shape{4, 64}));
}

TEST(ArrayWriter, CutsAsTheUserSays) {
  const StoreArray array = bytes_of_shape({64, 64}, {});
  ArrayWriteOptions options;
  options.free_chunk_bytes = 1024;
  StoreArray with_target = array;
  with_target.chunk_byte_size = 1024;  // Orbax's rule cuts both dimensions
  EXPECT_EQ(chunk_of(with_target, options), (Shape{32, 32}));
  with_target.chunk_byte_size = 1 << 20;
  EXPECT_EQ(chunk_of(with_target, options), (Shape{64, 64}));
  StoreArray with_axes = array;
  with_axes.shard_axes = {1};
  EXPECT_EQ(chunk_of(with_axes, options), (Shape{64, 1}));
  options.chunk_bytes = 1 << 20;
  EXPECT_EQ(chunk_of(array, options), (Shape{64, 64}));
  options.chunk_bytes = std::nullopt;
  options.compression = Compression::kNone;  // view() maps one chunk
  EXPECT_EQ(chunk_of(array, options), (Shape{64, 64}));
  options.compression = Compression::zstd(1);
  options.zarr_format = 3;
  StoreArray with_shards = array;
  with_shards.write_chunk_shape = Shape{64, 32};
  with_shards.read_chunk_shape = Shape{64, 16};
  EXPECT_EQ(chunk_of(with_shards, options), (Shape{64, 32}));
}

// Arrays of one shape that differ only in who has chosen their chunks are of different kinds.
TEST(ArrayWriter, TellsChosenChunksFromFreeOnes) {
  ArrayWriteOptions options;
  options.free_chunk_bytes = 1024;
  options.file_bytes = 2048;
  const StoreArray free = bytes_of_shape({64, 64}, {});
  StoreArray chosen = free;
  chosen.name = "x";
  chosen.chunk_byte_size = 2048;
  const ArrayWriter writer({&free, &chosen, &free}, options);
  EXPECT_EQ(writer.chunk_shape(0), (Shape{16, 64}));
  EXPECT_EQ(writer.chunk_shape(1), (Shape{32, 64}));
  EXPECT_EQ(writer.chunk_shape(2), (Shape{16, 64}));
}

// One plan has arrays of every source: in memory, copied on demand, and fetched together.
TEST(ArrayWriter, TakesElementsFromWhereTheyAre) {
  StoreArray in_memory = bytes_of_shape({3}, {});
  const std::array<std::byte, 3> elements{std::byte{7}, std::byte{8}, std::byte{9}};
  in_memory.data = elements.data();
  StoreArray copied = bytes_of_shape({4}, {});
  copied.name = "copied";
  int copies = 0;
  copied.copy = [&](const Box& part, const MutableArrayView& out) {
    ++copies;
    std::fill_n(out.data, part.shape[0], std::byte{1});
  };
  StoreArray fetched = bytes_of_shape({5}, {});
  fetched.name = "fetched";
  ArrayWriter writer({&in_memory, &copied, &fetched}, {});
  KeySink sink;
  writer.write_values(sink, [&](std::span<ReadRequest> requests) {
    ASSERT_EQ(requests.size(), 1U);
    EXPECT_EQ(requests[0].tensor, 2U);
    std::fill_n(requests[0].out.data, 5, std::byte{2});
  });
  EXPECT_EQ(copies, 1);
  EXPECT_EQ(sink.keys, (std::set<std::string>{"copied/0", "fetched/0", "w/0"}));
}

// An earlier save with the array "same", whose chunk is a file.
class EarlierSave : public ReusableValues {
 public:
  EarlierSave(std::string metadata, std::string file, std::uint64_t size)
      : metadata_(std::move(metadata)), location_{std::move(file), 0, size} {}

  std::optional<Bytes> read(std::string_view /*key*/) const override {
    return Bytes(as_bytes(metadata_).begin(), as_bytes(metadata_).end());
  }
  std::optional<Location> take(std::string_view key) override {
    return key == "same/0" ? std::optional(location_) : std::nullopt;
  }
  void keep(std::string_view key) override { note(kept, key); }
  void replace(std::string_view key) override { note(replaced, key); }
  bool has(std::string_view key) const override {
    const std::string name(key);
    return kept.contains(name) || replaced.contains(name);
  }
  std::set<std::string> kept, replaced;

 private:
  void note(std::set<std::string>& keys, std::string_view key) {
    const std::lock_guard lock(mutex_);
    keys.emplace(key);
  }
  std::string metadata_;
  Location location_;
  std::mutex mutex_;
};

// Elements may be expensive to fetch: they may have to be copied from a device.
TEST(ArrayWriter, FetchesOnceWhatHasChanged) {
  const testing::TempDir dir = testing::TempDir::in_memory();
  testing::put_file(dir / "chunk", "1234");
  std::map<std::string, int> copies;
  const auto with = [&](const std::string& name) {
    StoreArray array = bytes_of_shape({4}, {});
    array.name = name;
    array.copy = [&copies, name](const Box& /*part*/, const MutableArrayView& out) {
      ++copies[name];
      std::copy_n(as_bytes("1234").data(), 4, out.data);
    };
    return array;
  };
  const StoreArray same = with("same"), other = with("other");
  ArrayWriter writer({&same, &other}, {.compression = Compression::kNone});
  EarlierSave earlier(writer.metadata_text(0), dir / "chunk", 4);
  KeySink sink;
  const auto fetch = [](std::span<ReadRequest> /*requests*/) { FAIL(); };
  writer.write_changed(earlier, sink, fetch);
  EXPECT_EQ(earlier.kept, (std::set<std::string>{"same/0"}));
  EXPECT_EQ(earlier.replaced, (std::set<std::string>{"other/0"}));
  writer.write_values(sink, fetch);
  EXPECT_EQ(sink.keys, (std::set<std::string>{"other/0"}));
  EXPECT_EQ(copies, (std::map<std::string, int>{{"other", 1}, {"same", 1}}));
}

}  // namespace
}  // namespace cairn::handlers
