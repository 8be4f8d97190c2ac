// in_place_test.cc -- another program writes new bytes of the same size into the files of an open
// checkpoint, as cp and rsync --inplace do: readers report it and never mix the old and the new.
#include <cairn/array/box.h>
#include <cairn/cairn.h>
#include <cairn/orbax/open.h>
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using testing::put_file;
using testing::TempDir;

struct WrittenKind {
  const char* name;
  const char* target;  // in the folder of the checkpoint
  TargetFormat format;
  std::optional<std::uint64_t> shard_bytes = {};
};
void PrintTo(const WrittenKind& kind, std::ostream* out) { *out << kind.name; }

constexpr std::int64_t kArrayBytes = 50'000;

// The arrays "a" and "b", all of whose elements are `value`.
void save_source(const std::string& path, int value) {
  Tree::Dict dict;
  for (const char* name : {"a", "b"}) {
    Array array = Array::allocate(DType::kUint8, {kArrayBytes});
    std::fill_n(array.mutable_view().data, kArrayBytes, static_cast<std::byte>(value));
    dict.emplace_back(name, Tree(std::move(array)));
  }
  save_orbax(path, Tree(std::move(dict)), {.durability = Durability::kUnsynced});
}

class InPlace : public ::testing::TestWithParam<WrittenKind> {
 protected:
  InPlace() {
    for (const int value : {1, 2}) {
      const std::string number = std::to_string(value);
      save_source(dir_ / ("source" + number), value);
      fs::create_directory(dir_ / ("folder" + number));
      ConvertOptions options;
      options.format = GetParam().format;
      options.safetensors.max_shard_bytes = GetParam().shard_bytes;
      options.tensorflow.plain_names = GetParam().format == TargetFormat::kTensorFlow;
      if (GetParam().format == TargetFormat::kOrbaxFiles)
        options.orbax.compression = Compression::kNone;
      convert(*open(dir_ / ("source" + number)),
              dir_ / ("folder" + number + "/" + GetParam().target), options);
    }
  }

  [[nodiscard]] std::string path() const {
    const bool is_set = GetParam().shard_bytes.has_value();
    return dir_ / ("folder1/" + std::string(GetParam().target) + (is_set ? ".index.json" : ""));
  }
  // Writes the bytes of the second checkpoint into the files of the first one whose names are in
  // `only`; empty: into all of them.
  void rewrite(const std::set<std::string>& only = {}) const {
    // The kernel's clock for files advances in steps of milliseconds.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const fs::path from = dir_ / "folder2";
    for (const auto& entry : fs::recursive_directory_iterator(from)) {
      const fs::path name = fs::relative(entry.path(), from);
      if (!entry.is_regular_file() || (!only.empty() && !only.contains(name.string()))) continue;
      put_file(dir_ / ("folder1/" + name.string()), read_file(entry.path().string()));
    }
  }
  static Bytes read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const auto bytes = as_bytes(text);
    return {bytes.begin(), bytes.end()};
  }

  TempDir dir_;
};

std::set<int> values_of(const Array& array) {
  std::set<int> values;
  for (const std::byte b : array.bytes()) values.insert(std::to_integer<int>(b));
  return values;
}

TEST_P(InPlace, IsReportedByEveryRead) {
  const auto checkpoint = open(path());
  EXPECT_THAT(values_of(checkpoint->read("a")), ::testing::ElementsAre(1));
  rewrite();
  const auto reports = FailsWith(Code::kUnavailable, "open it again");
  EXPECT_THAT([&] { (void)checkpoint->read("b"); }, reports);
  EXPECT_THAT([&] { (void)checkpoint->load(); }, reports);
  EXPECT_THAT([&] { (void)checkpoint->view("b"); }, reports);
  EXPECT_THAT([&] { (void)checkpoint->verify({}); }, reports);
  EXPECT_THAT(values_of(open(path())->read("b")), ::testing::ElementsAre(2));
}

INSTANTIATE_TEST_SUITE_P(
    Formats, InPlace,
    ::testing::Values(WrittenKind{"Safetensors", "x.safetensors", TargetFormat::kSafetensors},
                      WrittenKind{"ShardSet", "x.safetensors", TargetFormat::kSafetensors,
                                  kArrayBytes},
                      WrittenKind{"Npz", "x.npz", TargetFormat::kNpz},
                      WrittenKind{"Msgpack", "x.msgpack", TargetFormat::kMsgpack},
                      WrittenKind{"TensorFlow", "x", TargetFormat::kTensorFlow},
                      WrittenKind{"Files", "x", TargetFormat::kOrbaxFiles}),
    [](const auto& kind) { return std::string(kind.param.name); });

// The data files of a database have other names in every save.
class InPlaceDatabase : public InPlace {};

TEST_P(InPlaceDatabase, GivesTheOldValues) {
  const auto checkpoint = open(path());
  rewrite();
  EXPECT_THAT(values_of(checkpoint->read("a")), ::testing::ElementsAre(1));
  EXPECT_THAT(values_of(checkpoint->read("b")), ::testing::ElementsAre(1));
  EXPECT_THAT([&] { (void)checkpoint->verify({}); },
              FailsWith(Code::kUnavailable, "open it again"));
  EXPECT_THAT(values_of(open(path())->read("b")), ::testing::ElementsAre(2));
}

INSTANTIATE_TEST_SUITE_P(Formats, InPlaceDatabase,
                         ::testing::Values(WrittenKind{"Ocdbt", "x", TargetFormat::kOrbax},
                                           WrittenKind{"Zarr3", "x", TargetFormat::kOrbaxZarr3}));

// One file of a checkpoint folder that the reader opens only after it was written to.
class InPlaceFolder : public InPlace {};

TEST_P(InPlaceFolder, IsReportedForAFileThatWasNotOpenBefore) {
  const auto checkpoint = open(path());
  rewrite({"x/b/0"});
  EXPECT_THAT(values_of(checkpoint->read("a")), ::testing::ElementsAre(1));
  EXPECT_THAT([&] { (void)checkpoint->read("b"); },
              FailsWith(Code::kUnavailable, "another program wrote to it"));
  EXPECT_THAT([&] { (void)checkpoint->verify({}); },
              FailsWith(Code::kUnavailable, "open it again"));
}

TEST_P(InPlaceFolder, ATimeInTheFutureIsNoChange) {
  const std::string file = path() + "/b/0";
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(24));
  EXPECT_THAT(values_of(open(path())->read("b")), ::testing::ElementsAre(1));
}

INSTANTIATE_TEST_SUITE_P(Formats, InPlaceFolder,
                         ::testing::Values(WrittenKind{"Files", "x", TargetFormat::kOrbaxFiles}));

// Files of a set that others replace by renaming are of several saves, too.
TEST(ReplacedSet, IsReported) {
  const TempDir dir;
  save_source(dir / "source", 1);
  ConvertOptions options;
  options.safetensors.max_shard_bytes = kArrayBytes;
  convert(*open(dir / "source"), dir / "x.safetensors", options);
  const std::string shard = dir / "x-00002-of-00002.safetensors";
  const auto checkpoint = open(dir / "x.safetensors.index.json");
  const Array before = checkpoint->read("b");
  fs::copy_file(shard, dir / "new");
  fs::rename(dir / "new", shard);
  // What was opened is still whole.
  EXPECT_EQ(values_of(checkpoint->read("b")), values_of(before));
  EXPECT_THAT([&] { (void)checkpoint->verify({}); },
              FailsWith(Code::kUnavailable, "was replaced or removed"));
}

}  // namespace
}  // namespace cairn
