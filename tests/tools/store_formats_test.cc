// store_formats_test.cc -- files and sets of files of every format that are in a store: what is
// opened there is what is opened in a local folder.
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <cairn/msgpack.h>
#include <cairn/orbax/open.h>
#include <cairn/tensorflow.h>
#include <cairn/tools/source/open_to_verify.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/formats/golden.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/upload.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using testing::FailsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::MemorySource;
using ::testing::Not;
using testing::put_file;
using testing::TempDir;
using testing::upload;

// A store of this test alone.
std::string new_store() {
  static int stores = 0;
  return "memory://store_formats_" + std::to_string(stores++);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string bytes_text(ByteView bytes) {
  return std::to_string(bytes.size()) + " bytes, " +
         std::to_string(std::hash<std::string_view>()(as_text(bytes)));
}

std::string value_text(const Checkpoint& checkpoint, std::size_t index) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  const auto value = try_call([&] {
    if (!tensor.is_string()) return bytes_text(testing::read_whole(checkpoint, index));
    std::string texts;
    for (const std::string& text : checkpoint.read_strings(index)) texts += text + "|";
    return texts;
  });
  return value.ok() ? value.value() : value.error().message();
}

std::string info_text(const CheckpointInfo& info) {
  std::string text = info.format + ", " + info.layout + ", " + info.path + "\n" +
                     info.custom_metadata + "\n" + std::to_string(info.step.value_or(-1)) + "\n";
  for (const auto& [name, value] : info.facts) text += name + ": " + value + "\n";
  for (const std::string& warning : info.warnings) text += "warning: " + warning + "\n";
  for (const MissingPart& part : info.missing) text += "missing: " + part.path + part.text + "\n";
  return text;
}

std::string report_text(const VerifyReport& report) {
  std::string text = "verified " + std::to_string(report.tensors) + " tensors, " +
                     std::to_string(report.bytes) + " bytes in " + report.path + "\n";
  for (const Finding& finding : report.findings)
    text += std::to_string(static_cast<int>(finding.severity)) + " " + finding.tensor + " " +
            finding.file + " " + std::to_string(finding.offset) + " " + finding.message + "\n";
  return text;
}

// All that a reader tells about what is at a path: a text to compare.
std::string outcome(const std::string& path, const OpenOptions& options = {}) {
  const auto opened = try_call([&] { return open(path, options); });
  if (!opened.ok()) return opened.error().message();
  const Checkpoint& checkpoint = *opened.value();
  std::string text = info_text(checkpoint.info());
  for (std::size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const TensorInfo& tensor = checkpoint.tensors()[i];
    text += tensor.name + " " + path_text(tensor.path) + " " + tensor.typestr + " " +
            tensor.dtype_name + " " + shape_text(tensor.shape) + " " +
            std::to_string(tensor.nbytes) + " " + std::to_string(tensor.stored_nbytes) + " " +
            tensor.error + " = " + value_text(checkpoint, i) + "\n";
  }
  return text + report_text(checkpoint.verify({}));
}

// The same in a local folder and in a store that has its files.
void expect_same(const std::string& folder, const std::string& url, const std::string& name,
                 const OpenOptions& options = {}) {
  SCOPED_TRACE(name);
  const std::string below = name.empty() ? "" : "/" + name;
  EXPECT_EQ(replaced(outcome(url + below, options), url, "PLACE"),
            replaced(outcome(folder + below, options), folder, "PLACE"));
}

// Every file of a folder, every TensorFlow prefix in it, and the folder. Some of them open.
void expect_same_everywhere(const std::string& folder) {
  const std::string url = new_store();
  upload(folder, url);
  expect_same(folder, url, "");
  std::size_t opened = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    expect_same(folder, url, name);
    if (name.ends_with(".index")) expect_same(folder, url, name.substr(0, name.size() - 6));
    opened += try_call([&] { return open(url + "/" + name); }).ok() ? 1 : 0;
  }
  EXPECT_GT(opened, 0U);
}

TEST(StoreFormats, GoldenFilesAreAsTheyAreLocally) {
  for (const char* folder : {"safetensors/safetensors-0.8.0", "npz/numpy-2.4.6",
                             "msgpack/flax-0.12.8_orbax-0.12.8", "tensorflow/tensorflow-2.21.0"}) {
    SCOPED_TRACE(folder);
    expect_same_everywhere(golden(folder));
  }
}

