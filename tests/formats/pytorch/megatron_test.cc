// megatron_test.cc -- a run folder that two processes of Megatron-Core wrote, the names of its
// objects, and its metadata.json and tracker when they are damaged.
#include <cairn/base/json/json.h>
#include <cairn/formats/pytorch/megatron/folder.h>
#include <cairn/open.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace megatron = pytorch::megatron;
using testing::FailsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::put_file;
using testing::read_whole;
using testing::TempDir;

const std::string kMegatronGolden = "pytorch/megatron-core-0.16.1/";

std::string copy_of_run(const TempDir& dir) {
  std::filesystem::copy(golden(kMegatronGolden + "run"), dir / "run",
                        std::filesystem::copy_options::recursive);
  return dir / "run";
}

TEST(Megatron, ReadsWhatTwoProcessesWrote) {
  const Json rows = testing::golden_json(kMegatronGolden + "megatron.json");
  for (const char* name : {"run", "run/iter_0000100", "run/iter_0000050/"}) {
    const auto checkpoint = open(golden(kMegatronGolden + name));
    for (const Json& row : *rows.as_array()) {
      const std::string& leaf = testing::text_of(row, "name");
      SCOPED_TRACE(leaf);
      const std::size_t index = checkpoint->index(leaf);
      EXPECT_EQ(checkpoint->tensors()[index].dtype_name, testing::text_of(row, "dtype"));
      EXPECT_EQ(checkpoint->tensors()[index].shape, testing::shape_of(row));
      EXPECT_EQ(read_whole(*checkpoint, index), testing::from_hex(testing::text_of(row, "hex")));
    }
    EXPECT_FALSE(checkpoint->verify({}).damaged());
  }
  const auto checkpoint = open(golden(kMegatronGolden + "run"));
  EXPECT_EQ(*checkpoint->load().at("common").find("iteration"), Tree(100));
  const Bytes state = read_whole(*checkpoint, checkpoint->index("rng_state.shard_0.1_1.2.0.torch"));
  EXPECT_EQ(state.size(), 5 * sizeof(std::int64_t));
  EXPECT_EQ(state.front(), std::byte{1});  // of rank 1
}

// Before version 0.16, Megatron-Core had its own class of metadata, and flattened tensors.
TEST(Megatron, ReadsFlattenedTensorsAsTheyAreStored) {
  const auto checkpoint = open(golden("pytorch/megatron-core-0.15.0/flattened"));
  EXPECT_THAT(checkpoint->info().warnings.front(),
              HasSubstr("not in their shapes: optimizer.weight [4, 6]"));
  const std::size_t index = checkpoint->index("optimizer.weight");
  EXPECT_EQ(checkpoint->tensors()[index].shape, (Shape{1, 2, 12}));
  const Bytes bytes = read_whole(*checkpoint, index);
  std::vector<float> values(24);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_EQ(values[3], 6.0F);  // the columns of rank 0 come first: 0 1 2 6 7 8
  EXPECT_EQ(values[12], 3.0F);
}

TEST(Megatron, SplitsTheNamesOfObjects) {
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(megatron::split_object_name("rng_state/shard_0.1_1.2"),
            Parts("rng_state", "shard_0.1_1.2"));
  EXPECT_EQ(megatron::split_object_name("a/b/shard_0_1"), Parts("a/b", "shard_0_1"));
  for (const char* name :
       {"", "a", "/shard_0_1", "a/shard_0", "a/shard__1", "a/shard_0_", "a/shard", "a/shard_0_1_2",
        "a/shard_0._1", "a/shard_x_1", "shard_0_1", "a/shard_0_1/"})
    EXPECT_EQ(megatron::split_object_name(name), std::nullopt) << name;
}

// Of a damaged metadata.json, the file is none, or one of another backend.
TEST(Megatron, ConfigurationThatIsDamaged) {
  const TempDir dir;
  const std::string good = R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1,)"
                           R"( "common_backend": "torch"})";
  const auto find = [&](ByteView bytes) {
    put_file(dir / "metadata.json", bytes);
    return megatron::find_config({}, dir.path(), {"metadata.json"});
  };
  EXPECT_NO_THROW(megatron::check_supported(find(as_bytes(good)).value(), dir.path()));
  EXPECT_EQ(megatron::find_config({}, dir.path(), {}), std::nullopt);
  testing::for_each_truncation(as_bytes(good), [&](ByteView bad, const std::string& what) {
    EXPECT_FALSE(find(bad).has_value()) << what;
  });
  int refused = 0;
  testing::for_each_bit_flip(as_bytes(good), [&](ByteView bad, const std::string& /*what*/) {
    const auto config = find(bad);
    if (!config) return;
    try {
      megatron::check_supported(*config, dir.path());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUnimplemented);
      ++refused;
    }
  });
  EXPECT_GT(refused, 20);
  EXPECT_FALSE(find(Bytes(std::size_t{1} << 20U, std::byte{' '})).has_value());
}

TEST(Megatron, ATrackerThatLeadsNowhere) {
  const TempDir dir;
  const std::string run = copy_of_run(dir), tracker = run + "/latest_checkpointed_iteration.txt";
  for (const char* text : {"100", " 0000100\r\n", "50"}) {
    put_file(tracker, std::string_view(text));
    EXPECT_NO_THROW(open(run)) << text;
  }
  for (const char* text : {"", " ", "-1", "1e2", "100 50", "iter_0000100", "../run", "release/"}) {
    put_file(tracker, std::string_view(text));
    EXPECT_THAT([&] { open(run); }, FailsWith(Code::kDataLoss, "is neither a number nor")) << text;
  }
  for (const char* text : {"101", "release"}) {
    put_file(tracker, std::string_view(text));
    EXPECT_THAT([&] { open(run); },
                FailsWith(Code::kFailedPrecondition, "names the Megatron checkpoint"));
  }
}

TEST(Megatron, SaysWhatIsMissing) {
  const TempDir dir;
  const std::string folder = copy_of_run(dir) + "/iter_0000100";
  std::filesystem::remove(folder + "/common.pt");
  EXPECT_THAT(open(folder)->info().missing.front().text,
              HasSubstr("common.pt: the file is missing"));
  std::filesystem::remove(folder + "/.metadata");
  EXPECT_THAT([&] { open(folder); }, FailsWith(Code::kDataLoss, ".metadata: the file is missing"));
}

}  // namespace
}  // namespace cairn
