// read_tasks.h -- combines the units of a plan into tasks for workers: sorts them by file and
// offset, and joins neighbours into one read.
#pragma once

#include <cairn/zarr/read/read_plan.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0::zarr {

// largest gap in bytes between neighbours that is read and discarded
inline constexpr std::uint64_t kRunGap = std::uint64_t{16} << 10U;
// largest size of a run of neighbours in a local file in bytes: fits a second-level cache
inline constexpr std::uint64_t kRunBytes = std::uint64_t{1} << 20U;
// the most bytes of one request to a store
inline constexpr std::uint64_t kMostRequest = std::uint64_t{8} << 20U;

// The kinds of work that one worker does without interruption.
enum class TaskKind : std::uint8_t {
  // one read of [offset, offset + length), which contains units [first, first + count); then
  // decodes each
  kRun,
  kPiece,  // [offset, offset + length) of the destination of the direct unit `first`
  kApart,  // units [first, first + count), each with a read of its own
};
// The work of one worker.
struct Task {
  TaskKind kind = TaskKind::kRun;
  std::size_t first = 0;
  std::size_t count = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t nbytes = 0;  // destination bytes
};

// Returns whether both units want elements of the same stored value.
bool same_value(std::span<const BoxRead> reads, const Unit& a, const Unit& b);

// Sorts the units and cuts them into tasks. Returns the tasks in the order in which workers start
// them. Ranges in a store become requests of equal size, as many as are sent at once or more.
std::vector<Task> make_tasks(std::span<const BoxRead> reads, std::vector<Unit>& units);

}  // namespace cairn::inline v0::zarr
