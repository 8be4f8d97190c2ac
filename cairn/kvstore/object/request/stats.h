// stats.h -- counts of what was exchanged with a store.
#pragma once

#include <atomic>
#include <cstdint>

namespace cairn::inline v0::object {

// Counters that many threads add to and a display reads.
struct StoreStats {
  std::atomic<std::uint64_t> requests{0};  // tries, repeated ones included
  std::atomic<std::uint64_t> answers{0};   // tries that the store has answered, well or badly
  std::atomic<std::uint64_t> retries{0};
  std::atomic<std::uint64_t> received{0};  // bytes of bodies
  std::atomic<std::uint64_t> sent{0};      // bytes of bodies
};

// The sums for all stores, which store_traffic() reports.
StoreStats& process_stats();

}  // namespace cairn::inline v0::object
