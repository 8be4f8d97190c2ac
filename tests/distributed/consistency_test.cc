// Whether processes have the same values, and the first one that differs.
#include <cairn/distributed/consistency.h>
#include <gtest/gtest.h>

#include "tests/support/matchers.h"
#include "tests/support/processes.h"

namespace cairn::distributed {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

// The error of three processes of which process 2 has other values; "" if there is none.
std::string outcome(const Values& others, const Values& its) {
  const auto errors = testing::run_as_processes(3, [&](const std::shared_ptr<Coordinator>& job) {
    const ProcessGroup group({.coordinator = job});
    ConsistencyCheck check;
    for (const auto& [name, value] : group.index() == 2 ? its : others) check.add(name, value);
    check.check(group.gather("a", StepKind::kControl, [&] { return check.message(); }), group, "b");
  });
  for (const auto& error : errors) EXPECT_EQ(error.has_value(), errors[0].has_value());
  if (!errors[0]) return "";
  for (const auto& error : errors) {
    EXPECT_EQ(error->code(), Code::kInvalidArgument);
    EXPECT_EQ(error->message(), errors[0]->message());
  }
  return errors[0]->message();
}

TEST(ConsistencyCheck, NamesTheFirstDifference) {
  const Values values = {{"a", "float32 (2)"}, {"b", "int8 (3)"}};
  EXPECT_EQ(outcome(values, values), "");
  EXPECT_EQ(outcome({}, {}), "");
  EXPECT_EQ(outcome(values, {{"a", "float32 (2)"}, {"b", "int8 (4)"}}),
            "b: process 2 has int8 (4), process 0 has int8 (3)");
  EXPECT_EQ(outcome(values, {{"a", "float32 (2)"}, {"c", "int8 (3)"}}),
            "b: process 2 has c instead");
  EXPECT_EQ(outcome(values, {{"a", "float32 (2)"}}), "b: process 0 has it, process 2 does not");
  EXPECT_EQ(outcome({}, values), "a: process 2 has it, process 0 does not");
  // The border between name and value counts.
  EXPECT_EQ(outcome({{"ab", "c"}}, {{"a", "bc"}}), "ab: process 2 has a instead");
}

}  // namespace
}  // namespace cairn::distributed
