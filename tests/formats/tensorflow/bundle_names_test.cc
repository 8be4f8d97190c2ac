// bundle_names_test.cc -- keys of TensorFlow checkpoints as paths of a tree: no two the same, and
// none through another.
#include <cairn/formats/tensorflow/read/bundle_names.h>
#include <gmock/gmock.h>

#include <string>

namespace cairn {
namespace {

using ::testing::ElementsAre;

std::vector<std::vector<std::string>> paths(const std::vector<std::string_view>& keys) {
  std::vector<std::vector<std::string>> texts;
  for (const KeyPath& path : bundle_paths(keys)) {
    auto& steps = texts.emplace_back();
    for (const Key& key : path) steps.push_back(key.text);
  }
  return texts;
}
using Steps = std::vector<std::string>;

TEST(BundlePaths, AreStepsBetweenSlashesAndNotEscaped) {
  EXPECT_THAT(
      paths({"model/w/.ATTRIBUTES/VARIABLE_VALUE", "odd.Sname..x/.ATTRIBUTES/VARIABLE_VALUE",
             "plain", "a.b/c"}),
      ElementsAre(Steps{"model", "w"}, Steps{"odd/name.x"}, Steps{"plain"}, Steps{"a.b", "c"}));
}

TEST(BundlePaths, KeysThatExtendOthersKeepTheirSuffix) {
  EXPECT_THAT(
      paths({"w", "w/Adam", "v/.ATTRIBUTES/VARIABLE_VALUE", "v/x/.ATTRIBUTES/VARIABLE_VALUE"}),
      ElementsAre(Steps{"w", ".ATTRIBUTES", "VARIABLE_VALUE"}, Steps{"w", "Adam"},
                  Steps{"v", ".ATTRIBUTES", "VARIABLE_VALUE"}, Steps{"v", "x"}));
}

// A tensor would be lost in a tree otherwise.
TEST(BundlePaths, KeysThatDifferOnlyInEscapesKeepTheirNames) {
  for (const std::vector<std::string_view>& keys :
       std::vector<std::vector<std::string_view>>{{"a.b", "a..b"},
                                                  {"a..b", "a.b", "a.b/c"},
                                                  {".", "..", "../../x"},
                                                  {"x/y.b", "x/y..b/z", "other"},
                                                  {"a/b.", "a/b.."}}) {
    std::vector<Steps> want;
    for (const std::string_view key : keys) want.push_back({std::string(key)});
    EXPECT_EQ(paths(keys), want);
  }
  EXPECT_THAT(paths({"a..b", "a.c", "a/b"}),
              ElementsAre(Steps{"a.b"}, Steps{"a.c"}, Steps{"a", "b"}));
}

}  // namespace
}  // namespace cairn
