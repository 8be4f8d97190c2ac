// store_rewrites_test.cc -- reshard(), export_leaf() and compact_databases() with the URL of a
// store as their target, and what a fault at any request leaves.
#include <cairn/base/cancellation.h>
#include <cairn/cairn.h>
#include <cairn/kvstore/memory_names.h>
#include <cairn/npz.h>
#include <cairn/orbax/aggregate_handler.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/faulty_store.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/upload.h"

namespace cairn {
namespace {

using ::testing::AnyOf;
using testing::FailsWith;
using testing::FaultyStore;
using testing::StoreFault;
using testing::TempDir;

const std::string kDemo = std::string(CAIRN_GOLDEN_DIR) + "/orbax/demo";

std::string new_rewrite_store() {
  static std::atomic<int> count{0};
  return "store_rewrites_" + std::to_string(count++);
}

Tree matrix_tree(float first) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), first);
  return Tree(Tree::Dict{{"m", Tree(Array::from<float>(values, {6, 4}))},
                         {"name", Tree(std::string("text"))}});
}

std::vector<std::string> names_below(const std::string& url) {
  std::vector<std::string> keys;
  for (const ListEntry& entry : open_store(url)->list("")) keys.push_back(entry.key);
  return keys;
}

ReshardOptions in_rows(IfExists if_exists = IfExists::kFail) {
  return {.mesh = make_mesh({2}, {"x"}), .specs = {{"m", {{"x"}}}}, .if_exists = if_exists};
}

// ---- reshard ----

TEST(StoreRewrites, ReshardWritesWhatItWritesToAFolder) {
  const TempDir dir;
  const std::string url = "memory://" + new_rewrite_store();
  save(dir / "source", matrix_tree(1));
  testing::upload(dir / "source", url + "/source");
  const ReshardReport local = reshard(*open(dir / "source"), dir / "rows", in_rows());
  for (const std::string& from : {dir / "source", url + "/source"}) {
    SCOPED_TRACE(from);
    const std::string target = url + "/rows/";
    ReshardOptions dry = in_rows(IfExists::kReplace);
    dry.dry_run = true;
    const auto before = names_below(url);
    (void)reshard(*open(from), target, dry);
    EXPECT_EQ(names_below(url), before);
    const ReshardReport report = reshard(*open(from), target, in_rows(IfExists::kReplace));
    EXPECT_EQ(report.arrays.size(), local.arrays.size());
    EXPECT_EQ(report.device_bytes, local.device_bytes);
    EXPECT_EQ(load(target), matrix_tree(1));
    EXPECT_EQ(verify(target).verdict(), Verdict::kGood);
    const auto wanted = open(dir / "rows"), stored = open(target);
    const std::size_t m = stored->index("m");
    EXPECT_EQ(stored->tensors()[m].chunk_shape, (Shape{3, 4}));
    EXPECT_EQ(stored->tensors()[m].sharding, wanted->tensors()[wanted->index("m")].sharding);
    EXPECT_THAT([&] { (void)reshard(*open(from), target, in_rows()); },
                FailsWith(Code::kAlreadyExists, "already exists"));
  }
}

TEST(StoreRewrites, ReshardDoesNotReplaceItsSource) {
  const std::string url = "memory://" + new_rewrite_store();
  save(url + "/source", matrix_tree(1));
  for (const std::string& target : {url + "/source", url})
    EXPECT_THAT([&] { (void)reshard(*open(url + "/source"), target, in_rows(IfExists::kReplace)); },
                FailsWith(Code::kAlreadyExists, "holds the source checkpoint"));
  EXPECT_THAT([&] { (void)reshard(*open(url + "/source"), url + "/source/rows", in_rows()); },
              FailsWith(Code::kInvalidArgument, "lies in the source checkpoint"));
  EXPECT_EQ(load(url + "/source"), matrix_tree(1));
}

// ---- faults ----

