// device_copy_limit.h -- the limit on the bytes that the saves of a handler copy from devices at
// once: fixed, adapted from save to save, or none.
#pragma once

#include <cairn/orbax/byte_limiter.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/save/memory_regulator.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace cairn::inline v0::orbax {

// Not safe for concurrent use.
class DeviceCopyLimit {
 public:
  static constexpr std::uint64_t kNone = UINT64_MAX;

  // Takes save_device_host_concurrent_gb or _bytes. Throws invalid_argument for both, for one that
  // is not positive, and for AutoLimit without its upper bound. Keeps a reference to the options.
  explicit DeviceCopyLimit(const PyTreeCheckpointHandlerOptions& options);

  // Adapts the limit to the use of memory, before a save. Saves that are under way keep theirs.
  void regulate();
  // Null: there is no limit.
  [[nodiscard]] const std::shared_ptr<ByteLimiter>& limiter() const { return limiter_; }
  // The most bytes that are copied at once, in whole units of the buffer; kNone without a limit.
  [[nodiscard]] std::uint64_t batch_bytes() const;

 private:
  void set(std::int64_t bytes) { limiter_ = std::make_shared<ByteLimiter>(bytes); }

  const PyTreeCheckpointHandlerOptions& options_;
  std::shared_ptr<ByteLimiter> limiter_;
  std::optional<MemoryRegulator> regulator_;  // of AutoLimit
};

}  // namespace cairn::inline v0::orbax
