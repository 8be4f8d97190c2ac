// crash_test.cc -- a commit, a merge or a compaction that ends at any step leaves the old state or
// the new one.
#include <cairn/ocdbt/read/check.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/ocdbt/write/compact.h>
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <string>

#include "tests/ocdbt/support.h"
#include "tests/support/kill_at.h"
#include "tests/support/matchers.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::Ended;
using cairn::testing::FailsWith;
using cairn::testing::FaultyStore;
using cairn::testing::run_and_kill_at;
using cairn::testing::StoreFault;
using ::testing::AnyOf;
using testing::contents;

using Items = std::map<std::string, std::string>;

void write_items(const StorePtr& base, const Items& items, const WriterOptions& options = {}) {
  Writer writer(base, options);
  auto& stream = writer.stream();
  for (const auto& [key, value] : items) stream.write(key, as_bytes(value));
  writer.commit();
}

WriterOptions options_of(ManifestKind kind) {
  Config config;
  config.manifest_kind = kind;
  config.version_tree_arity_log2 = 1;
  config.max_decoded_node_bytes = 200;
  return {.config = config, .version_prefix = "v/", .target_data_file_size = 700};
}

Items some_items(const std::string& name) {
  Items items;
  for (int i = 0; i < 8; ++i)
    items[name + std::to_string(i)] = std::string(static_cast<std::size_t>(i) * 60, name[0]);
  return items;
}

struct Case {
  const char* name;
  std::function<void(const StorePtr&)> prepare;
  std::function<void(const StorePtr&)> change;
};

void several_commits(const StorePtr& base, ManifestKind kind) {
  for (const char* name : {"a", "b", "c", "d"})
    write_items(base, some_items(name), options_of(kind));
}

void replace_and_remove(const StorePtr& base) {
  Writer writer(base, {.target_data_file_size = 300});
  auto& stream = writer.stream();
  for (const auto& [key, value] : some_items("b")) stream.write(key, as_bytes(value + "new"));
  stream.remove("a3");
  stream.remove_range({"c", "d4"});
  writer.commit();
}

void write_children(const StorePtr& base) {
  write_items(prefix_store(base, "p_0/"), some_items("a"));
  write_items(prefix_store(base, "p_1/"), some_items("b"));
}

void merge(const StorePtr& base) {
  Writer writer(base, {});
  writer.copy_database("p_0/");
  writer.copy_database("p_1/");
  writer.commit();
}

void do_compact(const StorePtr& base) {
  compact(base, {.orphans = Orphans::kRemove, .writer = {.target_data_file_size = 700}});
}

const Case kCases[] = {
    {"first_single", [](const StorePtr&) {},
     [](const StorePtr& base) {
       write_items(base, some_items("a"), options_of(ManifestKind::kSingle));
     }},
    {"first_numbered", [](const StorePtr&) {},
     [](const StorePtr& base) {
       write_items(base, some_items("a"), options_of(ManifestKind::kNumbered));
     }},
    {"next_single", [](const StorePtr& base) { several_commits(base, ManifestKind::kSingle); },
     replace_and_remove},
    {"next_numbered", [](const StorePtr& base) { several_commits(base, ManifestKind::kNumbered); },
     replace_and_remove},
    {"merge", write_children, merge},
    {"compact_single", [](const StorePtr& base) { several_commits(base, ManifestKind::kSingle); },
     do_compact},
    {"compact_numbered",
     [](const StorePtr& base) { several_commits(base, ManifestKind::kNumbered); }, do_compact},
    {"compact_merged",
     [](const StorePtr& base) {
       write_children(base);
       merge(base);
     },
     do_compact},
};

constexpr int kFailStep = cairn::testing::kSanitized ? 3 : 1;

