// Checkpoints that are replaced while they are read: a reader gets the old values or an error,
// never some of both.
#include <cairn/cairn.h>
#include <cairn/io/directory.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <tuple>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using testing::TempDir;

constexpr int kArrays = 8;

void save_filled_with(const std::string& path, int value) {
  Tree::Dict dict;
  for (int i = 0; i < kArrays; ++i) {
    Array array = Array::allocate(DType::kUint8, {16});
    std::fill_n(array.mutable_view().data, 16, static_cast<std::byte>(value));
    dict.emplace_back("a" + std::to_string(i), Tree(std::move(array)));
  }
  SaveOptions options;
  options.use_ocdbt = false;
  options.compression = Compression::kNone;
  options.durability = Durability::kUnsynced;
  save(path, Tree(std::move(dict)), options);
}

// The values of all arrays, each once.
std::set<int> values_of(const Checkpoint& checkpoint) {
  std::set<int> values;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const Array array = checkpoint.read(tensor.name);
    for (const std::byte b : array.bytes()) values.insert(std::to_integer<int>(b));
  }
  return values;
}

// How the folder to be read is laid out; path() is the checkpoint's, opened() what is opened.
struct Kind {
  const char* name;
  bool step = false;  // a step of a root
  bool bare = false;  // Zarr arrays alone, whose missing chunks read as zeros
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class Replaced : public ::testing::TestWithParam<Kind> {
 protected:
  Replaced() {
    for (const auto& [folder, value] : {std::pair{path(), 1}, std::pair{other(), 2}}) {
      save_filled_with(folder, value);
      if (!GetParam().bare) continue;
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.is_regular_file()) fs::remove(entry.path());
      fs::remove_all(folder + "/array_metadatas");
    }
  }
  [[nodiscard]] std::string path() const { return dir_ / (GetParam().step ? "root/7" : "ckpt"); }
  [[nodiscard]] std::string opened() const { return GetParam().step ? dir_ / "root" : path(); }
  [[nodiscard]] std::string other() const { return dir_ / "other"; }
  // As a save does that replaces the checkpoint.
  [[nodiscard]] bool swap() const {
    return Directory::open(dir_.path()).swap(GetParam().step ? "root/7" : "ckpt", "other");
  }

  TempDir dir_;
};

TEST_P(Replaced, GivesTheOldValuesAsLongAsTheyAreThere) {
  const auto checkpoint = open(opened());
  ASSERT_TRUE(swap());
  EXPECT_THAT(values_of(*checkpoint), ::testing::ElementsAre(1));
  EXPECT_THAT(values_of(*open(opened())), ::testing::ElementsAre(2));
  EXPECT_THAT(checkpoint->view("a3").bytes()[0], std::byte{1});
}

TEST_P(Replaced, IsAnErrorOnceTheyAreGone) {
  const auto checkpoint = open(opened());
  ASSERT_TRUE(swap());
  fs::remove_all(other() + "/a3");  // as far as its removal has come
  EXPECT_THAT([&] { (void)checkpoint->read("a3"); },
              FailsWith(Code::kUnavailable, "was replaced or removed"));
  remove_tree(other());
  for (int i = 0; i < kArrays; ++i)
    EXPECT_THAT([&] { (void)checkpoint->read("a" + std::to_string(i)); },
                FailsWith(Code::kUnavailable, "was replaced or removed"));
  EXPECT_THAT([&] { (void)checkpoint->verify({}); },
              FailsWith(Code::kUnavailable, "was replaced or removed"));
}

TEST_P(Replaced, IsAnErrorIfItsNameIsGone) {
  const auto checkpoint = open(opened());
  remove_tree(path());
  EXPECT_THAT([&] { (void)checkpoint->read("a0"); },
              FailsWith(Code::kUnavailable, "was replaced or removed"));
}

// A writer that cannot rename folders takes the commit marker away before anything else.
TEST(RemovedInPlace, IsAnErrorAndNoDamage) {
  for (const bool use_ocdbt : {false, true}) {
    const TempDir dir;
    const std::string path = dir / "ckpt";
    SaveOptions options;
    options.use_ocdbt = use_ocdbt;
    options.commit_protocol = CommitProtocol::kCommitMarker;
    options.durability = Durability::kUnsynced;
    Array array = Array::allocate(DType::kUint8, {4096});
    std::fill_n(array.mutable_view().data, 4096, std::byte{1});
    save(path, Tree(Tree::Dict{{"a", Tree(std::move(array))}}), options);
    const auto checkpoint = open(path);
    fs::remove(path + "/commit_success.txt");
    fs::remove_all(path + (use_ocdbt ? "/d" : "/a"));
    EXPECT_THAT([&] { (void)checkpoint->read("a"); }, FailsWith(Code::kUnavailable, "replaced"));
    EXPECT_THAT([&] { (void)checkpoint->load(); }, FailsWith(Code::kUnavailable, "replaced"));
    EXPECT_THAT([&] { (void)checkpoint->verify({}); }, FailsWith(Code::kUnavailable, "replaced"));
  }
}

// Readers beside a writer that replaces the checkpoint again and again.
class ReplacedLive : public ::testing::TestWithParam<std::tuple<CommitProtocol, bool>> {};

TEST_P(ReplacedLive, GivesOneWholeCheckpointOrAnError) {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const auto save_value = [&](int value) {
    Tree::Dict dict;
    for (int i = 0; i < kArrays; ++i) {
      Array array = Array::allocate(DType::kUint8, {4096});
      std::fill_n(array.mutable_view().data, 4096, static_cast<std::byte>(value));
      dict.emplace_back("a" + std::to_string(i), Tree(std::move(array)));
    }
    SaveOptions options;
    std::tie(options.commit_protocol, options.use_ocdbt) = GetParam();
    options.if_exists = IfExists::kReplace;
    options.durability = Durability::kUnsynced;
    save(path, Tree(std::move(dict)), options);
  };
  save_value(1);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int value = 2; !stop; value = value % 100 + 1) save_value(value);
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
  while (std::chrono::steady_clock::now() < end) {
    const auto loaded = try_call([&] { return load(path); });
    std::set<int> values;
    if (loaded) {
      EXPECT_EQ(loaded.value().dict()->size(), static_cast<std::size_t>(kArrays));
      for (const auto& [name, leaf] : *loaded.value().dict())
        for (const std::byte b : leaf.array()->bytes()) values.insert(std::to_integer<int>(b));
      EXPECT_EQ(values.size(), 1U);
    } else {
      EXPECT_NE(loaded.error().code(), Code::kDataLoss) << loaded.error().message();
    }
    const auto report = try_call([&] { return verify(path, {}); });
    if (report) {
      EXPECT_FALSE(report.value().damaged()) << report.value().findings.front().message;
    }
  }
  stop = true;
  writer.join();
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReplacedLive,
                         ::testing::Combine(::testing::Values(CommitProtocol::kAtomicRename,
                                                              CommitProtocol::kCommitMarker),
                                            ::testing::Bool()));

INSTANTIATE_TEST_SUITE_P(Layouts, Replaced,
                         ::testing::Values(Kind{.name = "checkpoint"},
                                           Kind{.name = "step", .step = true},
                                           Kind{.name = "bare", .bare = true}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace cairn
