// write_array_test.cc -- boxes written and read back; what is copied and what is not; bounds,
// errors, sinks that fail.
#include <cairn/array/box.h>
#include <cairn/zarr/write/write_array.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;

// Remembers what it was given.
class RecordingSink : public ValueSink {
 public:
  void write(std::string_view key, std::span<const ByteView> pieces) override {
    const std::lock_guard lock(mutex_);
    for (const ByteView piece : pieces)
      if (piece.data() >= watched.data() && piece.data() < watched.data() + watched.size())
        borrowed += piece.size();
    ++writes;
    store.write(key, pieces);
  }
  void remove(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    removed.emplace_back(key);
    store.remove(key);
  }

  StorePtr memory = make_memory_store();
  StoreSink store{memory};
  ByteView watched;
  std::size_t borrowed = 0;
  int writes = 0;
  std::vector<std::string> removed;

 private:
  std::mutex mutex_;
};

Bytes random_floats(std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::normal_distribution<float> normal;
  Bytes bytes(4 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const float value = normal(random);
    std::memcpy(&bytes[4 * i], &value, 4);
  }
  return bytes;
}

ZarrArray new_array(const StorePtr& store, const NewArray& array) {
  return {store, "a", std::make_shared<const ArrayMetadata>(make_metadata(array))};
}

Bytes read_all(const ZarrArray& array, const StorePtr& store) {
  const ZarrArray stored(store, array.name(),
                         std::make_shared<const ArrayMetadata>(array.metadata()));
  Array out = Array::allocate(array.metadata().dtype, array.metadata().shape);
  stored.read(Box::whole(array.metadata().shape), out.mutable_view(), MissingChunk::kError);
  return {out.bytes().begin(), out.bytes().end()};
}

ArrayWrite whole(const ZarrArray& array, const Bytes& bytes) {
  const Shape& shape = array.metadata().shape;
  return {.array = array,
          .parts = {{Box::whole(shape), make_view(ByteView(bytes), array.metadata().dtype, shape)}},
          .label = "w"};
}

TEST(WriteBoxes, ContiguousChunksAreNotCopied) {
  const Bytes bytes = random_floats(120000);
  for (const Compression compression : {Compression(Compression::kNone), Compression()})
    for (const int format : {2, 3}) {
      RecordingSink sink;
      sink.watched = bytes;
      const auto array = new_array(nullptr, {.zarr_format = format,
                                             .shape = {4, 30000},
                                             .chunk_shape = {2, 30000},
                                             .compression = compression});
      ByteBudget budget(1 << 10U);
      const ArrayWrite write = whole(array, bytes);
      write_boxes(std::span(&write, 1), sink, {.budget = &budget});
      EXPECT_EQ(sink.writes, 2);
      EXPECT_EQ(sink.borrowed, bytes.size());
      EXPECT_EQ(budget.peak(), 0U);
      EXPECT_EQ(read_all(array, sink.memory), bytes);
    }
}

TEST(WriteBoxes, KeepWithinTheBudget) {
  const Bytes bytes = random_floats(1U << 18U);
  RecordingSink sink;
  const auto array = new_array(
      nullptr, {.shape = {512, 512}, .chunk_shape = {64, 64}, .compression = Compression::zstd(1)});
  constexpr std::uint64_t kLimit = 80000;
  ByteBudget budget(kLimit);
  Executor executor(4);
  Progress progress;
  const ArrayWrite write = whole(array, bytes);
  write_boxes(std::span(&write, 1), sink,
              {.executor = &executor, .budget = &budget, .progress = &progress});
  EXPECT_GT(budget.peak(), 0U);
  EXPECT_LE(budget.peak(), kLimit);
  EXPECT_EQ(progress.done.load(), bytes.size());
  EXPECT_EQ(read_all(array, sink.memory), bytes);
}