class Crash : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const StorePtr base = make_memory_store();
    GetParam().prepare(base);
    before_ = contents(*open_ocdbt(base));
    const auto generation = [&] {
      const auto info = read_database_info(*base);
      return info && info->newest() ? info->newest()->generation : 0;
    };
    old_generation_ = generation();
    GetParam().change(base);
    after_ = contents(*open_ocdbt(base));
  }

  // The state is one of the two, sound, and the change can be made on top of it.
  void expect_whole(const StorePtr& base) {
    const auto info = read_database_info(*base);
    const std::uint64_t generation = info && info->newest() ? info->newest()->generation : 0;
    ASSERT_TRUE(generation == old_generation_ || generation == old_generation_ + 1) << generation;
    ASSERT_EQ(contents(*open_ocdbt(base)), generation == old_generation_ ? before_ : after_);
    VerifyReport report;
    std::set<std::string> files;
    check_database(base, report, files);
    for (const auto& finding : report.findings)
      ADD_FAILURE() << finding.file << ": " << finding.message;
    if (info) {
      write_items(base, {{"next", "n"}});
      Items expected = generation == old_generation_ ? before_ : after_;
      expected["next"] = "n";
      ASSERT_EQ(contents(*open_ocdbt(base)), expected);
    }
  }

  Items before_, after_;
  std::uint64_t old_generation_ = 0;
};

// Every operation of the store in turn: it fails once, or it and all after it; what it should do
// has happened, or not.
TEST_P(Crash, AStoreThatFailsAtAnyStepKeepsOneOfTheStates) {
  for (const bool reads : {false, true})
    for (const bool lasts : {false, true})
      for (const bool happens : {false, true}) {
        SCOPED_TRACE(std::string(reads ? "reads too" : "writes") + (lasts ? ", lasts" : ", once") +
                     (happens ? ", happens" : ""));
        int succeeded_all_the_same = 0;
        // The plain build takes every operation; a sanitizer a third, another one for each way.
        const int first = (reads ? 1 : 0) + (lasts ? 2 : 0) + (happens ? 4 : 0);
        for (int n = first % kFailStep;; n += kFailStep) {
          SCOPED_TRACE(n);
          const StorePtr base = make_memory_store();
          GetParam().prepare(base);
          const auto faulty = std::make_shared<FaultyStore>(
              base, StoreFault{.operation = n, .lasts = lasts, .reads = reads, .happens = happens});
          const auto result = try_call([&] {
            GetParam().change(faulty);
            return 0;
          });
          expect_whole(base);
          if (HasFatalFailure()) return;
          if (!faulty->failed()) {
            EXPECT_GT(n, 2);
            break;
          }
          if (result.ok())
            ++succeeded_all_the_same;
          else
            // What cannot be read is damage to a compaction, which looks at everything first.
            EXPECT_THAT([&] { (void)result.value(); },
                        AnyOf(FailsWith(Code::kIo, "the disk is gone"),
                              FailsWith(Code::kDataLoss, "the disk is gone; a damaged database")));
        }
        // Old manifests that cannot be removed are in nobody's way.
        EXPECT_LE(
            succeeded_all_the_same,
            std::string_view(GetParam().name).find("numbered") == std::string_view::npos ? 0 : 4);
      }
}

TEST_P(Crash, AProcessKilledAtAnySystemCallKeepsOneOfTheStates) {
  for (int n = 0;; n += cairn::testing::kKillStep) {
    SCOPED_TRACE(n);
    const auto dir = cairn::testing::TempDir::in_memory();
    GetParam().prepare(open_file_store(dir.path(), Durability::kUnsynced));
    const Ended ended = run_and_kill_at(n, [&] { GetParam().change(open_file_store(dir.path())); });
    ASSERT_NE(ended, Ended::kBadly);
    expect_whole(open_file_store(dir.path(), Durability::kUnsynced));
    if (HasFatalFailure()) return;
    if (ended == Ended::kWell) {
      EXPECT_GT(n, 8);
      return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Changes, Crash, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST(Writer, KeepsItsFilesWhenItCannotKnowWhetherTheManifestIsWritten) {
  class NoManifest final : public testing::ForwardingStore {
   public:
    using ForwardingStore::ForwardingStore;
    bool replace_if(std::string_view, std::optional<ByteView>, ByteView) override {
      throw Error(Code::kIo, "no");
    }
  };
  const StorePtr base = make_memory_store();
  EXPECT_THAT([&] { write_items(std::make_shared<NoManifest>(base), some_items("a")); },
              FailsWith(Code::kIo, "no"));
  EXPECT_FALSE(base->list("d/").empty())
      << "the manifest may have been written all the same, so its files must stay";
  EXPECT_FALSE(base->size(kManifestKey));
}

}  // namespace
}  // namespace cairn::ocdbt
