// key_path_test.cc -- names, text and order of key paths.
#include <cairn/tree.h>
#include <gtest/gtest.h>

#include "tests/tree/short_names.h"

namespace cairn {
namespace {

using testing::d;
using testing::s;

TEST(KeyPath, ParameterNameJoinsWithDotsAndEscapesNothing) {
  EXPECT_EQ(param_name({}), "");
  EXPECT_EQ(param_name({d("a")}), "a");
  EXPECT_EQ(param_name({d("a"), s("0"), d("b.c"), d("/x"), d("")}), "a.0.b.c./x.");
}

TEST(KeyPath, TextIsWhatJaxPrints) {
  EXPECT_EQ(path_text({}), "");
  EXPECT_EQ(path_text({d("a"), s("0"), d("b")}), "['a'][0]['b']");
}

TEST(KeyPath, OrderIsNumericForSequencesAndBytewiseForDicts) {
  const std::vector<KeyPath> sorted = {{},
                                       {s("0")},
                                       {s("9")},
                                       {s("10")},
                                       {s("99999999999999999999")},
                                       {d("")},
                                       {d("10")},
                                       {d("9")},
                                       {d("A")},
                                       {d("a")},
                                       {d("a"), s("2")},
                                       {d("a"), s("10")},
                                       {d("a"), d("")},
                                       {d("a.")},
                                       {d("\xc3\xbc")}};
  for (std::size_t i = 0; i < sorted.size(); ++i)
    for (std::size_t j = 0; j < sorted.size(); ++j)
      EXPECT_EQ(key_path_less(sorted[i], sorted[j]), i < j) << i << " " << j;
  EXPECT_FALSE(key_path_less({s("007")}, {s("7")}));
  EXPECT_FALSE(key_path_less({s("7")}, {s("007")}));
}

}  // namespace
}  // namespace cairn
