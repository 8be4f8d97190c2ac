// written_golden_test.cc -- databases committed again from their commands: every byte as it was
// when TensorStore read them. What they hold, and how they are made anew when the bytes are meant
// to change: tests/golden/ocdbt/make_cairn_golden.py.
#include <cairn/io/file.h>

#include <filesystem>
#include <sstream>

#include "tests/ocdbt/commands.h"
#include "tests/ocdbt/support.h"

#include <gmock/gmock.h>

namespace cairn::ocdbt {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(CAIRN_GOLDEN_DIR) + "/ocdbt/cairn"))
    found.push_back(entry.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

class WrittenGolden : public ::testing::TestWithParam<std::string> {
 protected:
  std::string folder_ = std::string(CAIRN_GOLDEN_DIR) + "/ocdbt/cairn/" + GetParam();
};

TEST_P(WrittenGolden, IsCommittedByteForByte) {
  std::istringstream commands(std::string(as_text(read_file(folder_ + "/commands"))));
  std::string options;
  std::getline(commands, options);
  const StorePtr made = make_memory_store();
  std::ostringstream ignored;
  testing::run_commands(made, testing::parse_options(options), commands, ignored);
  const auto expected = testing::contents(*open_file_store(folder_ + "/db"));
  const auto found = testing::contents(*made);
  for (const auto& [key, bytes] : expected) {
    ASSERT_TRUE(found.contains(key)) << key << " is not written any more";
    EXPECT_TRUE(found.at(key) == bytes) << key << " has other bytes";
  }
  EXPECT_EQ(found.size(), expected.size());
}

TEST_P(WrittenGolden, HoldsWhatTensorStoreReads) {
  std::map<std::string, std::string> expected;
  const Json json = parse_json(as_text(read_file(folder_ + "/contents.json")));
  for (const auto& [key, value] : *json.as_object())
    expected[testing::text_from_hex(key)] = testing::text_from_hex(*value.as_string());
  EXPECT_EQ(testing::contents(*open_ocdbt(open_file_store(folder_ + "/db"))), expected);
}

INSTANTIATE_TEST_SUITE_P(All, WrittenGolden, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace cairn::ocdbt
