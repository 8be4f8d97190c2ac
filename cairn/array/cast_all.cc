// cast_all.cc -- cuts conversions into tasks of like sizes: a part of a large array, or many small
// ones.
#include <cairn/array/cast_all.h>

#include <cairn/array/box.h>

#include <algorithm>
#include <cstdint>
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

}  // namespace

void cast_all(std::span<const Cast> casts, Executor& executor) {
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
  executor.for_each(tasks.size(), [&](std::size_t t) {
    const CastTask& task = tasks[t];
    const Cast& first = casts[task.first];
    if (task.part.rank() != 0)
      return cast_elements(subview(first.from, task.part), subview(first.to, task.part));
    for (const Cast& cast : casts.subspan(task.first, task.count))
      cast_elements(cast.from, cast.to);
  });
}

}  // namespace cairn::inline v0
