// transfer.cc -- splits and joins transfers into messages. All processes compute the same plan, so
// a message is only the bytes of its pieces.
#include <cairn/distributed/transfer.h>

#include <cairn/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace cairn::inline v0::distributed {
namespace {

struct TransferPart {
  const Transfer* transfer = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};
// Consecutive pieces that all go to the same processes.
struct TransferMessage {
  std::vector<TransferPart> pieces;
  std::uint64_t size = 0;
  [[nodiscard]] const std::vector<std::size_t>& to() const { return pieces.front().transfer->to; }
  [[nodiscard]] bool is_for(std::size_t process) const {
    return std::binary_search(to().begin(), to().end(), process);
  }
};
using MessagesBySender = std::map<std::size_t, std::vector<TransferMessage>>;

// Returns the largest size of a message, chosen so that one process's incoming messages from all
// senders stay within the limit.
std::uint64_t message_size(std::span<const Transfer> transfers, const TransferLimits& limits) {
  std::map<std::size_t, std::set<std::size_t>> senders;  // of each receiver
  std::size_t most = 1;
  for (const Transfer& transfer : transfers)
    for (const std::size_t to : transfer.to) {
      auto& of = senders[to];
      of.insert(transfer.from);
      most = std::max(most, of.size());
    }
  return std::max<std::uint64_t>(1, std::min(limits.message, limits.in_flight / most));
}

MessagesBySender plan(std::span<const Transfer> transfers, std::uint64_t most) {
  std::vector<const Transfer*> sorted(transfers.size());
  std::transform(transfers.begin(), transfers.end(), sorted.begin(),
                 [](const Transfer& transfer) { return &transfer; });
  // Transfers to the same processes become neighbours, so no process receives bytes that it does
  // not want.
  std::stable_sort(sorted.begin(), sorted.end(), [](const Transfer* a, const Transfer* b) {
    return std::tie(a->from, a->to) < std::tie(b->from, b->to);
  });
  MessagesBySender messages;
  for (const Transfer* transfer : sorted) {
    std::vector<TransferMessage>& of_sender = messages[transfer->from];
    for (std::uint64_t offset = 0; offset < transfer->size;) {
      const bool goes_on = !of_sender.empty() && of_sender.back().size < most &&
                           of_sender.back().to() == transfer->to;
      TransferMessage& message = goes_on ? of_sender.back() : of_sender.emplace_back();
      const std::uint64_t size = std::min(transfer->size - offset, most - message.size);
      message.pieces.push_back({transfer, offset, size});
      message.size += size;
      offset += size;
    }
  }
  return messages;
}

Bytes pack(const TransferMessage& message) {
  Bytes out(message.size);
  std::size_t at = 0;
  for (const TransferPart& piece : message.pieces) {
    std::memcpy(out.data() + at, piece.transfer->bytes + piece.offset, piece.size);
    at += piece.size;
  }
  return out;
}

void unpack(const TransferMessage& message, std::size_t from, ByteView bytes) {
  if (bytes.size() != message.size)
    throw Error(Code::kDataLoss, fmt::format("process {} sent {} bytes, expected {}", from,
                                             bytes.size(), message.size));
  for (const TransferPart& piece : message.pieces) {
    std::memcpy(piece.transfer->bytes + piece.offset, bytes.data(), piece.size);
    bytes = bytes.subspan(piece.size);
  }
}

}  // namespace

void exchange_transfers(const ProcessGroup& group, std::string_view name,
                        std::span<const Transfer> transfers, const TransferLimits& limits) {
  MessagesBySender messages;
  group.between_exchanges(name,
                          [&] { messages = plan(transfers, message_size(transfers, limits)); });
  std::size_t rounds = 0;
  for (const auto& [from, of_sender] : messages) rounds = std::max(rounds, of_sender.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    const TransferMessage* mine = nullptr;
    std::vector<const TransferMessage*> coming;
    std::vector<std::size_t> senders;
    for (const auto& [from, of_sender] : messages) {
      if (round >= of_sender.size()) continue;
      if (from == group.index()) mine = &of_sender[round];
      if (!of_sender[round].is_for(group.index())) continue;
      coming.push_back(&of_sender[round]);
      senders.push_back(from);
    }
    const auto to =
        mine == nullptr ? std::span<const std::size_t>() : std::span<const std::size_t>(mine->to());
    group.exchange(
        name, {to, senders}, [&] { return mine == nullptr ? Bytes() : pack(*mine); },
        [&](const std::vector<Bytes>& came) {
          for (std::size_t i = 0; i < coming.size(); ++i) unpack(*coming[i], senders[i], came[i]);
        });
  }
}

}  // namespace cairn::inline v0::distributed
