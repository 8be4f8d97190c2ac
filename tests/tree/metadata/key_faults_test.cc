// key_faults_test.cc -- keys that form no tree: lists with gaps, and nodes of two kinds.
#include <cairn/tree/metadata/key_faults.h>
#include <gmock/gmock.h>

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Key item(int index) { return {std::to_string(index), KeyType::kSequence}; }
Key key(const std::string& text) { return {text, KeyType::kDict}; }

// The faults, as "<position>: <message>".
std::vector<std::string> faults_of(const std::vector<KeyPath>& paths) {
  std::vector<const KeyPath*> borrowed;
  for (const KeyPath& path : paths) borrowed.push_back(&path);
  std::vector<std::string> found;
  for (const auto& fault : find_key_faults(borrowed))
    found.push_back(std::to_string(fault.leaf) + ": " + fault.message);
  return found;
}

TEST(KeyFaults, TreesHaveNone) {
  EXPECT_THAT(faults_of({}), IsEmpty());
  EXPECT_THAT(faults_of({{}}), IsEmpty());
  EXPECT_THAT(faults_of({{item(0)}, {item(1)}}), IsEmpty());
  EXPECT_THAT(faults_of({{key("a"), item(0), key("x")},
                         {key("a"), item(0), key("y"), item(0), item(0)},
                         {key("a"), item(1)},
                         {key("b"), item(0)},
                         {key("c"), key("0")},
                         {key("c"), key("2")}}),
              IsEmpty());
  std::vector<KeyPath> many;
  for (int i = 11; i >= 0; --i) many.push_back({key("l"), item(i)});
  EXPECT_THAT(faults_of(many), IsEmpty());
}

TEST(KeyFaults, GapsAreNamed) {
  EXPECT_THAT(faults_of({{item(1)}}),
              ElementsAre("0: the root is a list with an item 1, but without an item 0"));
  EXPECT_THAT(faults_of({{key("l"), item(0)}, {key("l"), item(2)}, {key("l"), item(3)}}),
              ElementsAre("1: 'l' is a list with an item 2, but without an item 1"));
  EXPECT_THAT(faults_of({{key("l"), item(0), item(1)}, {key("m"), item(3), key("x")}}),
              ElementsAre("0: 'l.0' is a list with an item 1, but without an item 0",
                          "1: 'm' is a list with an item 3, but without an item 0"));
  EXPECT_THAT(faults_of({{key("l"), item(10)}, {key("l"), item(0)}, {key("l"), item(2)}}),
              ElementsAre("2: 'l' is a list with an item 2, but without an item 1",
                          "0: 'l' is a list with an item 10, but without an item 3"));
}

TEST(KeyFaults, NodesOfTwoKindsAreNamed) {
  EXPECT_THAT(faults_of({{key("l"), key("0")}, {key("l"), item(1)}}),
              ElementsAre("1: 'l' is a list with an item 1, but without an item 0",
                          "0: 'l' has items of a list (1) and keys of a dict ('0')"));
  EXPECT_THAT(faults_of({{item(0), key("x")}, {key("w")}}),
              ElementsAre("1: the root has items of a list (0) and keys of a dict ('w')"));
}

TEST(KeyFaults, FaultyNodesBecomeDicts) {
  const auto texts_of = [](std::vector<KeyPath> paths) {
    std::vector<KeyPath*> borrowed;
    for (KeyPath& path : paths) borrowed.push_back(&path);
    turn_faulty_nodes_into_dicts(borrowed);
    std::vector<std::string> texts;
    for (const KeyPath& path : paths) texts.push_back(path_text(path));
    return texts;
  };
  EXPECT_THAT(texts_of({{item(0)}, {item(1)}}), ElementsAre("[0]", "[1]"));
  EXPECT_THAT(texts_of({{key("l"), item(0)}, {key("l"), item(2)}, {key("m"), item(0)}}),
              ElementsAre("['l']['0']", "['l']['2']", "['m'][0]"));
  EXPECT_THAT(texts_of({{item(1), item(1), item(0)}, {item(1), item(2), item(1)}, {item(2)}}),
              ElementsAre("['1']['1'][0]", "['1']['2']['1']", "['2']"));
  EXPECT_THAT(texts_of({{item(0), key("x")}, {key("w")}}), ElementsAre("['0']['x']", "['w']"));
}

}  // namespace
}  // namespace cairn
