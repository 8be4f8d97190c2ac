// renamed_test.cc -- folders of a store under other names.
#include <cairn/kvstore/renamed.h>
#include <gmock/gmock.h>

#include "tests/support/faulty_store.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;

StorePtr made() {
  const StorePtr base = make_memory_store();
  base->write("target.w/.zarray", as_bytes("{}"));
  base->write("target.w/0/1", as_bytes("chunk"));
  base->write("target.w2/0", as_bytes("other"));
  base->write("optimizer.target.w/0", as_bytes("hidden"));
  base->write("checkpoint", as_bytes("msgpack"));
  return renamed_store(base, {{"optimizer.target.w", "target.w"}, {"a/b", "target.w"}});
}

TEST(RenamedStore, ShowsFoldersUnderTheirNames) {
  const StorePtr store = made();
  EXPECT_THAT(store->list(""),
              ElementsAre(ListEntry{"a/b/.zarray", 2}, ListEntry{"a/b/0/1", 5},
                          ListEntry{"checkpoint", 7}, ListEntry{"optimizer.target.w/.zarray", 2},
                          ListEntry{"optimizer.target.w/0/1", 5}, ListEntry{"target.w2/0", 5}));
  EXPECT_THAT(store->list("a/"), ElementsAre(ListEntry{"a/b/.zarray", 2}, ListEntry{"a/b/0/1", 5}));
  EXPECT_EQ(as_text(*store->read("optimizer.target.w/0/1", {1, 2})), "hu");
  EXPECT_EQ(as_text(*store->read_at_most("a/b/.zarray", 10)), "{}");
  EXPECT_EQ(as_text(store->map("a/b/0/1")->bytes), "chunk");
  EXPECT_EQ(store->size("target.w2/0"), 5U);
  Bytes two(2);
  EXPECT_TRUE(store->read_into("a/b/0/1", 3, two));
  EXPECT_EQ(as_text(two), "nk");
  EXPECT_EQ(store->describe("a/b/0"), make_memory_store()->describe("target.w/0"));
}

TEST(RenamedStore, OtherKeysAreAbsent) {
  const StorePtr store = made();
  EXPECT_EQ(store->read("optimizer.target.w/0", {}), std::nullopt);  // of the hidden folder
  EXPECT_EQ(store->read("a/c/0/1", {}), std::nullopt);
  EXPECT_EQ(store->locate("a/b/0/1"), std::nullopt);
}

// Keeps the prefixes that were listed.
class ListedStore final : public cairn::testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::vector<ListEntry> list(std::string_view prefix) const override {
    listed.emplace_back(prefix);
    return ForwardingStore::list(prefix);
  }
  mutable std::vector<std::string> listed;
};

TEST(RenamedStore, ListsOnlyWhatCanMatch) {
  const StorePtr base = make_memory_store();
  for (const char* key : {"w/0", "w/1/0", "w.v/0", "w/in/0", "x/w/0", "x/0", "y", "a/hidden"})
    base->write(key, as_bytes(key));
  const auto listed = std::make_shared<ListedStore>(base);
  const StorePtr store =
      renamed_store(listed, {{"a", "w"}, {"b", "w"}, {"in", "w/in"}, {"a.b", "x/w"}, {"w", "v"}});
  const auto all = store->list("");
  EXPECT_THAT(listed->listed, ElementsAre(""));
  EXPECT_EQ(all.size(), 9U);
  struct Case {
    std::string prefix;
    std::vector<std::string> listed;
  };
  const Case cases[] = {
      {"a/", {"a/", "w/"}},       {"a/1", {"a/1", "w/1"}},
      {"b", {"b", "w/"}},         {"a", {"a", "w/", "x/w/"}},
      {"a.b/", {"a.b/", "x/w/"}}, {"in/0", {"in/0", "w/in/0"}},
      {"w/", {"v/", "w/"}},       {"x/", {"x/"}},
      {"w", {"v/", "w"}},         {"none", {"none"}},
      {"a/0x", {"a/0x", "w/0x"}}, {"i", {"i", "w/in/"}},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.prefix);
    std::vector<ListEntry> want;
    for (const ListEntry& entry : all)
      if (entry.key.starts_with(test.prefix)) want.push_back(entry);
    listed->listed.clear();
    EXPECT_EQ(store->list(test.prefix), want);
    EXPECT_EQ(listed->listed, test.listed);
  }
}

TEST(RenamedStore, IsReadOnly) {
  const StorePtr store = made();
  EXPECT_THAT([&] { store->write("a/b/0", {}); }, FailsWith(Code::kUnimplemented, "read-only"));
  EXPECT_THAT([&] { store->remove("a/b/0/1"); }, FailsWith(Code::kUnimplemented, "read-only"));
}

}  // namespace
}  // namespace cairn
