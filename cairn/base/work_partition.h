// work_partition.h -- divides a sequence of items among processes. Each process gets a consecutive
// run of about the same number of bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cairn::inline v0 {

// One process's share of work that `count` processes do together.
struct WorkShare {
  std::size_t index = 0, count = 1;  // index < count
};

// The minimum size of a part in bytes. Smaller parts are not worth dividing further.
inline constexpr std::uint64_t kLeastPart = std::uint64_t{4} << 20U;

// Returns the number of units that together make a part of at least kLeastPart bytes.
inline std::uint64_t least_part(std::uint64_t unit_bytes) {
  return std::max<std::uint64_t>(
      (kLeastPart + unit_bytes - 1) / std::max<std::uint64_t>(unit_bytes, 1), 1);
}

// Every process iterates over the same sequence and gets its own share. Each part belongs to
// exactly one process, and the parts of a process are consecutive.
class WorkPartition {
 public:
  // `total` is the sum of the weights of all items that are passed to next().
  WorkPartition(WorkShare share, std::uint64_t total)
      : begin_(at(share.index, share.count, total)),
        end_(at(share.index + 1, share.count, total)) {}

  // Returns the weight of an item of `bytes` bytes. An empty item counts too, because a process
  // must own it. The upper bound prevents an overflow of the sum when untrusted metadata states
  // huge sizes.
  static std::uint64_t weight(std::uint64_t bytes) {
    return std::clamp<std::uint64_t>(bytes, 1, std::uint64_t{1} << 40U);
  }

  // The parts [begin, end) of an item that is divided into equal parts.
  struct Run {
    std::uint64_t begin = 0, end = 0;
    [[nodiscard]] bool empty() const { return begin == end; }
  };
  // Advances to the next item and returns which of its `parts` belong to this process.
  Run next(std::uint64_t weight, std::uint64_t parts) {
    const std::uint64_t offset = at_;
    at_ += weight;
    const auto first_at = [&](std::uint64_t place) {
      if (place <= offset) return std::uint64_t{0};
      if (place >= at_) return parts;
      return ceil_of_share(place - offset, parts, weight);
    };
    return {first_at(begin_), first_at(end_)};
  }

 private:
  __extension__ using Wide = unsigned __int128;

  static std::uint64_t at(std::size_t index, std::size_t count, std::uint64_t total) {
    return static_cast<std::uint64_t>(Wide{total} * index / count);
  }
  // Returns the first part that begins at or after this position.
  static std::uint64_t ceil_of_share(std::uint64_t place, std::uint64_t parts,
                                     std::uint64_t weight) {
    return static_cast<std::uint64_t>((Wide{place} * parts + weight - 1) / weight);
  }

  std::uint64_t begin_, end_;  // the run of this process
  std::uint64_t at_ = 0;
};

}  // namespace cairn::inline v0
