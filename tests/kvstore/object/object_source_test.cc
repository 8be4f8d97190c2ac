#include <cairn/kvstore/object/object_source.h>
#include <gmock/gmock.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/kvstore/object/support/source_reads.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;
using testing::numbered_text;
using testing::read_part;

// An object in memory that counts what is asked of it.
struct CountedObject {
  std::string bytes;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reads;  // offset, length

  ObjectSource source(Bytes beginning = {}) {
    return {StoredValue{.key = "k", .size = bytes.size(), .version = "v1", .modified_ns = 7},
            "http://h/k",
            [this](std::uint64_t offset, std::span<const MutableByteView> parts,
                   const std::string& version) {
              EXPECT_EQ(version, "v1");
              const std::uint64_t begin = offset;
              for (const MutableByteView part : parts) {
                if (part.data() != nullptr)
                  std::memcpy(part.data(), bytes.data() + offset, part.size());
                offset += part.size();
              }
              reads.emplace_back(begin, offset - begin);
            },
            std::move(beginning)};
  }
};

TEST(ObjectSource, KeepsTheBeginningOfALargeObject) {
  CountedObject object{.bytes = numbered_text(1'000'000), .reads = {}};
  const ObjectSource source = object.source();
  EXPECT_EQ(source.size(), 1'000'000U);
  EXPECT_EQ(source.version(), "v1");
  EXPECT_EQ(source.modified_ns(), 7);
  EXPECT_EQ(read_part(source, 0, 8), object.bytes.substr(0, 8));
  EXPECT_EQ(read_part(source, 1000, 5000), object.bytes.substr(1000, 5000));
  EXPECT_EQ(read_part(source, kKeptBeginning - 1, 1), object.bytes.substr(kKeptBeginning - 1, 1));
  EXPECT_THAT(object.reads, ElementsAre(std::pair(0, kKeptBeginning)));
  // Beyond it, and across its end.
  EXPECT_EQ(read_part(source, 999'999, 1), object.bytes.substr(999'999));
  EXPECT_EQ(read_part(source, kKeptBeginning - 1, 2), object.bytes.substr(kKeptBeginning - 1, 2));
  EXPECT_EQ(object.reads.size(), 3U);
}

TEST(ObjectSource, ReadsASmallObjectOnce) {
  CountedObject object{.bytes = "abc", .reads = {}};
  const ObjectSource source = object.source();
  EXPECT_EQ(read_part(source, 0, 3), "abc");
  EXPECT_EQ(read_part(source, 0, 3), "abc");
  EXPECT_EQ(read_part(source, 1, 1), "b");
  EXPECT_THAT(object.reads, ElementsAre(std::pair(0, 3)));
}

TEST(ObjectSource, UsesTheBeginningThatItIsGiven) {
  CountedObject object{.bytes = numbered_text(1000), .reads = {}};
  const ObjectSource source =
      object.source(Bytes(as_bytes(object.bytes).begin(), as_bytes(object.bytes).begin() + 100));
  EXPECT_EQ(read_part(source, 10, 90), object.bytes.substr(10, 90));
  EXPECT_TRUE(object.reads.empty());
  EXPECT_EQ(read_part(source, 10, 91), object.bytes.substr(10, 91));
  EXPECT_THAT(object.reads, ElementsAre(std::pair(0, 1000)));
}

