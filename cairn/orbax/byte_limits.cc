// byte_limits.cc -- checks the limits, and turns them into bytes.
#include <cairn/orbax/byte_limits.h>

#include <cairn/error.h>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;
constexpr std::int64_t kDefaultGigabytes = 96;

}  // namespace

void refuse_limit(const std::string& what, std::int64_t number) {
  throw Error(Code::kInvalidArgument,
              what + " is " + std::to_string(number) + "; it must be positive");
}

void refuse_two_limits(const std::string& what) {
  throw Error(Code::kInvalidArgument,
              what + "_gb and " + what + "_bytes set the same limit; give only one");
}

std::int64_t limit_bytes(const std::optional<std::int64_t>& gigabytes,
                         const std::optional<std::int64_t>& bytes, const std::string& what) {
  if (gigabytes && bytes) refuse_two_limits(what);
  if (bytes) {
    if (*bytes <= 0) refuse_limit(what + "_bytes", *bytes);
    return *bytes;
  }
  const std::int64_t given = gigabytes.value_or(kDefaultGigabytes);
  if (given <= 0 || given > INT64_MAX / kGigabyte) refuse_limit(what + "_gb", given);
  return given * kGigabyte;
}

}  // namespace cairn::inline v0::orbax
