// read_tasks.h -- the units of a plan as tasks for workers: sorted by file and offset, neighbours
// in one read.
#pragma once

#include <cairn/zarr/read/read_plan.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::zarr {

// bytes between neighbours that are read and thrown away
inline constexpr std::uint64_t kRunGap = std::uint64_t{16} << 10U;
// of a run of neighbours: fits a second-level cache
inline constexpr std::uint64_t kRunBytes = std::uint64_t{1} << 20U;

// What one worker does without interruption.
enum class TaskKind : std::uint8_t {
  // units [first, first + count): one read of [offset, offset + length), then each is decoded
  kRun,
  kPiece,  // [offset, offset + length) of the destination of the direct unit `first`
  kApart,  // units [first, first + count), each on its own
};
struct Task {
  TaskKind kind = TaskKind::kRun;
  std::size_t first = 0;
  std::size_t count = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t nbytes = 0;  // destination bytes
};

// Whether both want something of one stored value.
bool same_value(std::span<const BoxRead> reads, const Unit& a, const Unit& b);

// Sorts the units, and cuts them into tasks in the order in which they are to be begun.
std::vector<Task> make_tasks(std::span<const BoxRead> reads, std::vector<Unit>& units);

}  // namespace cairn::zarr