// Runs `rewrite` on a store whose requests fail from some number on, for each number in turn, until
// none fails. `prepare` fills the store, and `check` looks at what is left: whether the rewrite has
// succeeded, and the URL.
void fail_at_every_request(const std::function<void(const std::string& url)>& prepare,
                           const std::function<void(const std::string& url)>& rewrite,
                           const std::function<void(const std::string& url, bool ok)>& check) {
  constexpr int kMostRequests = 1000;
  for (const bool happens : {false, true}) {
    for (int operation = 0;; ++operation) {
      SCOPED_TRACE(std::to_string(operation) + (happens ? " happens" : ""));
      ASSERT_LT(operation, kMostRequests);
      const std::string name = new_rewrite_store();
      const StorePtr base = make_memory_store();
      name_memory_store(name, base);
      prepare("memory://" + name);
      const auto faulty = std::make_shared<FaultyStore>(
          base,
          StoreFault{.operation = operation, .lasts = true, .reads = true, .happens = happens});
      name_memory_store(name, faulty);
      const auto done = try_call([&] { return rewrite("memory://" + name), true; });
      name_memory_store(name, base);
      check("memory://" + name, done.ok());
      if (done.ok() && !faulty->failed()) break;
    }
  }
}

TEST(StoreRewrites, AFaultOfAReshardLeavesNothingThatLooksWhole) {
  const TempDir dir;
  save(dir / "source", matrix_tree(1));
  const auto source = open(dir / "source");
  fail_at_every_request(
      [](const std::string& url) { save(url + "/rows", matrix_tree(2)); },
      [&](const std::string& url) {
        (void)reshard(*source, url + "/rows", in_rows(IfExists::kReplace));
      },
      [](const std::string& url, bool ok) {
        const auto found = try_call([&] { return load(url + "/rows"); });
        if (ok || found) {
          ASSERT_TRUE(found.ok()) << found.error().what();
          EXPECT_TRUE(found.value() == matrix_tree(1) || (!ok && found.value() == matrix_tree(2)));
        } else {
          EXPECT_THAT(found.error().code(),
                      AnyOf(Code::kNotFound, Code::kFailedPrecondition, Code::kInvalidArgument));
        }
      });
}

TEST(StoreRewrites, AFaultOfACompactionLeavesTheCheckpoint) {
  const Tree demo = load(kDemo);
  fail_at_every_request([](const std::string& url) { testing::upload(kDemo, url + "/run"); },
                        [](const std::string& url) { (void)compact_databases(url + "/run"); },
                        [&](const std::string& url, bool ok) {
                          EXPECT_EQ(load(url + "/run"), demo);
                          const VerifyReport report = verify(url + "/run");
                          EXPECT_FALSE(report.damaged());
                          if (ok) {
                            EXPECT_EQ(report.verdict(), Verdict::kGood);
                          }
                        });
}

TEST(StoreRewrites, AFaultOfAnExportLeavesNoPartOfAFile) {
  const TempDir dir;
  save(dir / "source", matrix_tree(1));
  const auto source = open(dir / "source");
  const std::size_t m = source->index("m");
  fail_at_every_request(
      [](const std::string& url) { open_store(url)->write("m", as_bytes("old")); },
      [&](const std::string& url) { (void)export_leaf(*source, m, {}, url + "/m"); },
      [](const std::string& url, bool ok) {
        // Removed, if the store has taken it but could not be asked for its size.
        const std::uint64_t size = open_store(url)->size("m").value_or(0);
        EXPECT_TRUE(size == 96 || (!ok && (size == 3 || size == 0))) << size;
      });
}

// ---- compact ----

// A tree with a value that no node of a database holds.
Tree large_tree() {
  return Tree(Tree::Dict{{"w", Tree(Array::from<float>(std::vector<float>(10'000), {10'000}))}});
}

