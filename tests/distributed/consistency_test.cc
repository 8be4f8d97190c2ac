// Whether processes mean the same, and the first thing that they do not.
#include <cairn/base/byte_io.h>
#include <cairn/distributed/consistency.h>
#include <gtest/gtest.h>

#include "tests/support/matchers.h"
#include "tests/support/processes.h"

namespace cairn::distributed {
namespace {

using Meanings = std::vector<std::pair<std::string, std::string>>;

// What becomes of process 2 of three, where only it means otherwise.
std::string outcome(const Meanings& others, const Meanings& its) {
  const auto errors = testing::run_as_processes(3, [&](const std::shared_ptr<Coordinator>& job) {
    const ProcessGroup group({.coordinator = job});
    ConsistencyCheck consent;
    for (const auto& [name, meaning] : group.index() == 2 ? its : others)
      consent.add(name, meaning);
    std::vector<std::uint64_t> digests;
    for (const Bytes& bytes : group.gather("a", StepKind::kControl, [&] {
           return std::move(ByteWriter().u64(consent.digest())).take();
         }))
      digests.push_back(ByteReader(bytes).u64());
    consent.check(digests, group, "b");
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
  const Meanings meant = {{"a", "float32 (2)"}, {"b", "int8 (3)"}};
  EXPECT_EQ(outcome(meant, meant), "");
  EXPECT_EQ(outcome({}, {}), "");
  EXPECT_EQ(outcome(meant, {{"a", "float32 (2)"}, {"b", "int8 (4)"}}),
            "b: process 2 means int8 (4), process 0 int8 (3)");
  EXPECT_EQ(outcome(meant, {{"a", "float32 (2)"}, {"c", "int8 (3)"}}),
            "b: process 2 has c in its place");
  EXPECT_EQ(outcome(meant, {{"a", "float32 (2)"}}), "b: process 0 has it, process 2 has not");
  EXPECT_EQ(outcome({}, meant), "a: process 2 has it, process 0 has not");
  // The border between name and meaning counts.
  EXPECT_EQ(outcome({{"ab", "c"}}, {{"a", "bc"}}), "ab: process 2 has a in its place");
}

}  // namespace
}  // namespace cairn::distributed
