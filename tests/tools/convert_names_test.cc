// The names that leaves get in a conversion, and the metadata of safetensors files.
#include <cairn/convert.h>
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/open.h>
#include <cairn/safetensors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::MemoryCheckpoint;

class ConvertNames : public ::testing::Test {
 protected:
  // Flat names, as safetensors has them.
  void add(const std::string& name) {
    checkpoint_.add(name, make_array<float>(DType::kFloat32, {1}, {1})).path = {
        {name, KeyType::kDict}};
  }
  [[nodiscard]] std::string target(const std::string& name) const { return dir_ / name; }

  testing::TempDir dir_;
  MemoryCheckpoint checkpoint_;
};

std::vector<std::string> paths_of(const Checkpoint& checkpoint) {
  std::vector<std::string> paths;
  for (const TensorInfo& tensor : checkpoint.tensors()) paths.push_back(path_text(tensor.path));
  return paths;
}

TEST_F(ConvertNames, NestSplitsFlatNames) {
  add("model.0.w");
  add("model.0.b");
  add("head");
  for (const char* format : {"orbax", "msgpack"}) {
    const ConvertReport report =
        convert(checkpoint_, target(format), {.format = parse_target_format(format), .nest = "."});
    EXPECT_TRUE(report.renamed.empty());
    EXPECT_THAT(
        paths_of(*open(target(format))),
        ::testing::UnorderedElementsAre("['head']", "['model']['0']['b']", "['model']['0']['w']"))
        << format;
  }
  convert(checkpoint_, target("flat"), {.format = TargetFormat::kOrbax});
  EXPECT_THAT(paths_of(*open(target("flat"))),
              ElementsAre("['head']", "['model.0.b']", "['model.0.w']"));
}

TEST_F(ConvertNames, NestTakesAnySeparatorAndFollowsRename) {
  add("a::b");
  add("x/c");
  const ConvertOptions options{
      .format = TargetFormat::kOrbax, .rename = {{"/", "::"}}, .nest = "::"};
  convert(checkpoint_, target("new"), options);
  EXPECT_THAT(paths_of(*open(target("new"))), ElementsAre("['a']['b']", "['x']['c']"));
}

TEST_F(ConvertNames, ALeafCannotContainLeaves) {
  add("a.b.c");
  add("a.b");
  add("a.b0");  // sorts between them as text
  EXPECT_THAT(
      [&] { convert(checkpoint_, target("new"), {.format = TargetFormat::kOrbax, .nest = "."}); },
      FailsWith(Code::kInvalidArgument,
                "'a.b' would be a leaf and a container of leaves at once: a.b and a.b.c"));
  EXPECT_FALSE(file_exists(target("new")));
  checkpoint_.add("t.b", make_array<float>(DType::kFloat32, {1}, {1}));
  checkpoint_.add("t.c.d", make_array<float>(DType::kFloat32, {1}, {1}));
  EXPECT_THAT(
      [&] {
        convert(checkpoint_, target("new"),
                {.format = TargetFormat::kOrbax, .rename = {{"^t.b", "t.c"}}});
      },
      FailsWith(Code::kInvalidArgument, "'t.c' would be a leaf and a container"));
}

TEST_F(ConvertNames, NestedNamesMayCollide) {
  add("a/b");
  add("a.b");
  EXPECT_THAT(
      [&] { convert(checkpoint_, target("new"), {.format = TargetFormat::kOrbax, .nest = "/"}); },
      FailsWith(Code::kInvalidArgument, "both be named 'a.b': a/b and a.b"));
}

TEST_F(ConvertNames, ASlashAtTheEndMakesNoOtherArray) {
  add("a");
  add("a/");
  for (const char* format : {"orbax", "orbax-zarr3", "orbax-files"})
    EXPECT_THAT(
        [&] { convert(checkpoint_, target(format), {.format = parse_target_format(format)}); },
        FailsWith(Code::kInvalidArgument, "'a' and 'a/' mean the same place"))
        << format;
}

