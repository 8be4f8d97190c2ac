// writer_test.cc -- the same bytes as the real package, sets as the hub lays them out, and nothing
// by halves.
#include <cairn/safetensors.h>
#include <cairn/tensor_source.h>
#include "tests/formats/golden.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

#include <cairn/tensorflow.h>

namespace cairn {
namespace {

using testing::FailsWith;
using testing::file_names;
using testing::golden;
using testing::kSafetensorsGolden;
using testing::MemorySource;
using testing::put_file;
using testing::read_whole;
using testing::TempDir;

TEST(SafetensorsWriter, WritesTheBytesOfTheReference) {
  MemorySource source = testing::safetensors_golden();
  // The order of the sources must not matter.
  std::reverse(source.tensors.begin(), source.tensors.end());
  std::reverse(source.values.begin(), source.values.end());
  const Json metadata = parse_json(
      open_safetensors(golden(kSafetensorsGolden + "all.safetensors"))->info().custom_metadata);
  TempDir dir;
  for (const std::uint64_t memory : {std::uint64_t{1} << 30U, std::uint64_t{1}}) {
    const auto files =
        write_safetensors(dir / "all.safetensors", source.tensors, source.fetch(),
                          {.metadata = {{"format", testing::text_of(metadata, "format")}},
                           .if_exists = IfExists::kReplace,
                           .resources = {.memory = memory}});
    EXPECT_EQ(files, std::vector<std::string>{dir / "all.safetensors"});
    EXPECT_EQ(read_file(dir / "all.safetensors"),
              read_file(golden(kSafetensorsGolden + "all.safetensors")))
        << "memory " << memory;
  }
  EXPECT_EQ(file_names(dir.path()), "all.safetensors ");
}

TEST(SafetensorsWriter, WritesAnEmptyCheckpoint) {
  TempDir dir;
  write_safetensors(dir / "x", {}, [](auto) { FAIL() << "nothing to fetch"; }, {});
  EXPECT_EQ(open_safetensors(dir / "x")->tensors().size(), 0U);
}

// The golden set has one dtype a shard.
TEST(SafetensorsWriter, WritesTheShardsOfTheReference) {
  const MemorySource all = testing::safetensors_golden();
  TempDir dir;
  int number = 0;
  for (const std::string prefix : {"float32/", "bfloat16/", "uint8/"}) {
    MemorySource shard;
    for (std::size_t i = 0; i < all.tensors.size(); ++i)
      if (all.tensors[i].name.starts_with(prefix))
        shard.add(all.tensors[i].name, all.tensors[i].dtype, all.tensors[i].shape, all.values[i]);
    const std::string name = "model-0000" + std::to_string(++number) + "-of-00003.safetensors";
    write_safetensors(dir / name, shard.tensors, shard.fetch(), {.metadata = {{"format", "pt"}}});
    EXPECT_EQ(read_file(dir / name), read_file(golden(kSafetensorsGolden + "set/" + name)));
  }
}

TEST(SafetensorsWriter, SplitsInOrderAndGivesGiantsAFileOfTheirOwn) {
  MemorySource source;
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::int64_t>>{
           {"a", 4}, {"big", 20}, {"b", 4}, {"c", 4}, {"d", 3}})
    source.add_pattern(name, DType::kUint8, {bytes}, 1);
  TempDir dir;
  const auto files = write_safetensors(dir / "m.safetensors", source.tensors, source.fetch(),
                                       {.max_shard_bytes = 8});
  std::string holds;
  for (std::size_t i = 0; i + 1 < files.size(); ++i) {
    const auto shard = open_safetensors(files[i]);
    for (const auto& info : shard->tensors()) holds += info.name + " ";
    holds += "| ";
  }
  EXPECT_EQ(holds, "big | a b | c d | ");
  EXPECT_EQ(files.back(), dir / "m.safetensors.index.json");
  EXPECT_EQ(
      as_text(read_file(files.back())),
      "{\n  \"metadata\": {\n    \"total_size\": 35\n  },\n  \"weight_map\": {\n"
      "    \"a\": \"m-00002-of-00003.safetensors\",\n    \"b\": \"m-00002-of-00003.safetensors\",\n"
      "    \"big\": \"m-00001-of-00003.safetensors\",\n    \"c\": "
      "\"m-00003-of-00003.safetensors\",\n"
      "    \"d\": \"m-00003-of-00003.safetensors\"\n  }\n}\n");
  const auto back = open_safetensors(files.back());
  for (std::size_t i = 0; i < source.tensors.size(); ++i)
    EXPECT_EQ(read_whole(*back, back->index(source.tensors[i].name)), source.values[i]);
  EXPECT_TRUE(back->verify({}).findings.empty());
  EXPECT_EQ(write_safetensors(dir / "one.safetensors", source.tensors, source.fetch(),
                              {.max_shard_bytes = 100})
                .size(),
            1U);
}

// By what the names begin with; a shard for "z", too.
class ByFirstLetter : public ShardingCallback {
 public:
  explicit ByFirstLetter(bool cut = false) : cut_(cut) {}
  [[nodiscard]] std::string description() const override { return "By first letter."; }
  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const override {
    OrderedMap<Shard> shards;
    (void)shards["z"];
    for (const auto& t : tensors) {
      if (cut_ && t.shape() == Shape{4}) {
        shards["1"][t.checkpoint_key]["4 0,1"] = t.tensor.slice({0}, {1});
        shards["2"][t.checkpoint_key]["4 1,3"] = t.tensor.slice({1}, {3});
      } else {
        shards[t.checkpoint_key.substr(0, 1)][t.checkpoint_key][t.slice_spec] = t.tensor;
      }
    }
    std::vector<Shard> out;
    for (const auto& [letter, shard] : shards) out.push_back(shard);
    return out;
  }