MemorySource sample() {
  MemorySource source;
  source.add_pattern("large", DType::kFloat32, {300, 1000}, 1);
  for (int i = 0; i < 40; ++i)
    source.add_pattern("small." + std::to_string(i), DType::kInt16, {i, 3}, 2);
  return source;
}

std::vector<TensorFlowSource> tensorflow_sources(const MemorySource& source) {
  std::vector<TensorFlowSource> sources;
  for (const TensorSource& tensor : source.tensors)
    sources.push_back({.key = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
  return sources;
}

void save_tensorflow(const std::string& prefix) {
  const MemorySource source = sample();
  write_tensorflow(prefix, tensorflow_sources(source), source.fetch(), {});
}

void save_set(const std::string& path, std::size_t seed) {
  MemorySource source;
  for (int i = 0; i < 6; ++i)
    source.add_pattern("w" + std::to_string(i), DType::kFloat32, {300, 100}, seed + i);
  write_safetensors(path, source.tensors, source.fetch(),
                    {.max_shard_bytes = 250'000, .if_exists = IfExists::kReplace});
}

void save_flax(const std::string& path, std::int64_t value) {
  Tree::Dict tree;
  tree.emplace_back("w", Tree(value));
  tree.emplace_back("text", Tree(std::string(3'000'000, 'x')));
  write_msgpack(path, Tree(std::move(tree)));
}

TEST(StoreFormats, FoldersOfSetsAndStepsAreAsTheyAreLocally) {
  const TempDir dir;
  for (const char* name : {"set", "steps", "flax", "saved/variables", "arrays"})
    fs::create_directories(dir / name);
  save_set(dir / "set/model.safetensors", 1);
  save_tensorflow(dir / "steps/ckpt-3");
  save_tensorflow(dir / "steps/ckpt-12");
  save_tensorflow(dir / "saved/variables/variables");
  put_file(dir / "saved/saved_model.pb", "x");
  for (const int step : {1, 9, 10})
    save_flax(dir / ("flax/checkpoint_" + std::to_string(step)), step);
  const MemorySource source = sample();
  write_npz(dir / "arrays/a.npz", source.tensors, source.fetch(), {});
  const std::string url = new_store();
  upload(dir.path(), url);
  expect_same_everywhere(dir.path());
  for (const char* name : {"set", "steps", "flax", "saved", "arrays"}) {
    expect_same(dir.path(), url, name);
    expect_same(dir.path(), url, name, {.step = 12});
    expect_same(dir.path(), url, name, {.step = 9});
    expect_same_everywhere(dir / name);
  }
}

// Parts of an array: what lies between the rows is not fetched one by one.
TEST(StoreFormats, PartsOfArraysAreRead) {
  const TempDir dir;
  const MemorySource source = sample();
  write_safetensors(dir / "a.safetensors", source.tensors, source.fetch(), {});
  const std::string url = new_store();
  upload(dir.path(), url);
  const auto remote = open(url + "/a.safetensors");
  const auto local = open(dir / "a.safetensors");
  const Box box{{7, 990}, {290, 8}};
  for (const Checkpoint* checkpoint : {remote.get(), local.get()})
    EXPECT_EQ(checkpoint->read("large").bytes().size(), 1'200'000U);
  Array a = Array::allocate(DType::kFloat32, 4, box.shape);
  Array b = Array::allocate(DType::kFloat32, 4, box.shape);
  remote->read("large", box, a.mutable_view());
  local->read("large", box, b.mutable_view());
  EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes()));
  EXPECT_THAT([&] { static_cast<void>(remote->view("large")); },
              FailsWith(Code::kFailedPrecondition, "in a local file"));
}

std::string listed(const std::string& place) {
  const auto found = try_call([&] { return list_checkpoints(place, {}); });
  if (!found.ok()) return replaced(found.error().message(), place, "PLACE");
  std::string text;
  for (const ListedCheckpoint& checkpoint : found.value())
    text += replaced(checkpoint.path, place, "PLACE") + " " +
            std::to_string(checkpoint.step.value_or(-1)) + "\n";
  for (const VerifyReport& report : verify_steps(place))
    text += replaced(report_text(report), place, "PLACE");
  return text;
}

TEST(StoreFormats, ListsAllCheckpointsOfAFolder) {
  const TempDir dir;
  for (const char* name : {"a", "flax", "many"}) fs::create_directories(dir / name);
  save_set(dir / "a/model.safetensors", 1);
  save_set(dir / "many/x.safetensors", 1);
  save_set(dir / "many/y.safetensors", 2);
  save_tensorflow(dir / "many/ckpt-4");
  put_file(dir / "many/notes.txt", "nothing");
  put_file(dir / "many/broken.npz", "PK\x03\x04");
  save_flax(dir / "flax/checkpoint_10", 1);
  save_flax(dir / "flax/checkpoint_9", 1);
  fs::copy(golden("orbax/demo"), dir / "many/demo", fs::copy_options::recursive);
  const std::string url = new_store();
  upload(dir.path(), url);
  for (const std::string name : {"", "/a", "/flax", "/many", "/many/ckpt-4.index"})
    EXPECT_EQ(listed(url + name), listed(dir.path() + name)) << name;
  EXPECT_THAT(listed(url + "/many"), HasSubstr("PLACE/x.safetensors.index.json"));
}

// What a reader has opened it reads, or it says that this is no longer there.
void expect_no_mixture(const std::string& name, const std::function<void(const std::string&)>& save,
                       const std::string& changed) {
  SCOPED_TRACE(name);
  const TempDir first;
  const TempDir second;
  save(first.path());
  save(second.path());
  const std::string url = new_store();
  upload(first.path(), url);
  const auto checkpoint = open(url + name);
  const Bytes other = read_file(second / changed);
  open_store(url)->write(changed, other);
  EXPECT_THAT([&] { static_cast<void>(checkpoint->load()); },
              FailsWith(Code::kUnavailable, "replaced"));
  EXPECT_THAT([&] { static_cast<void>(checkpoint->verify({})); },
              FailsWith(Code::kUnavailable, "replaced"));
  EXPECT_NO_THROW(static_cast<void>(open(url + name)->load()));
  open_store(url)->remove(changed);
  EXPECT_THAT([&] { static_cast<void>(checkpoint->load()); },
              FailsWith(Code::kUnavailable, "replaced"));
}

TEST(StoreFormats, WhatIsReplacedAfterOpeningIsUnavailable) {
  const auto set = [](const std::string& dir) { save_set(dir + "/model.safetensors", 3); };
  expect_no_mixture("", set, "model-00002-of-00003.safetensors");
  expect_no_mixture("/model-00001-of-00003.safetensors", set, "model-00001-of-00003.safetensors");
  const auto tensorflow = [](const std::string& dir) { save_tensorflow(dir + "/ckpt"); };
  expect_no_mixture("/ckpt", tensorflow, "ckpt.data-00000-of-00001");
  const auto npz = [](const std::string& dir) {
    const MemorySource source = sample();
    write_npz(dir + "/a.npz", source.tensors, source.fetch(), {});
  };
  expect_no_mixture("/a.npz", npz, "a.npz");
  const auto flax = [](const std::string& dir) { save_flax(dir + "/checkpoint_5", 1); };
  expect_no_mixture("", flax, "checkpoint_5");
}

std::string little_endian(std::uint64_t number) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &number, 8);
  return text;
}

