// transfer.h -- many bytes from the processes that have them to those that want them, in bounded
// memory.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::distributed {

struct Transfer {
  std::size_t from = 0;
  std::vector<std::size_t> to;  // ascending, at least one, without `from`
  std::uint64_t size = 0;       // bytes
  // In `from` what is sent, in those of `to` where it goes; of no meaning in others.
  std::byte* bytes = nullptr;
};

struct ParcelLimits {
  // bytes that come to one process in one meeting
  std::uint64_t in_flight = std::uint64_t{256} << 20U;
  std::uint64_t message = std::uint64_t{64} << 20U;  // bytes from one process in one meeting
};

// Delivers all transfers, in as few meetings as the limits allow, in each of which every sender
// gives its next bytes to those who want them. All processes call it alike, with the same transfers
// in the same order, and then take a step of that name, where those learn of it who are through
// when somebody fails. Throws what ProcessGroup::deliver does; data_loss for a message of another
// length than is due.
void deliver_parcels(const ProcessGroup& group, std::string_view name,
                     std::span<const Transfer> transfers, const ParcelLimits& limits);

}  // namespace cairn::distributed
