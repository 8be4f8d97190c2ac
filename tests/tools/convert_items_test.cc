// Conversions of checkpoints with several items: what is kept, copied, renamed and left out.
#include <cairn/convert.h>
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/orbax/open.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::make_array;
using ::testing::Pair;

Tree tree_of(float value) {
  return Tree(Tree::Dict{{"w", Tree(make_array<float>(DType::kFloat32, {2}, {value, value}))}});
}

void write_text(const std::string& path, std::string_view text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string text_of(const std::string& path) {
  const Bytes bytes = read_file(path);
  return std::string(as_text(bytes));
}

std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : checkpoint.tensors()) names.push_back(tensor.full_name());
  return names;
}

// A checkpoint with the trees `params` and `ema`, and the JSON item `config`.
class ConvertItems : public ::testing::Test {
 protected:
  ConvertItems() {
    for (const char* item : {"params", "ema"}) {
      SaveOptions save;
      save.item = item;
      save_orbax(dir_ / item, tree_of(item[0] == 'p' ? 1.0F : 2.0F), save);
      std::filesystem::create_directories(source());
      std::filesystem::rename((dir_ / item) + "/" + item, source() + "/" + item);
    }
    write_text(source() + "/config/metadata", kConfig);
    write_text(source() + "/_CHECKPOINT_METADATA",
               R"({"item_handlers": {"config": "json.Handler", "ema": "tree.Handler", "params": )"
               R"("tree.Handler"}, "metrics": {"loss": 1}, "performance_metrics": {"s": 2.5}, )"
               R"("init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2, )"
               R"("custom_metadata": {"run": "a"}})");
    write_text(source() + "/commit_success.txt", "done");
  }
  [[nodiscard]] std::string source() const { return dir_ / "step"; }
  [[nodiscard]] std::string target() const { return dir_ / "new"; }
  ConvertReport convert_to(const std::string& format, ConvertOptions options = {},
                           const OpenOptions& open_options = {}) const {
    options.format = parse_target_format(format);
    return convert(*open(source(), open_options), target(), options);
  }

  static constexpr std::string_view kConfig = "{\"a\":  1,\n \"b\": \"\\u00fc\"}";
  testing::TempDir dir_;
};

TEST_F(ConvertItems, OrbaxKeepsThem) {
  for (const char* format : {"orbax", "orbax-zarr3", "orbax-files"}) {
    const ConvertReport report = convert_to(format, {.if_exists = IfExists::kReplace});
    EXPECT_THAT(report.items, ElementsAre("config", "ema", "params"));
    EXPECT_TRUE(report.left_out.empty());
    EXPECT_EQ(text_of(target() + "/config/metadata"), kConfig);
    const auto made = open(target());
    EXPECT_THAT(names_of(*made), ElementsAre("ema/w", "params/w"));
    EXPECT_EQ(made->read("ema/w").bytes()[3],
              make_array<float>(DType::kFloat32, {}, {2}).bytes()[3]);
    const std::string metadata = text_of(target() + "/_CHECKPOINT_METADATA");
    for (const char* kept :
         {R"("config": "json.Handler")", R"("ema": "tree.Handler")", R"("metrics": {"loss": 1})",
          R"("performance_metrics": {"s": 2.5})", R"("custom_metadata": {"run": "a"})"})
      EXPECT_NE(metadata.find(kept), std::string::npos) << kept << " in " << metadata;
    for (const char* item : {"config", "ema", "params"})
      EXPECT_TRUE(file_exists(target() + "/" + item + "/commit_success.txt")) << item;
    // No reader knows the handlers of these items.
    const VerifyReport report_of_it = verify(target());
    EXPECT_EQ(report_of_it.verdict(), Verdict::kNotChecked) << verify_json(report_of_it);
    EXPECT_EQ(report_of_it.findings.size(), 3U) << verify_json(report_of_it);
  }
}