TEST_F(ConvertNames, AFolderCannotHaveTheNameOfAFileOfOrbax) {
  for (const char* name : {"_METADATA", "_strings.json", "_sharding/x", "array_metadatas", "/",
                           "commit_success.txt", "_CHECKPOINT_METADATA/x", "ocdbt.process_0"}) {
    MemoryCheckpoint checkpoint;
    checkpoint.add(name, make_array<float>(DType::kFloat32, {1}, {1})).path = {
        {name, KeyType::kDict}};
    EXPECT_THAT(
        [&] { convert(checkpoint, target("files"), {.format = TargetFormat::kOrbaxFiles}); },
        FailsWith(Code::kInvalidArgument, std::string("orbax-files cannot hold 1 leaf: ") + name))
        << name;
  }
}

TEST_F(ConvertNames, ASlashAloneIsTheRootOfADatabase) {
  add("/");
  for (const char* format : {"orbax", "orbax-zarr3"}) {
    convert(checkpoint_, target(format), {.format = parse_target_format(format)});
    const auto checkpoint = open(target(format));
    ASSERT_EQ(checkpoint->tensors()[0].name, "/") << format;
    EXPECT_EQ(checkpoint->read<float>("/")[0], 1) << format;
  }
}

TEST_F(ConvertNames, FlatFormatsCannotNest) {
  add("a.b");
  for (const char* format : {"safetensors", "npz", "tensorflow"})
    EXPECT_THAT(
        [&] {
          convert(checkpoint_, target("x"), {.format = parse_target_format(format), .nest = "."});
        },
        FailsWith(Code::kInvalidArgument, std::string(format) + " has no nested dicts"));
}

TEST_F(ConvertNames, ASlashInAnExpressionStandsForADot) {
  for (const char* name : {"p.d.w", "p.e.w", "q"})
    checkpoint_.add(name, make_array<float>(DType::kFloat32, {1}, {1}));
  const auto renamed = [&](const char* expression, const char* text) {
    return convert(checkpoint_, target("x.npz"),
                   {.rename = {{expression, text}}, .if_exists = IfExists::kReplace})
        .renamed;
  };
  EXPECT_THAT(renamed("^p/([^/]+)/w$", "new/\\1"),
              ElementsAre(std::pair("p.d.w", "new.d"), std::pair("p.e.w", "new.e")));
  EXPECT_THAT(renamed("p/d", "p.x"), ElementsAre(std::pair("p.d.w", "p.x.w")));
  // an expression that takes names as they are listed may write a '/'
  EXPECT_THAT(renamed("^p\\.d\\.", "p/d/"), ElementsAre(std::pair("p.d.w", "p/d/w")));
  EXPECT_THAT(renamed("[^/]*w$", "w/\\g<0>"),
              ElementsAre(std::pair("p.d.w", "w/p.d.w"), std::pair("p.e.w", "w/p.e.w")));
  add("r/s");  // names have slashes: one in an expression is itself
  EXPECT_THAT(renamed("/", "_"), ElementsAre(std::pair("r/s", "r_s")));
}

TEST_F(ConvertNames, AFunctionRenames) {
  add("a");
  add("b");
  ConvertOptions options{.rename = {{"^a$", "c"}}};
  options.rename_fn = [](std::string_view name) { return "m." + std::string(name); };
  const ConvertReport report = convert(checkpoint_, target("x.npz"), options);
  EXPECT_THAT(report.renamed, ElementsAre(std::pair("a", "m.c"), std::pair("b", "m.b")));
  options.rename_fn = [](std::string_view) { return std::string("same"); };
  EXPECT_THAT([&] { convert(checkpoint_, target("y.npz"), options); },
              FailsWith(Code::kInvalidArgument, "both be named 'same': a and b"));
}

// ---- __metadata__ ----

