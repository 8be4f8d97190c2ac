// listing_limits_test.cc -- listings that a store would continue for ever.
#include <cairn/error.h>
#include <cairn/kvstore/object/request/listing_limits.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;

TEST(ListingLimits, EndsAfterManyPagesWithoutNames) {
  ListingLimits limits;
  for (int page = 1; page < ListingLimits::kMostEmptyPages; ++page) limits.check(0);
  limits.check(1);  // the next empty pages count from here
  for (int page = 1; page < ListingLimits::kMostEmptyPages; ++page) limits.check(1);
  EXPECT_THAT([&] { limits.check(1); }, FailsWith(Code::kIo, "does not end"));
}

TEST(ListingLimits, HoldsAnAmountOfNames) {
  ListingLimits limits;
  limits.check(ListingLimits::kMostNames);
  EXPECT_THAT([&] { limits.check(ListingLimits::kMostNames + 1); },
              FailsWith(Code::kIo, "20000000 names"));
}

}  // namespace
}  // namespace cairn::object
