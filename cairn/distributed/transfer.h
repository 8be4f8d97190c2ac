// transfer.h -- moves large data between processes in bounded memory.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::inline v0::distributed {

// One block of bytes that one process sends to others.
struct Transfer {
  std::size_t from = 0;
  std::vector<std::size_t> to;  // ascending, at least one, without `from`
  std::uint64_t size = 0;       // bytes
  // Process `from`: the bytes to send. Processes in `to`: the destination. Unused in other
  // processes.
  std::byte* bytes = nullptr;
};

// The limits on memory and message size.
struct TransferLimits {
  // bytes that one process receives in one collective
  std::uint64_t in_flight = std::uint64_t{256} << 20U;
  // bytes that one process sends in one collective
  std::uint64_t message = std::uint64_t{64} << 20U;
};

// Delivers all transfers in as few collectives as the limits allow. In each collective every sender
// sends its next bytes to the receivers that want them. All processes call this function with the
// same transfers in the same order, and then take a step of the same name: in that step, processes
// that have finished learn of a failure in another. Throws what ProcessGroup::exchange throws, and
// data_loss for a message of the wrong length.
void exchange_transfers(const ProcessGroup& group, std::string_view name,
                        std::span<const Transfer> transfers, const TransferLimits& limits);

}  // namespace cairn::inline v0::distributed