TEST_F(ConvertItems, HolesOfAFileStayHoles) {
  constexpr std::uint64_t kSize = std::uint64_t{1} << 40U;  // more than any disk of a test has
  constexpr std::uint64_t kMiddle = (kSize / 2) + 5;
  const std::string file = source() + "/config/metadata";
  write_text(source() + "/config/empty", "");
  std::filesystem::resize_file(file, kSize);
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).seekp(kMiddle) << "middle";
  if (File::open(file).allocated() > (std::uint64_t{1} << 20U))
    FAIL() << "a file system without holes";
  convert_to("orbax");
  const File copy = File::open(target() + "/config/metadata");
  EXPECT_EQ(copy.size(), kSize);
  EXPECT_LT(copy.allocated(), std::uint64_t{1} << 20U);
  const auto text_at = [&](std::uint64_t offset, std::size_t length) {
    Bytes bytes(length);
    copy.read_into(offset, bytes);
    return std::string(as_text(bytes));
  };
  EXPECT_EQ(text_at(0, kConfig.size() + 1), std::string(kConfig) + '\0');
  EXPECT_EQ(text_at(kMiddle - 1, 8), std::string("\0middle", 7) + '\0');
  EXPECT_EQ(text_at(kSize - 1, 1), std::string(1, '\0'));
  EXPECT_EQ(text_of(target() + "/config/empty"), "");
}

TEST_F(ConvertItems, OtherFormatsGetOneTree) {
  const ConvertReport report = convert_to("npz");
  EXPECT_TRUE(report.items.empty());
  EXPECT_THAT(report.left_out, ElementsAre(Pair("config", "it is not a tree of arrays"),
                                           Pair("custom metadata", "npz has no place for 'run'")));
  EXPECT_THAT(names_of(*open(target())), ElementsAre("ema.w", "params.w"));
  const ConvertReport stripped = convert_to(
      "npz",
      {.exclude = {"ema/*"}, .rename = {{"^params\\.", ""}}, .if_exists = IfExists::kReplace});
  EXPECT_THAT(stripped.renamed, ElementsAre(Pair("params/w", "w")));
  EXPECT_THAT(names_of(*open(target())), ElementsAre("w"));
}

TEST_F(ConvertItems, AChosenItemIsOneTree) {
  const ConvertReport report = convert_to("orbax", {}, {.item = "ema"});
  EXPECT_TRUE(report.items.empty());
  EXPECT_TRUE(report.left_out.empty());
  EXPECT_THAT(names_of(*open(target())), ElementsAre("w"));
  EXPECT_FALSE(file_exists(target() + "/config"));
}

TEST_F(ConvertItems, GlobsSelectItems) {
  ConvertReport report = convert_to("orbax", {.exclude = {"ema/*", "config"}});
  EXPECT_THAT(report.items, ElementsAre("params"));
  EXPECT_TRUE(report.left_out.empty());
  report = convert_to("orbax", {.include = {"config"}, .if_exists = IfExists::kReplace});
  EXPECT_THAT(report.items, ElementsAre("config"));
  EXPECT_FALSE(file_exists(target() + "/params"));
  EXPECT_THAT([&] { convert_to("orbax", {.include = {"x*"}, .if_exists = IfExists::kReplace}); },
              FailsWith(Code::kNotFound, "no leaf matches 'x*'"));
}

TEST_F(ConvertItems, OneNameForSeveralIsRefused) {
  ConvertOptions options;
  options.orbax.item = "default";
  EXPECT_THAT([&] { convert_to("orbax", options); },
              FailsWith(Code::kInvalidArgument, "'default' cannot be the name of several items"));
  std::filesystem::remove_all(source() + "/ema");
  EXPECT_THAT([&] { convert_to("orbax", options); },
              FailsWith(Code::kDataLoss, "item 'ema' is recorded"));
  const ConvertReport rest = convert_to("orbax", options, {.allow_missing = true});
  EXPECT_THAT(rest.items, ElementsAre("config", "default"));
  options.orbax.item = "config";
  options.if_exists = IfExists::kReplace;
  EXPECT_THAT([&] { convert_to("orbax", options, {.allow_missing = true}); },
              FailsWith(Code::kInvalidArgument, "two items would be named 'config'"));
  EXPECT_THAT(names_of(*open(target())), ElementsAre("w"));  // the old one
}

TEST_F(ConvertItems, FilesBesideTheItemsAreNamed) {
  write_text(source() + "/notes.txt", "x");
  EXPECT_THAT(convert_to("orbax").left_out,
              ElementsAre(Pair("notes.txt", "a file that belongs to no item")));
}

