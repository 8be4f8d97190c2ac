// byte_limiter.cc -- grants reservations in any order.
#include <cairn/orbax/byte_limiter.h>

#include <cairn/error.h>

#include <string>

namespace cairn::inline v0 {

ByteLimiter::ByteLimiter(std::optional<std::int64_t> limit_bytes)
    : limit_(limit_bytes), free_(limit_bytes.value_or(0)) {
  if (limit_ && *limit_ <= 0)
    throw Error(Code::kInvalidArgument,
                "the limit is " + std::to_string(*limit_) + " bytes; it must be positive");
}

void ByteLimiter::check(std::int64_t bytes) const {
  if (limit_ && bytes >= *limit_)
    throw Error(Code::kInvalidArgument,
                "needs " + std::to_string(bytes) +
                    " bytes at once, which must be less than the limit of " +
                    std::to_string(*limit_) +
                    " bytes in flight; raise the limit or save in smaller pieces");
}

ByteLimiter::Reservation ByteLimiter::reserve(std::int64_t bytes) {
  check(bytes);
  if (!limit_) return {nullptr, 0};
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return free_ > bytes; });
  free_ -= bytes;
  return {this, bytes};
}

ByteLimiter::Reservation::~Reservation() {
  if (limiter_ == nullptr) return;
  {
    const std::lock_guard lock(limiter_->mutex_);
    limiter_->free_ += bytes_;
  }
  limiter_->freed_.notify_all();
}

}  // namespace cairn::inline v0
