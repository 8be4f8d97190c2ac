// stats.cc -- the counts of all stores of the process.
#include <cairn/kvstore/object/request/stats.h>

#include <cairn/storage/store_options.h>

namespace cairn::inline v0 {

namespace object {

StoreStats& process_stats() {
  static StoreStats stats;
  return stats;
}

}  // namespace object

StoreTraffic store_traffic() {
  const object::StoreStats& stats = object::process_stats();
  return {.requests = stats.requests, .received = stats.received, .sent = stats.sent};
}

}  // namespace cairn::inline v0
