// read_tasks.cc -- decides which units are read together, and in which order.

#include <cairn/zarr/read/read_tasks.h>

#include <cairn/base/sort_runs.h>

#include <algorithm>
#include <tuple>

namespace cairn::inline v0::zarr {
namespace {

// largest destination size of a run in bytes, so that all threads get work
constexpr std::uint64_t kRunDecoded = std::uint64_t{4} << 20U;
constexpr std::uint64_t kMinPiece = std::uint64_t{1} << 20U;  // piece sizes for a long direct range
constexpr std::uint64_t kMaxPiece = std::uint64_t{8} << 20U;
// a shorter direct range is read together with its neighbours
constexpr std::uint64_t kSmallDirect = std::uint64_t{128} << 10U;
constexpr std::size_t kRunUnits = 256;

// Returns whether `unit`, which follows the units of `task` in sorted order, should join the task.
bool joins(const Task& task, const Unit& last, const Unit& unit) {
  if (task.kind == TaskKind::kPiece || task.count >= kRunUnits ||
      task.nbytes + unit.nbytes > kRunDecoded)
    return false;
  const bool apart = unit.kind == UnitKind::kByKey || unit.kind == UnitKind::kMissing;
  if (task.kind == TaskKind::kApart) return apart && last.kind == unit.kind;
  if (apart || unit.kind == UnitKind::kRows || unit.file != last.file) return false;
  return unit.offset <= task.offset + task.length + kRunGap &&
         unit.offset + unit.length <= task.offset + kRunBytes;
}

Task task_of(const Unit& unit, std::size_t number) {
  const bool in_file = unit.kind == UnitKind::kDirect || unit.kind == UnitKind::kValue ||
                       unit.kind == UnitKind::kSpan;
  return {.kind = in_file ? TaskKind::kRun : TaskKind::kApart,
          .first = number,
          .count = 1,
          .offset = unit.offset,
          .length = unit.length,
          .nbytes = unit.nbytes};
}

std::vector<Task> cut(std::span<const BoxRead> reads, std::span<const Unit> units) {
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    if (unit.kind == UnitKind::kDirect && unit.length >= kSmallDirect) {
      // An eighth each: a thread that starts late, because it did the first read, still leaves no
      // other thread waiting.
      const std::uint64_t piece = std::clamp(unit.length / 8, kMinPiece, kMaxPiece);
      for (std::uint64_t at = 0; at < unit.length; at += piece)
        tasks.push_back({.kind = TaskKind::kPiece,
                         .first = i,
                         .count = 1,
                         .offset = at,
                         .length = std::min(piece, unit.length - at)});
    } else if (!tasks.empty() &&
               (same_value(reads, units[i - 1], unit) || joins(tasks.back(), units[i - 1], unit))) {
      Task& task = tasks.back();
      ++task.count;
      task.nbytes += unit.nbytes;
      task.length = std::max(task.length, unit.offset + unit.length - task.offset);
    } else {
      tasks.push_back(task_of(unit, i));
    }
  }
  return tasks;
}

}  // namespace

bool same_value(std::span<const BoxRead> reads, const Unit& a, const Unit& b) {
  if (a.kind != b.kind || a.chain != b.chain) return false;
  if (a.kind == UnitKind::kValue)
    return a.file == b.file && a.offset == b.offset && a.length == b.length;
  return a.kind == UnitKind::kByKey && a.place.chunk == b.place.chunk &&
         reads[a.place.read].array == reads[b.place.read].array;
}

std::vector<Task> make_tasks(std::span<const BoxRead> reads, std::vector<Unit>& units) {
  // Values without a location are sorted by array and chunk, so that units of one value become
  // neighbours.
  const auto position = [&](const Unit& unit) {
    const bool by_key = unit.kind == UnitKind::kByKey;
    return std::tuple(unit.file, unit.offset, unit.kind,
                      by_key ? reads[unit.place.read].array : nullptr,
                      by_key ? unit.place.chunk : 0);
  };
  const auto before = [&](const Unit& a, const Unit& b) { return position(a) < position(b); };
  sort_runs(units, before);
  std::vector<Task> tasks = cut(reads, units);
  // Slow values start first, so that no thread is still busy with one when the others have
  // finished.
  const auto large = std::stable_partition(
      tasks.begin(), tasks.end(), [](const Task& task) { return task.nbytes > kRunDecoded; });
  std::stable_sort(tasks.begin(), large,
                   [](const Task& a, const Task& b) { return a.nbytes > b.nbytes; });
  return tasks;
}

}  // namespace cairn::inline v0::zarr