TEST(ObjectSource, ReadsSeveralParts) {
  CountedObject object{.bytes = numbered_text(600'000), .reads = {}};
  const ObjectSource source = object.source();
  for (const std::uint64_t offset : {std::uint64_t{10}, std::uint64_t{500'000}}) {
    std::string a(3, '-'), b(4, '-');
    const std::vector<MutableByteView> parts = {
        std::as_writable_bytes(std::span(a)),
        MutableByteView(static_cast<std::byte*>(nullptr), 2),
        {},
        std::as_writable_bytes(std::span(b))};
    source.read_scatter(offset, parts);
    EXPECT_EQ(a, object.bytes.substr(offset, 3));
    EXPECT_EQ(b, object.bytes.substr(offset + 5, 4));
  }
  EXPECT_EQ(object.reads.size(), 2U);
}

TEST(ObjectSource, RefusesRangesOutside) {
  CountedObject object{.bytes = "abc", .reads = {}};
  const ObjectSource source = object.source();
  EXPECT_EQ(read_part(source, 3, 0), "");
  const auto fails = [](std::uint64_t offset, std::size_t length, const ObjectSource& from) {
    EXPECT_THAT([&] { (void)read_part(from, offset, length); },
                FailsWith(Code::kOutOfRange, "http://h/k: "));
  };
  fails(0, 4, source);
  fails(3, 1, source);
  fails(4, 0, source);
  fails(~std::uint64_t{0}, 2, source);
  EXPECT_TRUE(object.reads.empty());
}

TEST(ObjectSource, AsksAgainAfterAFailure) {
  int calls = 0;
  const ObjectSource source(
      StoredValue{.key = "", .size = 10, .version = "v"}, "k",
      [&](std::uint64_t, std::span<const MutableByteView> parts, const std::string&) {
        if (++calls == 1) throw Error(Code::kIo, "no answer");
        std::memset(parts[0].data(), 'x', parts[0].size());
      });
  EXPECT_THAT([&] { (void)read_part(source, 0, 1); }, FailsWith(Code::kIo, "k: no answer"));
  EXPECT_EQ(read_part(source, 0, 1), "x");
}

TEST(ObjectSource, IsReadByManyThreads) {
  CountedObject object{.bytes = numbered_text(1000), .reads = {}};
  const ObjectSource source = object.source();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 100; ++i)
        EXPECT_EQ(read_part(source, 7 * t + i, 9), object.bytes.substr(7 * t + i, 9));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(object.reads.size(), 1U);
}

std::string asked_range(const HttpRequest& request) {
  return std::string(request.headers.find("Range").value_or(""));
}

TEST(RangeProgress, AsksForTheRest) {
  std::string a(3, '-'), b(7, '-');
  const std::vector<MutableByteView> parts = {std::as_writable_bytes(std::span(a)),
                                              MutableByteView(static_cast<std::byte*>(nullptr), 4),
                                              std::as_writable_bytes(std::span(b))};
  RangeProgress progress(100, parts);
  // What each try places, and what the next one then asks for.
  const std::vector<std::pair<std::uint64_t, std::string>> tries = {
      {0, "bytes=100-113"}, {0, "bytes=100-113"}, {2, "bytes=100-113"}, {0, "bytes=102-113"},
      {3, "bytes=102-113"}, {4, "bytes=105-113"}, {5, "bytes=109-113"}, {1, "bytes=113-113"}};
  for (const auto& [placed, asked] : tries) {
    HttpRequest request;
    progress.prepare(request);
    EXPECT_EQ(asked_range(request), asked);
    std::uint64_t room = 0;
    for (const MutableByteView part : request.into) room += part.size();
    EXPECT_EQ(room, progress.length());
    EXPECT_EQ(progress.offset() + progress.length(), 114U);
    *request.filled = placed;
  }
}

TEST(RangeProgress, KeepsWhereThePartsAre) {
  std::string a(3, '-'), b(2, '-');
  const std::vector<MutableByteView> parts = {std::as_writable_bytes(std::span(a)),
                                              std::as_writable_bytes(std::span(b))};
  RangeProgress progress(0, parts);
  HttpRequest request;
  progress.prepare(request);
  *request.filled = 4;
  progress.prepare(request);
  ASSERT_EQ(request.into.size(), 1U);
  EXPECT_EQ(reinterpret_cast<char*>(request.into[0].data()), &b[1]);
  EXPECT_EQ(request.into[0].size(), 1U);
}

}  // namespace
}  // namespace cairn::object
