// incompressible_test.cc -- which arrays Zarr v3 stores as they are, in one process and in several.
#include <cairn/array/box.h>
#include <cairn/handlers/incompressible.h>
#include <gmock/gmock.h>

#include <random>
#include <vector>

namespace cairn::handlers {
namespace {

using ::testing::ElementsAre;

Bytes noise(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

StoreArray array_of(const Bytes& bytes) {
  StoreArray array{.name = "w",
                   .dtype = DType::kUint8,
                   .source_dtype = DType::kUint8,
                   .shape = {static_cast<std::int64_t>(bytes.size())}};
  array.data = bytes.data();
  return array;
}

StorePart part_of(const Bytes& bytes, std::int64_t at) {
  const Shape shape{static_cast<std::int64_t>(bytes.size())};
  return {{{at}, shape}, make_view(ByteView(bytes), DType::kUint8, shape)};
}

StoreArray shared_array(std::vector<StorePart> parts) {
  StoreArray array{
      .name = "w", .dtype = DType::kUint8, .source_dtype = DType::kUint8, .shape = {1 << 20}};
  array.device_array = true;
  array.parts = std::move(parts);
  return array;
}

std::vector<Sampled> sampled(const std::vector<StoreArray>& arrays) {
  Executor executor(2);
  return sample_arrays(arrays, executor);
}

TEST(Incompressible, OnlyZarr3WithAMethodThatLooksAtChunks) {
  EXPECT_TRUE(stores_incompressible_raw(3, {}));
  EXPECT_TRUE(stores_incompressible_raw(3, Compression::kReproducible));
  EXPECT_FALSE(stores_incompressible_raw(2, {}));
  for (const Compression& other :
       {Compression(Compression::kNone), Compression(Compression::kSmallest), Compression::zstd(1),
        Compression::blosc()})
    EXPECT_FALSE(stores_incompressible_raw(3, other));
}

TEST(Incompressible, SamplesWhatIsInMemory) {
  const Bytes random = noise(300'000), small = noise(16383), zeros(300'000), none;
  StoreArray cast = array_of(random);
  cast.dtype = DType::kFloat64;
  StoreArray fetched = array_of(random);
  fetched.data = nullptr;
  EXPECT_THAT(
      sampled({array_of(random), array_of(small), array_of(zeros), array_of(none), cast, fetched}),
      ElementsAre(Sampled::kIncompressible, Sampled::kNothing, Sampled::kShrinks, Sampled::kNothing,
                  Sampled::kNothing, Sampled::kNothing));
}

TEST(Incompressible, APartThatShrinksOverrulesTheOthers) {
  const Bytes random = noise(300'000), zeros(300'000);
  StorePart fetched = part_of(random, 0);
  fetched.from.data = nullptr;
  EXPECT_THAT(sampled({shared_array({part_of(random, 0), fetched}),
                       shared_array({part_of(random, 0), part_of(zeros, 300'000)}),
                       shared_array({fetched}), shared_array({})}),
              ElementsAre(Sampled::kIncompressible, Sampled::kShrinks, Sampled::kNothing,
                          Sampled::kNothing));
}

TEST(Incompressible, AllProcessesDecideAlike) {
  const std::vector<StoreArray> arrays{shared_array({}), array_of({}), shared_array({}),
                                       shared_array({})};
  const std::vector<Sampled> one{Sampled::kIncompressible, Sampled::kIncompressible,
                                 Sampled::kIncompressible, Sampled::kNothing};
  const std::vector<Sampled> other{Sampled::kNothing, Sampled::kNothing, Sampled::kShrinks,
                                   Sampled::kNothing};
  const std::vector<Bytes> messages{sampled_message(arrays, one), sampled_message(arrays, other)};
  for (const std::vector<Sampled>& own : {one, other}) {
    std::vector<Sampled> merged = own;
    merge_sampled(arrays, messages, merged);
    EXPECT_THAT(merged, ElementsAre(Sampled::kIncompressible, own[1], Sampled::kShrinks,
                                    Sampled::kNothing));
  }
}

TEST(Incompressible, ProcessesWithOtherArraysDecideNothing) {
  const std::vector<StoreArray> arrays{shared_array({})};
  std::vector<Sampled> merged{Sampled::kIncompressible};
  const std::vector<Bytes> messages{sampled_message(arrays, merged), Bytes()};
  merge_sampled(arrays, messages, merged);
  EXPECT_THAT(merged, ElementsAre(Sampled::kNothing));
}

}  // namespace
}  // namespace cairn::handlers