TEST(StoreFormats, ShortObjectsThatClaimMuchAreDamaged) {
  const std::string url = new_store();
  const StorePtr store = open_store(url);
  const auto put = [&](const std::string& name, const std::string& text) {
    store->write(name, as_bytes(text));
    EXPECT_THAT([&] { open(url + "/" + name); }, FailsWith(Code::kDataLoss, name)) << name;
  };
  put("a.safetensors", little_endian(99'000'000) + "{\"a\": 12345");
  put("a.npy",
      std::string("\x93NUMPY\x02\x00", 8) + std::string("\x00\x00\x00\x40", 4) + "{'descr'");
  put("a.msgpack", std::string("\x81\xa1w\xc6\x40\x00\x00\x00", 8) + "123456789012");
  put("a.npz", "PK\x03\x04" + std::string(16, '\x7f'));
  put("a.safetensors.index.json", "{\"weight_map\": {\"a\":");
}

TEST(StoreFormats, ObjectsBesideAreNotTouched) {
  const TempDir dir;
  save_set(dir / "model.safetensors", 1);
  const std::string url = new_store();
  upload(dir.path(), url + "/run");
  const StorePtr store = open_store(url);
  for (const char* name : {"run/", "run/README.md", "run/model.bin/x", "running", "run/.hidden",
                           "run/model.safetensors.index.json/x", "run//y", "other/z.safetensors"})
    store->write(name, as_bytes("nothing"));
  const auto checkpoint = open(url + "/run");
  EXPECT_EQ(checkpoint->tensors().size(), 6U);
  EXPECT_EQ(checkpoint->info().path, url + "/run/model.safetensors.index.json");
  EXPECT_FALSE(checkpoint->verify({}).damaged());
  EXPECT_THAT([&] { open(url + "/run/none"); }, FailsWith(Code::kNotFound, url + "/run/none"));
  EXPECT_THAT([&] { open(url + "/none/none"); }, FailsWith(Code::kNotFound, url + "/none/none"));
  EXPECT_THAT([&] { open(url + "/run/README.md"); },
              FailsWith(Code::kInvalidArgument, "run/README.md"));
}

