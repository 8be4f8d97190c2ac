// sort_runs.h -- sorts what is nearly sorted already.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Sorts like std::sort. Items in a few sorted runs, as several threads produce them, are merged,
// which takes a fraction of the time.
template <class T, class Before>
void sort_runs(std::vector<T>& items, const Before& before) {
  constexpr std::size_t kShortRun = 16;
  std::vector<std::size_t> ends;  // of the runs
  for (auto at = items.begin(); at != items.end();) {
    at = std::is_sorted_until(at, items.end(), before);
    ends.push_back(static_cast<std::size_t>(at - items.begin()));
    if (ends.size() > 1 + items.size() / kShortRun) {
      std::sort(items.begin(), items.end(), before);
      return;
    }
  }
  const auto at = [&](std::size_t i) { return items.begin() + static_cast<std::ptrdiff_t>(i); };
  while (ends.size() > 1) {
    std::vector<std::size_t> merged;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      const std::size_t end = ends[std::min(i + 1, ends.size() - 1)];
      std::inplace_merge(at(begin), at(ends[i]), at(end), before);
      merged.push_back(begin = end);
    }
    ends = std::move(merged);
  }
}

}  // namespace cairn::inline v0
