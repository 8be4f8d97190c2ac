// read_tasks.cc -- decides which units are read together, and in which order.

#include <cairn/zarr/read/read_tasks.h>

#include <cairn/base/sort_runs.h>

#include <algorithm>
#include <tuple>

namespace cairn::inline v0::zarr {
namespace {

// Bounds of tasks, in bytes but for the last one.
struct Bounds {
  std::uint64_t gap;      // that is read and discarded
  std::uint64_t run;      // of a run of neighbours
  std::uint64_t decoded;  // destination bytes of a run, so that all threads get work
  // a direct range of at least `small` bytes is cut into pieces; a shorter one joins its neighbours
  std::uint64_t small, least_piece, most_piece;
  std::size_t units;  // of a run
};

constexpr Bounds kLocalBounds = {.gap = kRunGap,
                                 .run = kRunBytes,
                                 .decoded = std::uint64_t{4} << 20U,
                                 .small = std::uint64_t{128} << 10U,
                                 .least_piece = std::uint64_t{1} << 20U,
                                 .most_piece = std::uint64_t{8} << 20U,
                                 .units = 256};

bool has_range(const Unit& unit) {
  return unit.kind == UnitKind::kDirect || unit.kind == UnitKind::kValue ||
         unit.kind == UnitKind::kSpan;
}

// All units get the bounds of a store if one is there. A request is so large that its bytes take
// longer than its way, and so small that all connections have one.
Bounds bounds_for(std::span<const Unit> units) {
  constexpr std::uint64_t kLeastRequest = std::uint64_t{1} << 20U, kRequests = 32;
  bool is_remote = false;
  std::uint64_t total = 0;
  for (const Unit& unit : units) {
    is_remote = is_remote || unit.is_remote;
    if (has_range(unit)) total += unit.length;
  }
  if (!is_remote) return kLocalBounds;
  const std::uint64_t request = std::clamp(total / kRequests, kLeastRequest, kMostRequest);
  return {.gap = kRemoteGap,
          .run = request,
          .decoded = std::uint64_t{32} << 20U,
          .small = request,
          .least_piece = request,
          .most_piece = request,
          .units = std::size_t{1} << 14U};
}

// Returns whether `unit`, which follows the units of `task` in sorted order, should join the task.
bool joins(const Task& task, const Unit& last, const Unit& unit, const Bounds& bounds) {
  if (task.kind == TaskKind::kPiece || task.count >= bounds.units ||
      task.nbytes + unit.nbytes > bounds.decoded)
    return false;
  const bool apart = unit.kind == UnitKind::kByKey || unit.kind == UnitKind::kMissing;
  if (task.kind == TaskKind::kApart) return apart && last.kind == unit.kind;
  if (apart || unit.kind == UnitKind::kRows || unit.file != last.file) return false;
  return unit.offset <= task.offset + task.length + bounds.gap &&
         unit.offset + unit.length <= task.offset + bounds.run;
}

Task task_of(const Unit& unit, std::size_t number) {
  return {.kind = has_range(unit) ? TaskKind::kRun : TaskKind::kApart,
          .first = number,
          .count = 1,
          .offset = unit.offset,
          .length = unit.length,
          .nbytes = unit.nbytes};
}

std::vector<Task> cut(std::span<const BoxRead> reads, std::span<const Unit> units,
                      const Bounds& bounds) {
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    if (unit.kind == UnitKind::kDirect && unit.length >= bounds.small) {
      // An eighth each: a thread that starts late, because it did the first read, still leaves no
      // other thread waiting.
      const std::uint64_t piece =
          std::clamp(unit.length / 8, bounds.least_piece, bounds.most_piece);
      for (std::uint64_t at = 0; at < unit.length; at += piece)
        tasks.push_back({.kind = TaskKind::kPiece,
                         .first = i,
                         .count = 1,
                         .offset = at,
                         .length = std::min(piece, unit.length - at)});
    } else if (!tasks.empty() && (same_value(reads, units[i - 1], unit) ||
                                  joins(tasks.back(), units[i - 1], unit, bounds))) {
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
  const Bounds bounds = bounds_for(units);
  std::vector<Task> tasks = cut(reads, units, bounds);
  // Slow values start first, so that no thread is still busy with one when the others have
  // finished.
  const auto large = std::stable_partition(
      tasks.begin(), tasks.end(), [&](const Task& task) { return task.nbytes > bounds.decoded; });
  std::stable_sort(tasks.begin(), large,
                   [](const Task& a, const Task& b) { return a.nbytes > b.nbytes; });
  return tasks;
}

}  // namespace cairn::inline v0::zarr