// The file that names the latest checkpoint may have been written for another place.
TEST(StoreFormats, StateFilesNameWhatIsInTheirFolder) {
  const TempDir dir;
  save_tensorflow(dir / "ckpt-7");
  const std::string url = new_store();
  upload(dir.path(), url + "/run");
  const StorePtr store = open_store(url);
  const auto latest = [&](const std::string& path) {
    store->write("run/checkpoint", as_bytes("model_checkpoint_path: \"" + path + "\"\n"));
    return open(url + "/run")->info().path;
  };
  EXPECT_EQ(latest("ckpt-7"), url + "/run/ckpt-7");
  EXPECT_EQ(latest(url + "/run/ckpt-7"), url + "/run/ckpt-7");
  EXPECT_THAT([&] { latest("gs://other/ckpt-7"); }, FailsWith(Code::kNotFound, "has no index"));
  EXPECT_THAT([&] { latest("/home/a/ckpt-7"); }, FailsWith(Code::kNotFound, "has no index"));
  EXPECT_THAT([&] { latest("../ckpt-7"); }, FailsWith(Code::kNotFound, "has no index"));
}

TEST(StoreFormats, EachFunctionThatOpensAFormatTakesAUrl) {
  const TempDir dir;
  const MemorySource source = sample();
  write_safetensors(dir / "a.safetensors", source.tensors, source.fetch(), {});
  write_npz(dir / "a.npz", source.tensors, source.fetch(), {});
  save_flax(dir / "a.msgpack", 1);
  save_tensorflow(dir / "a");
  const std::string url = new_store();
  upload(dir.path(), url);
  EXPECT_EQ(open_safetensors(url + "/a.safetensors")->tensors().size(), 41U);
  EXPECT_EQ(open_npz(url + "/a.npz")->tensors().size(), 41U);
  EXPECT_EQ(open_msgpack(url + "/a.msgpack")->tensors().size(), 2U);
  EXPECT_GE(open_tensorflow(url + "/a")->tensors().size(), 41U);
  EXPECT_TRUE(is_tensorflow(url + "/a"));
  EXPECT_FALSE(is_tensorflow(url + "/a.npz"));
  EXPECT_FALSE(is_tensorflow(url + "/none/x"));
  EXPECT_THAT([&] { open_npy(url + "/a.npy"); }, FailsWith(Code::kNotFound, "a.npy"));
}

TEST(StoreFormats, FoldersOfDatabasesAreRecognised) {
  const std::string url = new_store();
  const std::string folder = golden("orbax/demo");
  upload(folder, url);
  std::size_t databases = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    const std::string name = "/" + entry.path().lexically_relative(folder).string();
    EXPECT_EQ(is_ocdbt_checkpoint(url + name), is_ocdbt_checkpoint(folder + name)) << name;
    databases += is_ocdbt_checkpoint(url + name) ? 1 : 0;
  }
  EXPECT_GT(databases, 0U);
  EXPECT_FALSE(is_ocdbt_checkpoint(url + "/none"));
}

TEST(StoreFormats, DumpShowsFilesInAStore) {
  const TempDir dir;
  const MemorySource source = sample();
  write_safetensors(dir / "a.safetensors", source.tensors, source.fetch(), {});
  save_flax(dir / "a.msgpack", 1);
  save_tensorflow(dir / "a");
  const std::string url = new_store();
  upload(dir.path(), url);
  for (const std::string name : {"/a.safetensors", "/a.msgpack", "/a.index"})
    EXPECT_EQ(dump_file({.file = url + name}), dump_file({.file = dir.path() + name})) << name;
}

}  // namespace
}  // namespace cairn
