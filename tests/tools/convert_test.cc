// Conversions: what is chosen, renamed, cast, refused; and that the bytes arrive.
#include <cairn/convert.h>
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/msgpack.h>
#include <cairn/open.h>
#include <cairn/orbax/open.h>
#include <cairn/safetensors.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::make_array;
using testing::MemoryCheckpoint;

std::vector<float> counting(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

class Convert : public ::testing::Test {
 protected:
  Convert() {
    checkpoint_.add("params.0.w", make_array(DType::kFloat32, {100, 33}, counting(3300)))
        .chunk_shape = {8, 33};
    checkpoint_.add("params.1.w", make_array(DType::kFloat32, {2, 3}, counting(6)));
    checkpoint_.add("step", make_array<std::int64_t>(DType::kInt64, {}, {42}), "scalar");
    checkpoint_.add("lr", make_array<double>(DType::kFloat64, {}, {0.5}), "scalar");
  }
  [[nodiscard]] std::string target(const std::string& name = "out.safetensors") const {
    return dir_.path() + "/" + name;
  }
  // Every tensor of a safetensors file.
  static std::vector<std::pair<std::string, Bytes>> contents(const std::string& path) {
    const auto opened = open_safetensors(path);
    std::vector<std::pair<std::string, Bytes>> all;
    for (std::size_t i = 0; i < opened->tensors().size(); ++i) {
      const TensorInfo& t = opened->tensors()[i];
      Array array = Array::allocate(t.dtype, t.shape);
      const ReadRequest request{i, Box::whole(t.shape), array.mutable_view()};
      opened->read(std::span(&request, 1), {});
      all.emplace_back(t.name, Bytes(array.bytes().begin(), array.bytes().end()));
    }
    return all;
  }

  testing::TempDir dir_;
  MemoryCheckpoint checkpoint_;
};

TEST_F(Convert, CopiesEveryByteWhateverTheMemory) {
  for (const std::uint64_t memory :
       {std::uint64_t{100}, std::uint64_t{1000}, std::uint64_t{5000}, std::uint64_t{1} << 30U}) {
    ConvertOptions options;
    options.resources.memory = memory;
    options.if_exists = IfExists::kReplace;
    const ConvertReport report = convert(checkpoint_, target(), options);
    EXPECT_EQ(report.format, TargetFormat::kSafetensors);
    EXPECT_EQ(report.tensors, 4U);
    EXPECT_EQ(report.bytes, 4 * 3300 + 4 * 6 + 8 + 8U);
    EXPECT_EQ(report.scalars, (std::vector<std::string>{"step", "lr"}));
    EXPECT_EQ(report.files, std::vector<std::string>{target()});
    for (const auto& [name, bytes] : contents(target())) {
      const TensorInfo& t = checkpoint_.info(name);
      Array want = Array::allocate(t.dtype, t.shape);
      checkpoint_.read(name, Box::whole(t.shape), want.mutable_view());
      EXPECT_EQ(bytes, Bytes(want.bytes().begin(), want.bytes().end()))
          << name << " with " << memory;
    }
  }
}

TEST_F(Convert, OneThreadDoesAllTheWork) {
  for (const char* format : {"safetensors", "npz", "msgpack", "tensorflow", "orbax"}) {
    std::atomic<int> calls{0}, others{0};
    const auto here = std::this_thread::get_id();
    const auto count = [&](std::uint64_t, std::uint64_t) {
      ++calls;
      if (std::this_thread::get_id() != here) ++others;
    };
    convert(
        checkpoint_, target(format),
        {.format = parse_target_format(format), .resources = {.threads = 1}, .progress = count});
    EXPECT_GT(calls, 0) << format;
    if (std::string_view(format) != "orbax") {  // a display thread calls it there
      EXPECT_EQ(others, 0) << format;
    }
  }
}

TEST(TargetFormats, HaveNames) {
  for (const char* name :
       {"safetensors", "npz", "msgpack", "tensorflow", "orbax", "orbax-zarr3", "orbax-files"})
    EXPECT_EQ(target_format_name(parse_target_format(name)), name);
  EXPECT_EQ(target_format_of("a/b.index"), TargetFormat::kTensorFlow);
}

TEST_F(Convert, OptionsOfOtherFormatsAreRefused) {
  const auto refused = [&](const char* format, ConvertOptions options) {
    options.format = parse_target_format(format);
    EXPECT_THAT([&] { convert(checkpoint_, target("x"), options); },
                FailsWith(Code::kInvalidArgument, format));
  };
  for (const char* format : {"npz", "orbax", "msgpack"})
    refused(format, {.safetensors = {.max_shard_bytes = 1000}});
  for (const char* format : {"npz", "orbax", "msgpack", "safetensors"})
    refused(format, {.tensorflow = {.max_shard_bytes = 1000}});
  refused("tensorflow", {.safetensors = {.max_shard_bytes = 1000}});
  for (const char* format : {"npz", "orbax", "tensorflow", "safetensors"})
    refused(format, {.msgpack = {.dialect = MsgpackDialect::kOrbax}});
  for (const char* format : {"npz", "orbax", "msgpack", "safetensors"}) {
    refused(format, {.tensorflow = {.plain_names = true}});
    refused(format, {.tensorflow = {.name_latest = false}});
  }
  for (const char* format : {"npz", "tensorflow", "msgpack", "safetensors"}) {
    refused(format, {.orbax = {.chunk_bytes = 1000}});
    refused(format, {.orbax = {.compression = Compression::kNone}});
    refused(format, {.orbax = {.target_file_bytes = 1000}});
    refused(format, {.orbax = {.item = "default"}});
  }
}

TEST_F(Convert, CastsFloatingArraysButNoScalars) {
  ConvertOptions options;
  options.dtype = DType::kBfloat16;
  options.resources.memory = 1000;  // casts happen in pieces
  EXPECT_EQ(convert(checkpoint_, target(), options).cast, 2U);
  const auto opened = open_safetensors(target());
  EXPECT_EQ(opened->info("params.0.w").dtype, DType::kBfloat16);
  EXPECT_EQ(opened->info("lr").dtype, DType::kFloat64);
  EXPECT_EQ(opened->info("step").dtype, DType::kInt64);
  Array got = Array::allocate(DType::kBfloat16, {100, 33});
  opened->read("params.0.w", Box::whole({100, 33}), got.mutable_view());
  Array want = Array::allocate(DType::kBfloat16, {100, 33});
  const Array from = make_array(DType::kFloat32, {100, 33}, counting(3300));
  cast_elements(from.view(), want.mutable_view());
  EXPECT_TRUE(std::equal(got.bytes().begin(), got.bytes().end(), want.bytes().begin()));
  options.dtype = DType::kInt8;
  EXPECT_THAT([&] { convert(checkpoint_, target("b.safetensors"), options); },
              FailsWith(Code::kInvalidArgument, "int8"));
}

TEST_F(Convert, ChoosesAndRenames) {
  ConvertOptions options;
  options.include = {"params.*"};
  options.exclude = {"*.1.*"};
  options.rename = {{"^params\\.(\\d+)", "layer\\1"}, {"w$", "weight"}};
  const ConvertReport report = convert(checkpoint_, target(), options);
  ASSERT_EQ(report.renamed.size(), 1U);
  EXPECT_EQ(report.renamed[0].second, "layer0.weight");
  ASSERT_EQ(contents(target()).size(), 1U);
  EXPECT_EQ(contents(target())[0].first, "layer0.weight");
}

TEST_F(Convert, RefusesToLoseALeaf) {
  checkpoint_.add_string("title", "x");
  checkpoint_.add_node("empty", "Dict");
  checkpoint_.add("fours", make_array<std::int8_t>(DType::kInt4, {2}, {1, 2}));
  checkpoint_.add_node("later", "placeholder");
  ConvertOptions options;
  EXPECT_THAT([&] { convert(checkpoint_, target(), options); },
              FailsWith(Code::kInvalidArgument,
                        "safetensors cannot hold 4 leaves: title (a string), empty (an empty node "
                        "(Dict)), fours (elements of type int4), "
                        "later (a placeholder without data)"));
  EXPECT_FALSE(file_exists(target()));
  options.skip_unsupported = true;
  EXPECT_EQ(convert(checkpoint_, target(), options).skipped.size(), 4U);
  EXPECT_EQ(contents(target()).size(), 4U);
}

TEST_F(Convert, RefusesCollisionsAndBadOptions) {
  ConvertOptions options;
  options.rename = {{"[01]", "x"}};
  EXPECT_THAT(
      [&] { convert(checkpoint_, target(), options); },
      FailsWith(Code::kInvalidArgument, "both be named 'params.x.w': params.0.w and params.1.w"));
  options.rename = {{"(", ""}};
  EXPECT_THAT([&] { convert(checkpoint_, target(), options); },
              FailsWith(Code::kInvalidArgument, "regular expression '('"));
  options = {};
  EXPECT_THAT([&] { convert(checkpoint_, target("out.bin"), options); },
              FailsWith(Code::kInvalidArgument, "extension"));
  EXPECT_EQ(target_format_of("a/B.NPZ"), TargetFormat::kNpz);
  EXPECT_THAT([] { parse_target_format("hdf5"); },
              FailsWith(Code::kInvalidArgument,
                        "unknown target format 'hdf5': expected one of safetensors, npz, msgpack, "
                        "torch, dcp, tensorflow, orbax, orbax-zarr3, orbax-files"));
  convert(checkpoint_, target(), options);
  EXPECT_THAT([&] { convert(checkpoint_, target(), options); },
              FailsWith(Code::kAlreadyExists, target()));
}

TEST_F(Convert, RenamesVeryLongNames) {
  checkpoint_.add(std::string(30'000, 'a'), make_array<float>(DType::kFloat32, {1}, {0}));
  ConvertOptions options;
  options.rename = {{"^(?:a|b)+$", "short"}};
  EXPECT_EQ(convert(checkpoint_, target(), options).renamed.front().second, "short");
  options.rename = {{"(a+)+(?<!a)", ""}};
  EXPECT_THAT([&] { convert(checkpoint_, target("b.npz"), options); },
              FailsWith(Code::kInvalidArgument, "limit"));
  EXPECT_FALSE(file_exists(target("b.npz")));
}

TEST_F(Convert, RefusesToWriteNothing) {
  ConvertOptions options;
  options.include = {"typo*", "x"};
  for (const char* format :
       {"safetensors", "npz", "msgpack", "tensorflow", "orbax", "orbax-zarr3", "orbax-files"}) {
    options.format = parse_target_format(format);
    EXPECT_THAT([&] { convert(checkpoint_, target("out"), options); },
                FailsWith(Code::kNotFound,
                          "nothing is selected: no leaf matches 'typo*', 'x'; nothing is written"));
  }
  options.include.clear();
  options.exclude = {"*"};
  EXPECT_THAT([&] { convert(checkpoint_, target("out"), options); },
              FailsWith(Code::kNotFound, "every leaf is excluded by '*'"));
  options.dry_run = true;
  EXPECT_THAT([&] { convert(checkpoint_, target("out"), options); },
              FailsWith(Code::kNotFound, "nothing is selected"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(Convert, WritesAnEmptyCheckpointOnlyOfAnEmptyOne) {
  MemoryCheckpoint checkpoint;
  ConvertOptions options;
  options.include = {"*"};
  EXPECT_EQ(convert(checkpoint, target(), options).tensors, 0U);
  checkpoint.add_node("none", "None");  // no loss
  options.skip_unsupported = true;
  EXPECT_EQ(convert(checkpoint, target("b.safetensors"), options).tensors, 0U);
  checkpoint.add_string("title", "x");
  EXPECT_THAT([&] { convert(checkpoint, target("c.safetensors"), options); },
              FailsWith(Code::kInvalidArgument, "cannot hold any of the 2 selected leaves"));
  EXPECT_FALSE(file_exists(target("c.safetensors")));
}

TEST_F(Convert, ReplacesRegularFilesAlone) {
  ConvertOptions options;
  options.if_exists = IfExists::kReplace;
  std::filesystem::create_symlink("precious", target("link"));
  std::filesystem::create_directory(target("folder"));
  for (const char* format : {"safetensors", "npz", "msgpack"}) {
    options.format = parse_target_format(format);
    EXPECT_THAT([&] { convert(checkpoint_, "/dev/null", options); },
                FailsWith(Code::kAlreadyExists, "/dev/null: is a device"));
    EXPECT_THAT([&] { convert(checkpoint_, target("link"), options); },
                FailsWith(Code::kAlreadyExists, "is a symbolic link"));
    EXPECT_THAT([&] { convert(checkpoint_, target("folder"), options); },
                FailsWith(Code::kAlreadyExists, "is a directory"));
  }
}

// TensorFlow and sets of shards write files beside the name that they are given.
TEST_F(Convert, WritesNothingBesideTheFilesOfItsSource) {
  const testing::TempDir dir;
  const std::string source = dir / "source";
  save_orbax(source, Tree{{"w", 1}, {"v", 2}});
  const auto opened = open(source);
  const auto files = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source))
      found.insert(entry.path().string());
    return found;
  };
  const auto before = files();
  for (const char* name : {"_METADATA", "manifest.ocdbt", "d", "new"})
    for (const IfExists if_exists : {IfExists::kFail, IfExists::kReplace}) {
      ConvertOptions options;
      options.if_exists = if_exists;
      options.format = TargetFormat::kTensorFlow;
      EXPECT_THAT([&] { convert(*opened, source + "/" + name, options); },
                  FailsWith(Code::kInvalidArgument, "lies in the source checkpoint"));
      options.format = TargetFormat::kSafetensors;
      options.safetensors.max_shard_bytes = 4;
      EXPECT_THAT([&] { convert(*opened, source + "/" + name, options); },
                  FailsWith(Code::kInvalidArgument, "lies in the source checkpoint"));
    }
  EXPECT_EQ(files(), before);
  EXPECT_FALSE(open(source)->verify({}).damaged());
}

TEST_F(Convert, AnExportReplacesNoFileOfItsSource) {
  convert(checkpoint_, target(), {});
  const auto opened = open_safetensors(target());
  EXPECT_THAT([&] { export_leaf(*opened, 0, {}, target()); },
              FailsWith(Code::kAlreadyExists, "is a file of the source checkpoint"));
  EXPECT_THAT([&] { export_leaf(*opened, 0, {}, "/dev/null"); },
              FailsWith(Code::kAlreadyExists, "not a regular file"));
  EXPECT_EQ(export_leaf(*opened, opened->index("params.0.w"), {}, target("out")), 4 * 3300U);
  EXPECT_EQ(export_leaf(*opened, opened->index("params.1.w"), {}, target("out")), 4 * 6U);
  EXPECT_EQ(contents(target()).size(), 4U);
}

TEST(SaveFormat, OneTableOfExtensions) {
  EXPECT_EQ(save_format_of("a.safetensors"), TargetFormat::kSafetensors);
  EXPECT_EQ(save_format_of("/x/a.Npz"), TargetFormat::kNpz);
  EXPECT_EQ(save_format_of("a.msgpack/"), TargetFormat::kMsgpack);
  EXPECT_EQ(save_format_of("model.index"), TargetFormat::kTensorFlow);
  for (const char* path : {"", "a", "a.npz.d", "pt", "step_12", "a.ckpt"})
    EXPECT_EQ(save_format_of(path), TargetFormat::kOrbax) << path;
  for (const char* path : {"a.pt", "a.PTH", "a.pt//"})
    EXPECT_EQ(save_format_of(path), TargetFormat::kTorch) << path;
  for (const char* path : {"a.npy", "a.h5", "a.gguf", "a.bin", "a.pkl", "a.onnx", "a.safetensor"})
    EXPECT_THAT(
        [&] { save_format_of(path); },
        FailsWith(Code::kInvalidArgument, "expected .safetensors, .npz, .msgpack, .pt, .pth, or"))
        << path;
  const testing::TempDir dir;
  for (const char* name : {"a.pt", "a.npz", "a.index", "a.msgpack"}) {
    save_orbax(dir / name, Tree{{"w", 1}});
    EXPECT_EQ(load(dir / name), (Tree{{"w", 1}}));
  }
}

TEST(KeyTypes, AreSavedAndConverted) {
  const testing::TempDir dir;
  const Tree tree{{"s", {{"0", 1}, {"1", 2}}}, {"m", {{"0", 3}, {"x", 4}}}};
  const std::vector<DictKeyTypes> types = {{.dict = {"s"}, .type = "int"},
                                           {.dict = {"m"}, .types = {{"0", "int"}, {"x", "str"}}}};
  SaveOptions options;
  options.key_types = types;
  save(dir / "a", tree, options);
  EXPECT_EQ(open(dir / "a")->key_types(), types);
  EXPECT_EQ(load(dir / "a"), tree);
  ConvertOptions to_orbax;
  to_orbax.format = TargetFormat::kOrbaxZarr3;
  convert(*open(dir / "a"), dir / "b", to_orbax);
  EXPECT_EQ(open(dir / "b")->key_types(), types);
  to_orbax.exclude = {"m.*"};
  convert(*open(dir / "a"), dir / "c", to_orbax);
  EXPECT_EQ(open(dir / "c")->key_types(), (std::vector<DictKeyTypes>{types[0]}));
  options.key_types = {{.dict = {"m"}, .type = "int"}};
  EXPECT_THAT([&] { save(dir / "d", tree, options); },
              FailsWith(Code::kInvalidArgument, "not of type int"));
  EXPECT_FALSE(std::filesystem::exists(std::string(dir / "d")));
}
}  // namespace
}  // namespace cairn
