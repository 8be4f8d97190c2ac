// device_copy_limit.cc -- reads the options of the limit, and asks the regulator for the next one.
#include <cairn/orbax/device_copy_limit.h>

#include <cairn/base/observer/observe.h>
#include <cairn/bytes.h>
#include <cairn/error.h>
#include <cairn/orbax/byte_limits.h>

#include <algorithm>
#include <string>
#include <variant>

namespace cairn::inline v0::orbax {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

}  // namespace

DeviceCopyLimit::DeviceCopyLimit(const PyTreeCheckpointHandlerOptions& options)
    : options_(options) {
  const std::string what = "save_device_host_concurrent";
  const auto& given = options.save_device_host_concurrent_gb;
  const auto& bytes = options.save_device_host_concurrent_bytes;
  if (!given && !bytes) return;
  if (given && bytes) refuse_two_limits(what);
  const auto* const gigabytes = given ? std::get_if<std::int64_t>(&*given) : nullptr;
  if (!given || gigabytes != nullptr) {
    set(limit_bytes(gigabytes != nullptr ? std::optional(*gigabytes) : std::nullopt, bytes, what));
    return;
  }
  const auto& most = options.memory_limit_options.max_transfer_concurrent_gb;
  if (!most)
    throw Error(Code::kInvalidArgument,
                "save_device_host_concurrent_gb is 'auto', which needs "
                "memory_limit_options.max_transfer_concurrent_gb");
  regulator_.emplace(*most * 1e9 / kGib);
  set(static_cast<std::int64_t>(regulator_->min_gib() * kGib));
}

void DeviceCopyLimit::regulate() {
  const MemoryLimitOptions& readings = options_.memory_limit_options;
  if (!regulator_ || !readings.read_memory) return;
  const std::int64_t current = *limiter_->limit();
  const double surge = readings.expected_surge_gib ? readings.expected_surge_gib() : 0;
  const MemoryReading reading = readings.read_memory();
  const auto next = static_cast<std::int64_t>(
      regulator_->next_limit(static_cast<double>(current) / kGib, reading, surge) * kGib);
  const bool used = MemoryRegulator::can_use(reading, surge);
  observe(options_.observer, used ? EventLevel::kInfo : EventLevel::kWarning,
          used ? "save.device_limit_set" : "save.device_limit_kept",
          {{"bytes", next},
           {"peak_gib", reading.peak},
           {"total_gib", reading.total},
           {"expected_surge_gib", surge}});
  if (next != current) set(next);
}

std::uint64_t DeviceCopyLimit::batch_bytes() const {
  if (limiter_ == nullptr) return kNone;
  const auto most = static_cast<std::uint64_t>(*limiter_->limit() - 1);
  return std::max<std::uint64_t>(1, most / kArrayAlignment * kArrayAlignment);
}

}  // namespace cairn::inline v0::orbax
