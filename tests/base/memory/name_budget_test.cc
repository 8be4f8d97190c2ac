// name_budget_test.cc -- the limit of expanded names.
#include <cairn/base/memory/name_budget.h>
#include <gtest/gtest.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

TEST(NameBudget, IsAFreePartAndAMultipleOfWhatIsStored) {
  constexpr std::uint64_t kFree = std::uint64_t{256} << 20U;
  check_name_budget(kFree, 0);
  check_name_budget(kFree + 320, 10);
  EXPECT_THAT([] { check_name_budget(kFree + 352, 10); },
              testing::FailsWith(Code::kUnimplemented,
                                 "more than 268435776 bytes of memory, the limit of Cairn for 10"));
  check_name_budget(~std::uint64_t{0}, ~std::uint64_t{0});
}

}  // namespace
}  // namespace cairn