TEST_F(ConvertItems, CopiesFoldersButFollowsNoLoops) {
  write_text(source() + "/config/deep/er/data.bin", std::string(3 << 20, 'x') + '\0');
  convert_to("orbax");
  EXPECT_EQ(text_of(target() + "/config/deep/er/data.bin").size(), (3U << 20U) + 1);
  std::filesystem::create_directory_symlink("..", source() + "/config/deep/up");
  EXPECT_THAT([&] { convert(*open(source()), dir_ / "other", {.format = TargetFormat::kOrbax}); },
              FailsWith(Code::kFailedPrecondition, "is reached twice"));
  EXPECT_FALSE(file_exists(dir_ / "other"));
}

TEST_F(ConvertItems, AFailedCopyLeavesTheOldCheckpoint) {
  convert_to("orbax");
  const auto opened = open(source());
  const auto plan = [&] {
    ConvertOptions options{.format = TargetFormat::kOrbax, .if_exists = IfExists::kReplace};
    // The leaves are renamed before anything is written, so the copy finds another file.
    options.rename_fn = [&](std::string_view name) {
      std::filesystem::remove(source() + "/config/metadata");
      std::filesystem::create_symlink("nowhere", source() + "/config/metadata");
      return std::string(name);
    };
    return convert(*opened, target(), options);
  };
  EXPECT_THAT(plan, FailsWith(Code::kNotFound, "config/metadata"));
  EXPECT_EQ(text_of(target() + "/config/metadata"), kConfig);
  EXPECT_FALSE(file_exists(target() + ".orbax-checkpoint-tmp"));
}

TEST_F(ConvertItems, ReshardKeepsThemAsTheyWereStored) {
  SaveOptions save;
  save.item = "ema";
  save.use_ocdbt = false;
  save_orbax(dir_ / "files", tree_of(3), save);
  std::filesystem::remove_all(source() + "/ema");
  std::filesystem::rename((dir_ / "files") + "/ema", source() + "/ema");
  ReshardOptions options;
  options.orbax.chunk_bytes = 4;
  const ReshardReport report = reshard(*open(source()), target(), options);
  EXPECT_THAT(report.written.items, ElementsAre("config", "ema", "params"));
  EXPECT_TRUE(file_exists(target() + "/ema/w/.zarray"));
  EXPECT_TRUE(file_exists(target() + "/params/manifest.ocdbt"));
  EXPECT_EQ(open(target())->info("ema/w").chunk_shape, (Shape{1}));
  EXPECT_EQ(text_of(target() + "/config/metadata"), kConfig);
}

TEST(ConvertCustom, LeavesOfOtherHandlersAreNamed) {
  const testing::TempDir dir;
  const std::string path = dir / "ckpt";
  SaveOptions save;
  save.use_ocdbt = false;
  save_orbax(path,
             Tree(Tree::Dict{{"p", Tree(make_array<float>(DType::kFloat32, {1}, {1}))},
                             {"w", Tree(make_array<float>(DType::kFloat32, {1}, {2}))}}),
             save);
  std::string metadata = text_of(path + "/_METADATA");
  metadata.replace(metadata.find("np.ndarray"), 10, "geo.Point!");
  write_text(path + "/_METADATA", metadata);
  std::filesystem::remove_all(path + "/p");
  const auto opened = open(path);
  const TensorInfo& leaf = opened->info("p");
  EXPECT_EQ(leaf.kind, LeafKind::kCustom);
  EXPECT_EQ(leaf.typestr, "geo.Point!");
  EXPECT_FALSE(leaf.is_array());
  EXPECT_TRUE(leaf.is_described());
  EXPECT_EQ(summarize(*opened).custom, 1U);
  EXPECT_EQ(summarize(*opened).unreadable, 0U);
  const auto refused = FailsWith(Code::kUnimplemented, "p: a custom leaf: its type 'geo.Point!'");
  EXPECT_THAT([&] { (void)opened->load(); }, refused);
  EXPECT_THAT([&] { (void)opened->read("p"); }, refused);
  EXPECT_THAT([&] { convert(*opened, dir / "a.npz", {}); },
              FailsWith(Code::kInvalidArgument, "npz cannot hold 1 leaf: p (a custom leaf"));
  EXPECT_EQ(convert(*opened, dir / "a.npz", {.skip_unsupported = true}).tensors, 1U);
  for (const Finding& finding : verify(path).findings)
    EXPECT_EQ(finding.severity, Severity::kNotChecked) << finding.message;
}

}  // namespace
}  // namespace cairn
