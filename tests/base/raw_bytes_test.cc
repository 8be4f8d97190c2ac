// Bytes that are not set to zero first: they grow, shrink and move as any vector's.
#include <cairn/base/memory/raw_bytes.h>
#include <cairn/error.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::same_bytes;

// Around the size from which a mapping of its own holds the bytes.
constexpr std::size_t kSizes[] = {1, 4096, (2U << 20U) - 1, 2U << 20U, (2U << 20U) + 1, 9U << 20U};

TEST(RawBytes, AreAligned) {
  for (const std::size_t size : kSizes) {
    RawBytes bytes(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % kArrayAlignment, 0U) << size;
    std::memset(bytes.data(), 7, size);
    EXPECT_TRUE(same_bytes(bytes, RawBytes(size, std::byte{7})));
  }
}

TEST(RawBytes, KeepTheirContentWhenTheyGrow) {
  for (const std::size_t size : kSizes) {
    RawBytes bytes(size, std::byte{7});
    bytes.resize(2 * size);
    const RawBytes before(size, std::byte{7});
    EXPECT_TRUE(same_bytes(ByteView(bytes).first(size), before));
    bytes.resize(size);
    bytes.shrink_to_fit();
    EXPECT_TRUE(same_bytes(bytes, before));
  }
}

TEST(RawBytes, MoveWithoutACopy) {
  RawBytes bytes(3U << 20U, std::byte{7});
  const std::byte* const at = bytes.data();
  const RawBytes moved = std::move(bytes);
  EXPECT_EQ(moved.data(), at);
}

TEST(RawBytes, SayThatTheyDoNotFit) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  EXPECT_THAT([] { RawBytes bytes(kMost); }, FailsWith(Code::kUnavailable, "cannot allocate"));
}

}  // namespace
}  // namespace cairn