TEST(StoreRewrites, CompactTellsItsProgress) {
  const TempDir dir;
  for (const std::string& place : {dir / "run", "memory://" + new_rewrite_store() + "/run"}) {
    SCOPED_TRACE(place);
    save(place, large_tree(), {.compression = Compression::kNone});
    std::vector<std::pair<std::uint64_t, std::uint64_t>> calls;
    (void)compact_databases(place, {.progress = [&](std::uint64_t done, std::uint64_t total) {
                              calls.emplace_back(done, total);
                            }});
    ASSERT_FALSE(calls.empty());
    EXPECT_EQ(calls.back().first, calls.back().second);
    EXPECT_EQ(calls.back().second, 40'000U);
    EXPECT_EQ(load(place), large_tree());
  }
}

TEST(StoreRewrites, CompactCanBeStopped) {
  const TempDir dir;
  for (const std::string& place : {dir / "run", "memory://" + new_rewrite_store() + "/run"}) {
    SCOPED_TRACE(place);
    save(place, large_tree());
    const auto before = names_below(place);
    std::stop_source stop;
    stop.request_stop();
    EXPECT_THAT([&] { (void)compact_databases(place, {.cancel = stop.get_token()}); },
                FailsWith(Code::kCancelled));
    EXPECT_EQ(names_below(place), before);
    EXPECT_EQ(load(place), large_tree());
  }
}

// A store whose reads of values end only when the work that needs them is stopped, after `asked` is
// set.
class WaitingStore final : public testing::ForwardingStore {
 public:
  WaitingStore(StorePtr base, const std::atomic<bool>& asked)
      : ForwardingStore(std::move(base)), asked_(asked) {}
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    asked_.wait(false);
    // Until the exception has stopped the compaction.
    for (int i = 0; i < 20'000; ++i) {
      throw_if_cancelled();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ForwardingStore::read_into(key, offset, out);
  }

 private:
  const std::atomic<bool>& asked_;
};

TEST(StoreRewrites, AnExceptionOfProgressStopsACompaction) {
  const std::string name = new_rewrite_store();
  const std::string url = "memory://" + name + "/run";
  const StorePtr base = make_memory_store();
  name_memory_store(name, base);
  save(url, large_tree(), {.compression = Compression::kNone});
  const auto before = names_below(url);
  std::atomic<bool> asked = false;
  name_memory_store(name, std::make_shared<WaitingStore>(base, asked));
  const auto progress = [&](std::uint64_t /*done*/, std::uint64_t total) {
    EXPECT_EQ(total, 40'000U);
    asked = true;
    asked.notify_all();
    throw std::runtime_error("enough");
  };
  EXPECT_THROW((void)compact_databases(url, {.progress = progress}), std::runtime_error);
  name_memory_store(name, base);
  EXPECT_EQ(names_below(url), before);
  EXPECT_EQ(load(url), large_tree());
}

TEST(StoreRewrites, CompactDoesWhatItDoesInAFolder) {
  const TempDir dir;
  const std::string url = "memory://" + new_rewrite_store() + "/run";
  testing::upload(kDemo, url);
  std::filesystem::copy(kDemo, dir / "run", std::filesystem::copy_options::recursive);
  const auto local = compact_databases(dir / "run");
  const auto stored = compact_databases(url + "/");
  ASSERT_EQ(stored.size(), local.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    EXPECT_TRUE(stored[i].path.starts_with(url + "/")) << stored[i].path;
    EXPECT_EQ(stored[i].keys, local[i].keys);
    EXPECT_EQ(stored[i].files_before, local[i].files_before);
    EXPECT_EQ(stored[i].bytes_before, local[i].bytes_before);
    EXPECT_EQ(stored[i].files_after, local[i].files_after);
  }
  EXPECT_EQ(load(url), load(kDemo));
  EXPECT_EQ(names_below(url).size(), [&] {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / "run"))
      files += entry.is_regular_file() ? 1 : 0;
    return files;
  }());
  EXPECT_THAT([&] { (void)compact_databases(url, {.item = "none"}); },
              FailsWith(Code::kNotFound, "none"));
  EXPECT_THAT([&] { (void)compact_databases(url + "/nothing"); }, FailsWith(Code::kNotFound));
}