// One value, so that all threads work at it; elements that compress, that do not, and inner chunks
// outside of the array.
TEST(WriteBoxes, ManyThreadsMakeTheSameShard) {
  Bytes bytes = random_floats(120 * 100);
  std::fill(bytes.begin(), bytes.begin() + 20000, std::byte{7});
  for (const Compression compression :
       {Compression(), Compression::zstd(3), Compression(Compression::kNone)})
    for (const Shape& inner : {Shape{16, 32}, Shape{128, 128}}) {
      const auto array = new_array(nullptr, {.zarr_format = 3,
                                             .shape = {120, 100},
                                             .chunk_shape = {128, 128},
                                             .compression = compression,
                                             .inner_chunk_shape = inner,
                                             .crc32c = true});
      const ArrayWrite write = whole(array, bytes);
      std::vector<Bytes> made;
      for (const std::size_t threads : {1U, 2U, 7U}) {
        RecordingSink sink;
        Executor executor(threads);
        write_boxes(std::span(&write, 1), sink, {.executor = &executor});
        EXPECT_EQ(read_all(array, sink.memory), bytes);
        made.push_back(sink.memory->read("a/c/0/0", {}).value());
      }
      EXPECT_EQ(made[0], made[1]);
      EXPECT_EQ(made[0], made[2]);
    }
}

TEST(WriteBoxes, FillsPartsThatNoBoxCovers) {
  RecordingSink sink;
  const auto array =
      new_array(nullptr, {.shape = {5}, .chunk_shape = {4}, .compression = Compression::kNone});
  const Bytes bytes(8, std::byte{1});
  const ArrayWrite write{
      .array = array,
      .parts = {{Box{{3}, {2}}, make_view(ByteView(bytes), DType::kFloat32, {2})}},
      .label = "w"};
  write_boxes(std::span(&write, 1), sink);
  Bytes expect(20);
  std::fill(expect.begin() + 12, expect.end(), std::byte{1});
  EXPECT_EQ(read_all(array, sink.memory), expect);
  EXPECT_EQ(sink.memory->size("a/1"), 16U);
}

TEST(WriteBoxes, KeepWhatIsAroundABox) {
  RecordingSink sink;
  for (const int format : {2, 3}) {
    const auto array =
        new_array(sink.memory, {.zarr_format = format, .shape = {6, 6}, .chunk_shape = {4, 4}});
    Bytes bytes = random_floats(36);
    ArrayWrite write = whole(array, bytes);
    write_boxes(std::span(&write, 1), sink);
    const Bytes patch = random_floats(9);
    const Box box{{2, 3}, {3, 3}};
    write.parts = {{box, make_view(ByteView(patch), DType::kFloat32, {3, 3})}};
    write_boxes(std::span(&write, 1), sink);
    copy_elements(write.parts[0].from,
                  subview(make_view(MutableByteView(bytes), DType::kFloat32, {6, 6}), box));
    EXPECT_EQ(read_all(array, sink.memory), bytes);
  }
}

TEST(WriteBoxes, ChunksOfFillAreRemovedOnRequest) {
  RecordingSink sink;
  const auto array = new_array(
      nullptr,
      {.zarr_format = 3, .shape = {8}, .chunk_shape = {4}, .compression = Compression::kNone});
  Bytes bytes(32);
  bytes[31] = std::byte{1};
  ArrayWrite write = whole(array, bytes);
  write.encode.fill_chunks = EncodeOptions::FillChunks::kSkip;
  write_boxes(std::span(&write, 1), sink);
  EXPECT_EQ(sink.removed, std::vector<std::string>{"a/c/0"});
  EXPECT_EQ(sink.writes, 1);
}

TEST(WriteBoxes, RefuseWhatDoesNotFit) {
  RecordingSink sink;
  const auto array = new_array(nullptr, {.shape = {4, 4}, .chunk_shape = {4, 4}});
  const Bytes bytes = random_floats(16);
  const auto view = [&](Shape shape) {
    return make_view(ByteView(bytes), DType::kFloat32, std::move(shape));
  };
  const auto write = [&](std::vector<ArrayPart> parts) {
    return [&sink, write = ArrayWrite{.array = array, .parts = std::move(parts), .label = "w"}] {
      write_boxes(std::span(&write, 1), sink);
    };
  };
  EXPECT_THAT(write({{Box{{1, 0}, {4, 4}}, view({4, 4})}}),
              FailsWith(Code::kOutOfRange, "w: dimension 0"));
  EXPECT_THAT(write({{Box{{0}, {4}}, view({4, 4})}}), FailsWith(Code::kInvalidArgument, "rank"));
  EXPECT_THAT(write({{Box::whole({2, 2}), view({4, 4})}}),
              FailsWith(Code::kInvalidArgument, "(2, 2)"));
  EXPECT_THAT(write({{Box::whole({4, 4}), view({4, 4})}, {Box::whole({4, 4}), view({4, 4})}}),
              FailsWith(Code::kInvalidArgument, "w: chunk 0.0: two boxes to write overlap"));
  ArrayView opaque = view({4, 4});
  opaque.dtype = DType::kOpaque;
  EXPECT_THAT(write({{Box::whole({4, 4}), opaque}}),
              FailsWith(Code::kInvalidArgument, "cannot be cast"));
  EXPECT_EQ(sink.writes, 0);
}