 private:
  bool cut_;
};

TEST(SafetensorsWriter, ACallbackDecidesOnTheFiles) {
  MemorySource source;
  for (const std::string name : {"b1", "a1", "b0", "c", "a2"})
    source.add_pattern(name, DType::kUint8, {3}, source.tensors.size());
  TempDir dir;
  const auto write = [&](const std::string& name, SafetensorsWriteOptions options) {
    return write_safetensors(dir / name, source.tensors, source.fetch(), options);
  };
  const auto files =
      write("m.safetensors", {.sharding_callback = std::make_shared<ByFirstLetter>()});
  EXPECT_EQ(file_names(dir.path()),
            "m-00001-of-00003.safetensors m-00002-of-00003.safetensors "
            "m-00003-of-00003.safetensors m.safetensors.index.json ");
  std::string holds;
  for (const std::size_t i : {0, 1, 2}) {
    const auto file = open_safetensors(files[i]);
    for (const auto& info : file->tensors()) holds += std::to_string(i) + info.name + " ";
  }
  EXPECT_EQ(holds, "0b0 0b1 1a1 1a2 2c ");
  const auto back = open_safetensors(files.back());
  for (std::size_t i = 0; i < source.tensors.size(); ++i)
    EXPECT_EQ(read_whole(*back, back->index(source.tensors[i].name)), source.values[i]);
  EXPECT_TRUE(back->verify({}).findings.empty());

  EXPECT_EQ(
      write("one.safetensors", {.sharding_callback = std::make_shared<ShardByTaskPolicy>()}).size(),
      1U);
  write("as_ever.safetensors", {});
  EXPECT_EQ(read_file(dir / "one.safetensors"), read_file(dir / "as_ever.safetensors"));
  // Its specs say which part of each tensor it takes, and it takes all.
  EXPECT_EQ(write("six.safetensors", {.sharding_callback = std::make_shared<MaxShardSizePolicy>(6)})
                .size(),
            4U);
}

TEST(SafetensorsWriter, RefusesACallbackThatCutsOrLosesTensors) {
  MemorySource source;
  source.add_pattern("whole", DType::kUint8, {3}, 1);
  source.add_pattern("cut", DType::kUint8, {4}, 2);
  TempDir dir;
  const auto write = [&](const SafetensorsWriteOptions& options) {
    return [&, options] {
      write_safetensors(dir / "m.safetensors", source.tensors, source.fetch(), options);
    };
  };
  EXPECT_THAT(
      write({.sharding_callback = std::make_shared<ByFirstLetter>(true)}),
      FailsWith(Code::kInvalidArgument, "cut: the sharding callback splits it (\"4 0,1\")"));
  EXPECT_THAT(write({.sharding_callback = std::make_shared<MaxShardSizePolicy>(5)}),
              FailsWith(Code::kInvalidArgument, "cut: the sharding callback splits it"));
  EXPECT_THAT(write({.max_shard_bytes = 5, .sharding_callback = std::make_shared<ByFirstLetter>()}),
              FailsWith(Code::kInvalidArgument, "not both"));
  class Forgetful : public ByFirstLetter {
   public:
    [[nodiscard]] std::vector<Shard> operator()(
        std::span<const ShardableTensor> tensors) const override {
      return ByFirstLetter::operator()(tensors.first(1));
    }
  };
  EXPECT_THAT(write({.sharding_callback = std::make_shared<Forgetful>()}),
              FailsWith(Code::kFailedPrecondition, "checkpoint_key: cut"));
  EXPECT_EQ(file_names(dir.path()), "");
}

TEST(SafetensorsWriter, RefusesWhatTheFormatCannotHold) {
  TempDir dir;
  const auto write = [&](const MemorySource& source, const SafetensorsWriteOptions& options = {}) {
    write_safetensors(dir / "x.safetensors", source.tensors, source.fetch(), options);
  };
  const auto with = [](std::string name, DType dtype, Shape shape) {
    MemorySource source;
    source.add_pattern("fine", DType::kInt8, {1}, 0);
    source.add_pattern(std::move(name), dtype, std::move(shape), 0);
    return source;
  };
  for (const DType dtype :
       {DType::kInt2, DType::kInt4, DType::kUint2, DType::kUint4, DType::kComplex128,
        DType::kFloat8E3m4, DType::kFloat8E4m3, DType::kFloat8E4m3b11fnuz})
    EXPECT_THAT([&] { write(with("bad", dtype, {2})); },
                FailsWith(Code::kInvalidArgument, "bad: safetensors has no element type for"));
  EXPECT_THAT([&] { write(with("bad", DType::kFloat4E2m1fn, {3})); },
              FailsWith(Code::kInvalidArgument, "odd number"));
  EXPECT_THAT([&] { write(with("bad", DType::kFloat4E2m1fn, {})); },
              FailsWith(Code::kInvalidArgument, "odd number"));
  EXPECT_THAT([&] { write(with("__metadata__", DType::kInt8, {1})); },
              FailsWith(Code::kInvalidArgument, "reserved"));
  EXPECT_THAT([&] { write(with("\xff", DType::kInt8, {1})); },
              FailsWith(Code::kInvalidArgument, "UTF-8"));
  EXPECT_THAT([&] { write(with("fine", DType::kInt8, {1})); },
              FailsWith(Code::kInvalidArgument, "two tensors are named \"fine\""));
  EXPECT_THAT(
      [&] {
        write(with("a", DType::kInt8, {1}), {.metadata = {{"k", "\xff"}}});
      },
      FailsWith(Code::kInvalidArgument, "metadata"));
  EXPECT_THAT(
      [&] {
        write(with("a", DType::kInt8, {1}), {.metadata = {{"k", "1"}, {"k", "2"}}});
      },
      FailsWith(Code::kInvalidArgument, "twice"));
  EXPECT_EQ(file_names(dir.path()), "") << "nothing may be left behind";
}

TEST(SafetensorsWriter, NeverReplacesUnasked) {
  TempDir dir;
  MemorySource source;
  source.add_pattern("a", DType::kInt8, {100}, 0);
  source.add_pattern("b", DType::kInt8, {100}, 1);
  put_file(dir / "x.safetensors", "mine");
  const auto write = [&](const SafetensorsWriteOptions& options) {
    write_safetensors(dir / "x.safetensors", source.tensors, source.fetch(), options);
  };
  EXPECT_THAT([&] { write({}); }, FailsWith(Code::kAlreadyExists));
  EXPECT_EQ(as_text(read_file(dir / "x.safetensors")), "mine");
  put_file(dir / "x.safetensors.index.json", "mine");
  EXPECT_THAT([&] { write({.max_shard_bytes = 100}); },
              FailsWith(Code::kAlreadyExists, "index.json"));
  write({.if_exists = IfExists::kReplace});
  EXPECT_EQ(open_safetensors(dir / "x.safetensors")->tensors().size(), 2U);
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenASourceFails) {
  TempDir dir;
  put_file(dir / "x.safetensors", "old");
  MemorySource source;
  source.add_pattern("a", DType::kFloat32, {100'000}, 0);
  int calls = 0;
  const FetchFn failing = [&](std::span<const TensorPiece> pieces) {
    if (++calls == 3) throw Error(Code::kDataLoss, "a: chunk 7 is damaged");
    source.fetch()(pieces);
  };
  EXPECT_THAT(
      [&] {
        write_safetensors(dir / "x.safetensors", source.tensors, failing,
                          {.if_exists = IfExists::kReplace, .resources = {.memory = 100'000}});
      },
      FailsWith(Code::kDataLoss, "chunk 7"));
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(as_text(read_file(dir / "x.safetensors")), "old");
  EXPECT_EQ(file_names(dir.path()), "x.safetensors ");
}

TEST(SafetensorsWriter, FetchesInOrderOnceAndAtCuts) {
  MemorySource source;
  source.add_pattern("a", DType::kFloat32, {1000, 50}, 0);  // 200,000 bytes in rows of 200
  source.add_pattern("b", DType::kInt8, {7}, 1);
  source.add_pattern("c", DType::kFloat4E2m1fn, {333, 100}, 2, 15);
  source.tensors[0].cut = 30'000;
  std::vector<std::uint64_t> next(3, 0);
  const FetchFn checking = [&](std::span<const TensorPiece> pieces) {
    std::uint64_t batch = 0;
    for (const auto& piece : pieces) {
      EXPECT_EQ(piece.offset, next[piece.tensor]);
      next[piece.tensor] += piece.out.size();
      batch += piece.out.size();
      if (piece.tensor == 0 && next[0] != 200'000) {
        EXPECT_EQ(next[0] % 30'000, 0U);
      }
    }
    EXPECT_LE(batch, 50'000U);  // half the memory: the other half is being written
    source.fetch()(pieces);
  };
  TempDir dir;
  write_safetensors(dir / "x", source.tensors, checking, {.resources = {.memory = 100'000}});
  EXPECT_EQ(next, (std::vector<std::uint64_t>{200'000, 7, 33'300}));
  const auto back = open_safetensors(dir / "x");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(read_whole(*back, i), source.values[i]);
}

}  // namespace
}  // namespace cairn