TEST(StoreRewrites, CompactRefusesAnUnfinishedCheckpoint) {
  const std::string url = "memory://" + new_rewrite_store() + "/run";
  save(url, matrix_tree(1));
  const StorePtr store = open_store(url);
  store->remove("commit_success.txt");
  store->write("_CHECKPOINT_METADATA", as_bytes(R"({"init_timestamp_nsecs": 5})"));
  const auto before = names_below(url);
  EXPECT_THAT([&] { (void)compact_databases(url); },
              FailsWith(Code::kFailedPrecondition, "commit_success.txt"));
  EXPECT_EQ(names_below(url), before);
}

// ---- export_leaf ----

TEST(StoreRewrites, ExportWritesTheBytesOfALocalFile) {
  const TempDir dir;
  const std::string url = "memory://" + new_rewrite_store();
  save(dir / "source", matrix_tree(1));
  testing::upload(dir / "source", url + "/source");
  const auto source = open(url + "/source");
  const std::size_t m = source->index("m"), text = source->index("name");
  const auto same = [&](std::size_t index, const ExportOptions& options) {
    const std::uint64_t size = export_leaf(*source, index, options, url + "/out");
    EXPECT_EQ(export_leaf(*source, index, options, dir / "out"), size);
    EXPECT_EQ(*open_store(url)->read("out", {}), read_file(dir / "out"));
    EXPECT_EQ(open_store(url)->size("out"), size);
  };
  std::vector<std::uint64_t> reported;
  const ProgressFn progress = [&](std::uint64_t done, std::uint64_t total) {
    reported.assign({done, total});
  };
  for (const LeafEncoding encoding : {LeafEncoding::kRaw, LeafEncoding::kNpy}) {
    same(m, {.encoding = encoding, .progress = progress});
    same(m, {.encoding = encoding, .slice = "1:3,2"});
    same(m, {.encoding = encoding, .slice = "0:0"});
    same(m, {.encoding = encoding, .memory = 8});
  }
  same(text, {});
  EXPECT_EQ(reported, (std::vector<std::uint64_t>{24 * 4 + 128, 24 * 4 + 128}));
  EXPECT_THAT([&] { (void)export_leaf(*source, text, {.slice = "0"}, url + "/out"); },
              FailsWith(Code::kInvalidArgument, "has no slices"));
}

TEST(StoreRewrites, ExportReplacesNeitherAFolderNorItsSource) {
  const std::string url = "memory://" + new_rewrite_store();
  save(url + "/source", matrix_tree(1));
  save(url + "/one.npz", Tree(Tree::Dict{{"m", *matrix_tree(1).find("m")}}));
  const auto source = open(url + "/source");
  const std::size_t m = source->index("m");
  EXPECT_THAT([&] { (void)export_leaf(*source, m, {}, url + "/source"); },
              FailsWith(Code::kAlreadyExists));
  EXPECT_THAT([&] { (void)export_leaf(*source, m, {}, url + "/source/manifest.ocdbt"); },
              FailsWith(Code::kAlreadyExists, "is a file of the source checkpoint"));
  EXPECT_THAT([&] { (void)export_leaf(*open(url + "/one.npz"), 0, {}, url + "/one.npz"); },
              FailsWith(Code::kAlreadyExists, "is a file of the source checkpoint"));
  EXPECT_EQ(load(url + "/source"), matrix_tree(1));
}

// ---- small doors ----

TEST(StoreRewrites, AMsgpackHandlerWritesToAStore) {
  const std::string url = "memory://" + new_rewrite_store() + "/checkpoint";
  const MsgpackHandler handler;
  EXPECT_THAT([&] { (void)handler.deserialize(url); }, FailsWith(Code::kNotFound));
  for (const float first : {1.0F, 2.0F}) {
    handler.serialize(url, matrix_tree(first));
    EXPECT_EQ(handler.deserialize(url), matrix_tree(first));
  }
}

}  // namespace
}  // namespace cairn
