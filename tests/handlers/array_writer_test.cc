// Plans of arrays that are fetched in parts.
#include <cairn/handlers/array_writer.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/matchers.h"

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

ArrayToWrite bytes_of_shape(Shape shape, Shape piece) {
  ArrayToWrite array;
  array.name = "w";
  array.shape = std::move(shape);
  array.piece = std::move(piece);
  return array;
}

// An exabyte has a million million portions: they are made when they are written.
TEST(ArrayWriter, PlansAnArrayOfAnyShape) {
  ArrayWriteOptions options;
  options.memory = 1 << 22;
  ArrayWriter writer({bytes_of_shape({std::int64_t{1} << 60U}, {1 << 20})}, options);
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
    ArrayWriter writer({bytes_of_shape({13, 17}, {4, 8}), bytes_of_shape({0, 3}, {1, 3})}, options);
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

}  // namespace
}  // namespace cairn::handlers
