// cast_all.cc -- cuts conversions into tasks of like sizes: a part of a large array, or many small
// ones.
#include <cairn/array/cast_all.h>

#include <cairn/array/box.h>
#include <cairn/array/cast_check.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// The elements of a task: their bytes fit a second-level cache.
constexpr std::int64_t kTask = std::int64_t{128} << 10U;

// A range of casts, or a part of one cast.
struct CastTask {
  std::size_t first = 0;
  std::size_t count = 0;
  Box part;  // of rank 0 for whole casts
};

// Halves a box along its first dimensions, so that a part is one run of memory, or a few.
void cut(Box box, std::size_t number, std::vector<CastTask>& tasks) {
  if (element_count(box.shape) <= kTask) {
    tasks.push_back({.first = number, .count = 1, .part = std::move(box)});
    return;
  }
  const auto d = static_cast<std::size_t>(
      std::find_if(box.shape.begin(), box.shape.end(), [](std::int64_t n) { return n > 1; }) -
      box.shape.begin());
  Box second = box;
  box.shape[d] /= 2;
  second.shape[d] -= box.shape[d];
  second.origin[d] += box.shape[d];
  cut(std::move(box), number, tasks);
  cut(std::move(second), number, tasks);
}

// Converts a part of an array, or finds an element that is lost. The part is still in the cache
// when it is read a second time.
std::optional<LostElement> run(const Cast& cast, std::size_t number) {
  if (cast.checked)
    if (auto index = find_lost(cast.from, cast.to.dtype))
      return LostElement{.cast = number, .index = *std::move(index)};
  cast_elements(cast.from, cast.to);
  return std::nullopt;
}

std::optional<LostElement> run(std::span<const Cast> casts, const CastTask& task) {
  const Cast& first = casts[task.first];
  if (task.part.rank() != 0) {
    auto lost = run({.from = subview(first.from, task.part),
                     .to = subview(first.to, task.part),
                     .checked = first.checked},
                    task.first);
    for (std::size_t d = 0; lost && d < lost->index.size(); ++d)
      lost->index[d] += task.part.origin[d];
    return lost;
  }
  for (std::size_t i = task.first; i < task.first + task.count; ++i)
    if (auto lost = run(casts[i], i)) return lost;
  return std::nullopt;
}

// Collects what parallel tasks find.
class FirstLost {
 public:
  void add(std::size_t task, LostElement lost) {
    const std::lock_guard lock(mutex_);
    if (lost_ && task_ < task) return;
    task_ = task;
    lost_ = std::move(lost);
  }
  [[nodiscard]] std::optional<LostElement> take() { return std::move(lost_); }

 private:
  std::mutex mutex_;
  std::size_t task_ = 0;
  std::optional<LostElement> lost_;
};

}  // namespace

std::optional<LostElement> cast_all(std::span<const Cast> casts, Executor& executor) {
  std::vector<CastTask> tasks;
  std::int64_t room = 0;  // for more small casts, in the last task
  for (std::size_t i = 0; i < casts.size(); ++i) {
    const std::int64_t size = element_count(casts[i].from.shape);
    if (size > kTask) {
      cut(Box::whole(casts[i].from.shape), i, tasks);
      room = 0;
    } else if (tasks.empty() || size >= room) {
      tasks.push_back({.first = i, .count = 1, .part = {}});
      room = kTask - size;
    } else {
      ++tasks.back().count;
      room -= size;
    }
  }
  FirstLost found;  // the tasks are in the order of the elements
  executor.for_each(tasks.size(), [&](std::size_t t) {
    if (auto lost = run(casts, tasks[t])) found.add(t, *std::move(lost));
  });
  return found.take();
}

}  // namespace cairn::inline v0
