// union_test.cc -- several stores as one.
#include <cairn/kvstore/union.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;

TEST(UnionStore, SeesTheKeysOfAllAndTheLastOfEach) {
  const StorePtr a = make_memory_store();
  const StorePtr b = make_memory_store();
  a->write("both", as_bytes("from a"));
  a->write("w/0", as_bytes("zero"));
  b->write("both", as_bytes("b"));
  b->write("w/1", as_bytes("one"));
  const StorePtr both = union_store({a, b});
  EXPECT_THAT(both->list(""),
              ElementsAre(ListEntry{"both", 1}, ListEntry{"w/0", 4}, ListEntry{"w/1", 3}));
  EXPECT_THAT(both->list("w/"), ElementsAre(ListEntry{"w/0", 4}, ListEntry{"w/1", 3}));
  EXPECT_EQ(as_text(*both->read("both", {})), "b");
  EXPECT_EQ(as_text(*both->read("w/0", {1, 2})), "er");
  EXPECT_EQ(as_text(both->map("w/1")->bytes), "one");
  EXPECT_EQ(both->size("w/0"), 4U);
  Bytes two(2);
  EXPECT_TRUE(both->read_into("w/1", 1, two));
  EXPECT_EQ(as_text(two), "ne");
}

TEST(UnionStore, AbsentKeysAreAbsent) {
  const StorePtr none = union_store({});
  EXPECT_EQ(none->read("k", {}), std::nullopt);
  EXPECT_FALSE(none->map("k").has_value());
  EXPECT_EQ(none->size("k"), std::nullopt);
  EXPECT_EQ(none->locate("k"), std::nullopt);
  EXPECT_FALSE(none->read_into("k", 0, {}));
  EXPECT_THAT(none->list(""), ElementsAre());
  EXPECT_EQ(none->describe("k"), "k");
}

TEST(UnionStore, IsReadOnly) {
  const StorePtr store = union_store({make_memory_store()});
  EXPECT_THAT([&] { store->write("k", as_bytes("v")); },
              FailsWith(Code::kUnimplemented, "read-only"));
  EXPECT_THAT([&] { store->remove("k"); }, FailsWith(Code::kUnimplemented, "read-only"));
}

}  // namespace
}  // namespace cairn