TEST_F(ConvertNames, SafetensorsKeepsItsMetadata) {
  add("a");
  add("b");
  ConvertOptions options;
  options.safetensors.metadata = {{"format", "pt"}, {"x", "1"}};
  convert(checkpoint_, target("a.safetensors"), options);
  const auto opened = open(target("a.safetensors"));
  EXPECT_EQ(opened->info().custom_metadata, R"({"format":"pt","x":"1"})");
  convert(*opened, target("b.safetensors"), {});
  EXPECT_EQ(open(target("b.safetensors"))->info().custom_metadata, R"({"format":"pt","x":"1"})");
  options.safetensors.metadata = {{"x", "2"}, {"y", "3"}};
  convert(*opened, target("c.safetensors"), options);
  EXPECT_EQ(open(target("c.safetensors"))->info().custom_metadata,
            R"({"format":"pt","x":"2","y":"3"})");
}

TEST_F(ConvertNames, SoDoesASet) {
  add("a");
  add("b");
  ConvertOptions options;
  options.safetensors.max_shard_bytes = 4;
  options.safetensors.metadata = {{"format", "pt"}};
  const ConvertReport report = convert(checkpoint_, target("a.safetensors"), options);
  ASSERT_EQ(report.files.size(), 3U);
  convert(*open(target("a.safetensors.index.json")), target("b.safetensors"), {});
  EXPECT_EQ(open(target("b.safetensors"))->info().custom_metadata, R"({"format":"pt"})");
}

TEST_F(ConvertNames, OtherFormatsHaveNoSuchMetadata) {
  add("a");
  for (const char* format : {"npz", "orbax", "msgpack", "tensorflow"}) {
    ConvertOptions options{.format = parse_target_format(format)};
    options.safetensors.metadata = {{"format", "pt"}};
    EXPECT_THAT([&] { convert(checkpoint_, target("x"), options); },
                FailsWith(Code::kInvalidArgument, format));
  }
}

// ---- names as they are shown ----

TEST_F(ConvertNames, AShownNameIsAName) {
  const std::string odd("emb\x00\xff", 5);
  add(odd);
  add("emb");
  EXPECT_EQ(checkpoint_.index(odd), 0U);
  EXPECT_EQ(checkpoint_.index("emb\\x00\\xff"), 0U);
  EXPECT_EQ(checkpoint_.index(std::string("emb\x00\\xff", 8)), 0U);  // as JSON shows it
  const auto select = [&](const std::string& glob) {
    return select_tensors(checkpoint_, std::vector<std::string>{glob});
  };
  EXPECT_THAT(select("emb\\x00\\xff"), ElementsAre(0U));
  EXPECT_THAT(select("emb\\x00*"), ElementsAre(0U));
  EXPECT_THAT(select_tensors(checkpoint_, {}, std::vector<std::string>{"emb\\x00\\xff"}),
              ElementsAre(1U));
  EXPECT_THAT([&] { (void)checkpoint_.index("emb\\xff"); }, FailsWith(Code::kNotFound, "emb"));
}

TEST_F(ConvertNames, ANameComesBeforeAShownName) {
  add("a\xff");
  add("a\\xff");
  EXPECT_EQ(checkpoint_.index("a\\xff"), 1U);
  EXPECT_EQ(checkpoint_.index("a\xff"), 0U);
}

TEST_F(ConvertNames, AShownNameOfSeveralIsRefused) {
  add("\xff"
      "a\xff");
  add("\\xff"
      "a\xff");
  EXPECT_THAT([&] { (void)checkpoint_.index("\\xffa\\xff"); },
              FailsWith(Code::kInvalidArgument,
                        "'\\xffa\\xff' (bytes ff61ff), '\\xffa\\xff' (bytes 5c78666661ff)"));
}

TEST_F(ConvertNames, GlobCharactersInNamesMatchThemselves) {
  add("layers[0].w");
  add("layers0.w");
  add("layers1.w");
  const std::vector<std::string> name{"layers[0].w"};
  EXPECT_THAT(select_tensors(checkpoint_, name), ElementsAre(0U, 1U));
  EXPECT_THAT(select_tensors(checkpoint_, {}, name), ElementsAre(2U));
}

}  // namespace
}  // namespace cairn
