// transaction_test.cc -- changes to a database by OcdbtTransaction: all or nothing, on top of the
// commits of others. What TensorStore makes of them is in tests/interop/storage/test_kv_store.py.
#include <cairn/base/executor.h>
#include <cairn/storage/ocdbt.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "tests/ocdbt/support.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::TempDir;
using ocdbt::testing::contents;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

OcdbtCommit put(const StorePtr& base, const std::string& key, const std::string& value) {
  OcdbtTransaction changes(base);
  changes.write(key, as_bytes(value));
  return changes.commit();
}

TEST(OcdbtTransaction, ChangesBecomeOneVersion) {
  const StorePtr base = make_memory_store();
  const std::string large(5000, 'x');
  OcdbtTransaction first(base);
  first.write("a", as_bytes("1"));
  first.write("b", as_bytes(large));
  first.write("c/x", as_bytes("2"));
  EXPECT_THAT(contents(*open_ocdbt(base)), IsEmpty());
  const OcdbtCommit made = first.commit();
  EXPECT_EQ(made.generation, 1U);
  EXPECT_EQ(made.num_keys, 3U);
  EXPECT_GT(made.commit_time_ns, 0U);
  EXPECT_THAT(contents(*open_ocdbt(base)),
              UnorderedElementsAre(Pair("a", "1"), Pair("b", large), Pair("c/x", "2")));

  OcdbtTransaction second(base);
  second.write("c/new", as_bytes("gone"));
  second.remove_range(KeyRange::with_prefix("c/"));
  second.write("c/y", as_bytes("3"));
  second.remove("a");
  second.remove("absent");
  EXPECT_EQ(second.commit().generation, 2U);
  EXPECT_THAT(contents(*open_ocdbt(base)),
              UnorderedElementsAre(Pair("b", large), Pair("c/y", "3")));
}

TEST(OcdbtTransaction, IsDiscardedWithoutACommit) {
  const StorePtr base = make_memory_store();
  {
    OcdbtTransaction changes(base);
    changes.write("a", as_bytes(std::string(5000, 'x')));
  }
  EXPECT_THAT(base->list(""), IsEmpty());
}

TEST(OcdbtTransaction, CommitsOnTopOfOthers) {
  const StorePtr base = make_memory_store();
  OcdbtTransaction early(base);
  early.write("a", as_bytes("early"));
  EXPECT_EQ(put(base, "b", "late").generation, 1U);
  EXPECT_EQ(early.commit().generation, 2U);
  EXPECT_THAT(contents(*open_ocdbt(base)),
              UnorderedElementsAre(Pair("a", "early"), Pair("b", "late")));
}

TEST(OcdbtTransaction, RequiredValuesAreThoseAtTheCommit) {
  const StorePtr base = make_memory_store();
  put(base, "a", "1");
  const auto change = [&](const char* key, std::optional<std::string> wanted) {
    OcdbtTransaction changes(base);
    changes.write("out", as_bytes(std::string(5000, 'y')));
    changes.require(key, wanted ? std::optional(as_bytes(*wanted)) : std::nullopt);
    return changes.commit();
  };
  const std::size_t files = base->list("").size();
  EXPECT_THAT([&] { change("a", "2"); }, FailsWith(Code::kFailedPrecondition, "another value"));
  EXPECT_THAT([&] { change("a", "12"); }, FailsWith(Code::kFailedPrecondition, "another value"));
  EXPECT_THAT([&] { change("b", ""); }, FailsWith(Code::kFailedPrecondition, "another value"));
  EXPECT_THAT([&] { change("a", {}); }, FailsWith(Code::kFailedPrecondition, "exists"));
  EXPECT_EQ(base->list("").size(), files) << "the data files of refused commits stay";
  EXPECT_EQ(change("a", "1").generation, 2U);
  EXPECT_EQ(change("b", {}).generation, 3U);

  OcdbtTransaction slow(base);
  slow.require("a", as_bytes("1"));
  slow.write("a", as_bytes("slow"));
  put(base, "a", "fast");
  EXPECT_THAT([&] { slow.commit(); }, FailsWith(Code::kFailedPrecondition, "nothing was changed"));
  EXPECT_EQ(contents(*open_ocdbt(base)).at("a"), "fast");
}

TEST(OcdbtTransaction, CountersOfManyThreadsLoseNothing) {
  const TempDir dir;
  const StorePtr base = open_file_store(dir.path() + "/db", Durability::kUnsynced);
  constexpr std::size_t kThreads = 4;
  constexpr int kTimes = 8;
  default_executor().for_each(kThreads, [&](std::size_t /*thread*/) {
    for (int done = 0; done < kTimes;) {
      const auto old = open_ocdbt(base)->read("count", {});
      const int count = old ? std::stoi(std::string(as_text(*old))) : 0;
      OcdbtTransaction changes(base);
      changes.require("count", old ? std::optional<ByteView>(*old) : std::nullopt);
      changes.write("count", as_bytes(std::to_string(count + 1)));
      try {
        changes.commit();
        ++done;
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::kFailedPrecondition) << error.message();
      }
    }
  });
  EXPECT_THAT(contents(*open_ocdbt(base)),
              ElementsAre(Pair("count", std::to_string(kThreads * kTimes))));
}

TEST(OcdbtTransaction, BadUseIsRefused) {
  const StorePtr base = make_memory_store();
  OcdbtTransaction changes(base);
  EXPECT_THAT([&] { changes.write("", {}); }, FailsWith(Code::kInvalidArgument, "key is empty"));
  EXPECT_THAT([&] { changes.remove(""); }, FailsWith(Code::kInvalidArgument, "key is empty"));
  EXPECT_THAT([&] { changes.require("", {}); }, FailsWith(Code::kInvalidArgument, "key is empty"));
  EXPECT_THAT([&] { changes.write(std::string(65536, 'k'), {}); },
              FailsWith(Code::kInvalidArgument, "65535"));
  changes.write("a", {});
  changes.commit();
  EXPECT_THAT([&] { changes.commit(); }, FailsWith(Code::kFailedPrecondition, "already committed"));
  base->write("manifest.ocdbt", as_bytes("damaged"));
  EXPECT_THAT([&] { OcdbtTransaction next(base); }, FailsWith(Code::kDataLoss, "manifest.ocdbt"));
}

}  // namespace
}  // namespace cairn
