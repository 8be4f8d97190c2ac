// work_partition.h -- a line of things that processes deal out among themselves, each a consecutive
// run of about the same number of bytes.
#pragma once

#include <cairn/bytes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cairn {

// Bytes: what is smaller is better left whole.
inline constexpr std::uint64_t kLeastPart = std::uint64_t{4} << 20U;

// How many units to keep together so that they make a part that is worth it.
inline std::uint64_t least_part(std::uint64_t unit_bytes) {
  return std::max<std::uint64_t>(
      (kLeastPart + unit_bytes - 1) / std::max<std::uint64_t>(unit_bytes, 1), 1);
}

// Every process walks along the same line and learns what is its own: each part is one process's,
// and those of a process are neighbours.
class WorkPartition {
 public:
  // total: the weights of all things that next() will be asked about.
  WorkPartition(WorkShare share, std::uint64_t total)
      : begin_(at(share.index, share.count, total)),
        end_(at(share.index + 1, share.count, total)) {}

  // What a thing of so many bytes counts: even an empty one is somebody's, and what untrusted
  // metadata says cannot overflow a sum.
  static std::uint64_t weight(std::uint64_t bytes) {
    return std::clamp<std::uint64_t>(bytes, 1, std::uint64_t{1} << 40U);
  }

  // Parts [begin, end) of a thing that is cut into equal ones.
  struct Run {
    std::uint64_t begin = 0, end = 0;
    [[nodiscard]] bool empty() const { return begin == end; }
  };
  // The next thing in the line: which of its `parts` are this process's.
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
  // The first part that begins at this place or behind it.
  static std::uint64_t ceil_of_share(std::uint64_t place, std::uint64_t parts,
                                     std::uint64_t weight) {
    return static_cast<std::uint64_t>((Wide{place} * parts + weight - 1) / weight);
  }

  std::uint64_t begin_, end_;  // of this process's run of the line
  std::uint64_t at_ = 0;
};

}  // namespace cairn
