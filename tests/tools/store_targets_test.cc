// store_targets_test.cc -- convert() and save() with the URL of a store as their target.
#include <cairn/cairn.h>
#include <cairn/tensorflow.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/upload.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::TempDir;
using testing::upload;

std::string new_target_store() {
  static int stores = 0;
  return "memory://store_targets_" + std::to_string(stores++);
}

std::vector<std::string> keys_in(const std::string& url) {
  std::vector<std::string> keys;
  for (const ListEntry& entry : open_store(url)->list("")) keys.push_back(entry.key);
  return keys;
}

Tree small_tree(float value) {
  return Tree(Tree::Dict{{"a", Tree(Array::from<float>({value, 2, 3}, {3}))},
                         {"b", Tree(Array::from<std::int32_t>({4, 5}, {2}))}});
}

TEST(StoreTargets, SaveWritesFilesByTheirExtension) {
  const std::string url = new_target_store();
  for (const char* name : {"m.npz", "m.msgpack", "m.safetensors"}) {
    SCOPED_TRACE(name);
    const std::string place = url + "/" + name;
    save(place, small_tree(1));
    EXPECT_EQ(load(place), small_tree(1));
    EXPECT_THAT([&] { save(place, small_tree(2)); },
                FailsWith(Code::kAlreadyExists, "already exists"));
    save(place, small_tree(2), {.if_exists = IfExists::kReplace});
    EXPECT_EQ(load(place), small_tree(2));
  }
  EXPECT_EQ(keys_in(url).size(), 3U);
  EXPECT_THAT([&] { save("http://localhost/m.npz", small_tree(1)); },
              FailsWith(Code::kUnimplemented, "can only be read"));
}

TEST(StoreTargets, ConvertWritesEveryFileFormat) {
  const std::string url = new_target_store();
  const TempDir dir;
  save(dir / "source", small_tree(1));
  const auto source = open(dir / "source");
  for (const char* name : {"m.npz", "m.msgpack", "m.safetensors", "ckpt.index"}) {
    SCOPED_TRACE(name);
    const std::string place = url + "/" + name;
    ConvertOptions options{.dry_run = true};
    const auto before = keys_in(url);
    EXPECT_EQ(convert(*source, place, options).tensors, 2U);
    EXPECT_EQ(keys_in(url), before);
    options.dry_run = false;
    const ConvertReport report = convert(*source, place, options);
    EXPECT_EQ(report.files.back(), place);
    EXPECT_EQ(open(place)->tensors().size(), std::string(name) == "ckpt.index" ? 4U : 2U);
    EXPECT_THAT([&] { convert(*source, place, options); },
                FailsWith(Code::kAlreadyExists, "already exists"));
  }
}

TEST(StoreTargets, ASetNamesItsFiles) {
  const std::string url = new_target_store();
  const TempDir dir;
  save(dir / "source", small_tree(1));
  ConvertOptions options;
  options.safetensors.max_shard_bytes = 12;
  const ConvertReport report = convert(*open(dir / "source"), url + "/m.safetensors", options);
  EXPECT_THAT(report.files, ::testing::ElementsAre(url + "/m-00001-of-00002.safetensors",
                                                   url + "/m-00002-of-00002.safetensors",
                                                   url + "/m.safetensors.index.json"));
  EXPECT_EQ(load(report.files.back()), small_tree(1));
}

TEST(StoreTargets, ASourceInAStoreIsNotOverwrittenWhileItIsRead) {
  const std::string url = new_target_store();
  const TempDir dir;
  save(dir / "source", small_tree(1));
  upload(dir / "source", url + "/source");
  ConvertOptions sharded{.if_exists = IfExists::kReplace};
  sharded.safetensors.max_shard_bytes = 12;
  convert(*open(url + "/source"), url + "/m.safetensors", sharded);
  ConvertOptions replace{.if_exists = IfExists::kReplace};
  const auto set = open(url + "/m.safetensors.index.json");
  EXPECT_THAT([&] { convert(*set, url + "/m.safetensors", sharded); },
              FailsWith(Code::kAlreadyExists, "has the name of the source checkpoint"));
  EXPECT_THAT([&] { convert(*set, url + "/m-00001-of-00002.safetensors", replace); },
              FailsWith(Code::kAlreadyExists, "has the name of the source checkpoint"));
  EXPECT_THAT([&] { convert(*open(url + "/source"), url + "/source/m.npz", replace); },
              FailsWith(Code::kInvalidArgument, "lies in the source checkpoint"));
  convert(*open(url + "/source"), url + "/ckpt.index", replace);
  EXPECT_THAT([&] { convert(*open(url + "/ckpt"), url + "/ckpt.index", replace); },
              FailsWith(Code::kAlreadyExists, "has the name of the source checkpoint"));
  EXPECT_EQ(load(url + "/m.safetensors.index.json"), small_tree(1));
  ConvertOptions orbax = replace;
  orbax.format = TargetFormat::kOrbax;
  for (const std::string& folder : {url + "/source", url})
    EXPECT_THAT([&] { convert(*open(url + "/source"), folder, orbax); },
                FailsWith(Code::kAlreadyExists, "holds the source checkpoint"));
  // One file is replaced when all of it has been read.
  save(url + "/one.safetensors", small_tree(3));
  ConvertOptions cast = replace;
  cast.dtype = DType::kFloat64;
  convert(*open(url + "/one.safetensors"), url + "/one.safetensors", cast);
  EXPECT_EQ(open(url + "/one.safetensors")->tensors()[0].dtype, DType::kFloat64);
}

TEST(StoreTargets, TheFolderOfAModelHasItsAssets) {
  const TempDir dir;
  save(dir / "source", small_tree(1));
  testing::put_file(dir / "hf/config.json", std::string_view("{\"a\": 1}"));
  testing::put_file(dir / "hf/tokenizer.json", std::string_view("{}"));
  testing::put_file(dir / "hf/model.safetensors", std::string_view("weights"));
  const auto source = open(dir / "source");
  const auto write = [&](const std::string& url, ConvertOptions options) {
    const ModelFolder folder({}, url, {.assets = dir / "hf"}, options);
    return convert(*source, folder.target(), options);
  };
  for (const bool is_set : {false, true}) {
    const std::string url = new_target_store();
    ConvertOptions options;
    if (is_set) options.safetensors.max_shard_bytes = 12;
    ConvertOptions dry = options;
    dry.dry_run = true;
    write(url + "/model", dry);
    EXPECT_TRUE(keys_in(url).empty());
    write(url + "/model", options);
    EXPECT_EQ(keys_in(url).size(), is_set ? 5U : 3U);
    EXPECT_EQ(load(url + "/model"), small_tree(1));
    EXPECT_EQ(as_text(ByteView(*open_store(url)->read("model/config.json", {}))), "{\"a\": 1}");
    // The same content does not matter, other content does.
    EXPECT_THAT([&] { write(url + "/model", options); },
                FailsWith(Code::kAlreadyExists, "already exists"));
    open_store(url)->write("model/config.json", as_bytes("other"));
    EXPECT_THAT([&] { write(url + "/model", options); },
                FailsWith(Code::kAlreadyExists, "config.json: exists with other content"));
    options.if_exists = IfExists::kReplace;
    write(url + "/model", options);
    EXPECT_EQ(as_text(ByteView(*open_store(url)->read("model/config.json", {}))), "{\"a\": 1}");
  }
}

}  // namespace
}  // namespace cairn
