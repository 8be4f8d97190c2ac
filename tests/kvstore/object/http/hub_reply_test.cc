#include <cairn/kvstore/object/http/hub_reply.h>
#include <gmock/gmock.h>

#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;

const std::string kTree =
    R"([{"type": "directory", "oid": "t1", "size": 0, "path": "a"},)"
    R"( {"type": "file", "oid": "p1", "size": 10, "path": "a/b", "lfs": {"oid": "s1",)"
    R"( "size": 10, "pointerSize": 134}, "xetHash": "x"},)"
    R"( {"type": "file", "oid": "g1", "size": 2, "path": "c", "lfs": null, "lastCommit": {}}])";

TEST(HubReply, ReadsATree) {
  EXPECT_THAT(parse_hub_tree(kTree),
              ElementsAre(HubEntry{"a", true, 0, "t1"}, HubEntry{"a/b", false, 10, "s1"},
                          HubEntry{"c", false, 2, "g1"}));
  EXPECT_TRUE(parse_hub_tree("[]").empty());
}

TEST(HubReply, RefusesDamagedTrees) {
  for (const char* bad :
       {"", "{}", "null", "[1]", "[{}]", R"([{"type": "file", "size": 1}])",
        R"([{"type": "file", "path": "a"}])", R"([{"type": "file", "path": "", "size": 1}])",
        R"([{"type": "link", "path": "a", "size": 1}])", R"([{"path": "a", "size": 1}])",
        R"([{"type": "file", "path": "a", "size": -1}])",
        R"([{"type": "file", "path": "a", "size": "1"}])",
        R"([{"type": "file", "path": "a", "size": 1.5}])",
        R"([{"type": "file", "path": "a", "size": 99999999999999999999}])",
        R"([{"type": "file", "path": 5, "size": 1}])",
        R"([{"type": "file", "path": "a", "size": 1, "oid": 7}])",
        R"([{"type": "file", "path": "a", "size": 1, "lfs": []}])",
        R"([{"type": "file", "path": "a", "size": 1, "lfs": {"oid": ""}}])"})
    EXPECT_THAT([&] { parse_hub_tree(bad); }, FailsWith(Code::kDataLoss)) << bad;
  EXPECT_THAT([&] { parse_hub_tree(std::string(100000, '[')); }, FailsWith(Code::kDataLoss));
  EXPECT_THAT([&] { parse_hub_tree(R"([{"path": ")" + std::string(5000, 'p') + "\"}]"); },
              FailsWith(Code::kDataLoss, "too long"));
  cairn::testing::for_each_truncation(as_bytes(kTree), [](ByteView bad, const std::string& what) {
    EXPECT_THAT([&] { parse_hub_tree(as_text(bad)); }, FailsWith(Code::kDataLoss)) << what;
  });
}

TEST(HubReply, ReadsACommit) {
  const std::string hash = "0123456789abcdef0123456789abcdef01234567";
  EXPECT_EQ(parse_hub_commit(R"({"id": "me/model", "sha": ")" + hash + R"(", "siblings": []})"),
            hash);
  const std::string bad_commits[] = {"{}",
                                     "[]",
                                     R"({"sha": "main"})",
                                     R"({"sha": 5})",
                                     R"({"sha": ")" + hash + "0\"}",
                                     R"({"sha": "0123456789ABCDEF0123456789ABCDEF01234567"})"};
  for (const std::string& bad : bad_commits)
    EXPECT_THAT([&] { parse_hub_commit(bad); }, FailsWith(Code::kDataLoss)) << bad;
}

TEST(HubReply, ReadsLinks) {
  EXPECT_EQ(next_of_link("<https://h/a?cursor=x>; rel=\"next\""), "https://h/a?cursor=x");
  EXPECT_EQ(next_of_link("<https://h/1>; rel=\"first\", <https://h/2>; rel=\"next\""),
            "https://h/2");
  for (const char* none : {"", "<", "<>", "<>; rel=\"next\"", "<https://h/1>", ">; rel=\"next\"<",
                           "<https://h/1; rel=\"next\"", "<https://h/1>; rel=\"last\""})
    EXPECT_EQ(next_of_link(none), std::nullopt) << none;
}

}  // namespace
}  // namespace cairn::object