TEST(WriteBoxes, ASinkThatFailsEndsTheWork) {
  class FullSink : public ValueSink {
   public:
    void write(std::string_view /*key*/, std::span<const ByteView> /*pieces*/) override {
      const int nth = ++count;
      if (nth == 3) throw Error(Code::kIo, "no space left on device");
      // On a busy machine the other threads go on until the one that failed runs again.
      if (nth > 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    void remove(std::string_view /*key*/) override {}
    std::atomic<int> count{0};
  } sink;
  constexpr std::int64_t kChunks = 50'000;
  const Bytes bytes = random_floats(kChunks);
  const auto array = new_array(nullptr, {.shape = {kChunks}, .chunk_shape = {1}});
  const ArrayWrite write = whole(array, bytes);
  EXPECT_THAT([&] { write_boxes(std::span(&write, 1), sink); }, FailsWith(Code::kIo, "w: chunk "));
  EXPECT_LT(sink.count, kChunks);
}

// Keeps what it was given before and after the end was there.
class StreamingSink : public ValueSink {
 public:
  void write(std::string_view /*key*/, std::span<const ByteView> pieces) override { take(pieces); }
  void write_before_end(std::string_view /*key*/, std::span<const ByteView> pieces,
                        const std::function<void()>& end) override {
    take(pieces.first(pieces.size() - 1));
    ++late_ends;
    if (fails) throw Error(Code::kIo, "no space left on device");
    end();
    take(pieces.last(1));
  }
  void remove(std::string_view /*key*/) override {}

  Bytes value;
  int late_ends = 0;
  bool fails = false;

 private:
  void take(std::span<const ByteView> pieces) {
    for (const ByteView piece : pieces) value.insert(value.end(), piece.begin(), piece.end());
  }
};

TEST(WriteBoxes, ALargeChunkIsHashedWhileItIsWritten) {
  constexpr std::int64_t kElements = std::int64_t{3} << 20U;
  const Bytes bytes = random_floats(kElements);
  const auto array = new_array(nullptr, {.shape = {kElements}, .chunk_shape = {kElements}});
  const ArrayWrite write = whole(array, bytes);
  Executor alone(1), many(3);
  StreamingSink now, later, failing;
  write_boxes(std::span(&write, 1), now, {.executor = &alone});
  write_boxes(std::span(&write, 1), later, {.executor = &many});
  EXPECT_EQ(now.late_ends, 0);
  EXPECT_EQ(later.late_ends, 1);
  EXPECT_TRUE(later.value == now.value);
  EXPECT_GT(now.value.size(), bytes.size());

  // The other thread is done with the elements when the error arrives.
  failing.fails = true;
  EXPECT_THAT([&] { write_boxes(std::span(&write, 1), failing, {.executor = &many}); },
              FailsWith(Code::kIo, "no space left on device"));
  EXPECT_EQ(failing.late_ends, 1);
}

TEST(WorthCompressing, LooksAllOverTheChunk) {
  const Bytes normal = random_floats(1U << 18U);
  EXPECT_FALSE(worth_compressing(normal));
  EXPECT_FALSE(worth_compressing(ByteView(normal).first(4096)));
  EXPECT_FALSE(worth_compressing(ByteView(normal).first(1)));
  EXPECT_TRUE(worth_compressing(Bytes(4096)));
  Bytes half = normal;
  std::fill(half.begin(), half.begin() + static_cast<std::ptrdiff_t>(half.size() / 2),
            std::byte{0});
  EXPECT_TRUE(worth_compressing(half));
  std::reverse(half.begin(), half.end());
  EXPECT_TRUE(worth_compressing(half));
  for (std::size_t i = 2000; i < half.size(); ++i) half[i] = half[i - 2000];
  EXPECT_TRUE(worth_compressing(half));
}

}  // namespace
}  // namespace cairn::zarr
