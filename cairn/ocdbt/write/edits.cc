// edits.cc -- sorts changes and computes their net effect.

#include <cairn/ocdbt/write/edits.h>

#include <cairn/base/sort_runs.h>

#include <algorithm>
#include <compare>
#include <iterator>
#include <utility>

namespace cairn::inline v0::ocdbt {
namespace {

bool before(const Edit& a, const Edit& b) {
  const auto order = a.entry.key <=> b.entry.key;
  return std::is_eq(order) ? a.sequence < b.sequence : std::is_lt(order);
}

// Each stream of a new checkpoint got the metadata of the arrays and then their values, both in the
// order of their names: a few sorted runs.
std::vector<Edit> last_of_each_key(std::vector<Edit> edits) {
  sort_runs(edits, before);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < edits.size(); ++i)
    if (i + 1 == edits.size() || edits[i + 1].entry.key != edits[i].entry.key)
      edits[kept++] = edits[i];
  edits.resize(kept);
  return edits;
}

void drop_what_ranges_removed(std::vector<Edit>& edits, const std::vector<RangeRemoval>& removed) {
  const auto key = [](const Edit& e) { return e.entry.key; };
  for (const auto& [range, sequence] : removed) {
    const auto first = std::ranges::lower_bound(edits, std::string_view(range.first), {}, key);
    const auto last = range.last
                          ? std::ranges::lower_bound(edits, std::string_view(*range.last), {}, key)
                          : edits.end();
    // Only marks the edits, so that many ranges do not move many edits repeatedly.
    for (auto at = first; at < last; ++at)
      if (at->sequence < sequence) at->remove = true;
  }
}

bool ends_before(const KeyRange& a, const std::string& first) { return a.last && *a.last < first; }

std::vector<KeyRange> joined(std::vector<RangeRemoval> removed) {
  std::ranges::sort(removed, {},
                    [](const RangeRemoval& r) -> const std::string& { return r.range.first; });
  std::vector<KeyRange> ranges;
  for (auto& [range, sequence] : removed) {
    if (ranges.empty() || ends_before(ranges.back(), range.first))
      ranges.push_back(std::move(range));
    else if (!range.last || (ranges.back().last && *ranges.back().last < *range.last))
      ranges.back().last = std::move(range.last);
  }
  return ranges;
}

}  // namespace

Edits finalized(const std::vector<EditLog*>& logs) {
  std::vector<Edit> edits;
  std::vector<RangeRemoval> removed;
  std::size_t count = 0;
  for (const EditLog* log : logs) count += log->edits.size();
  if (logs.size() > 1) edits.reserve(count);
  for (EditLog* log : logs) {
    if (logs.size() == 1)
      edits = std::move(log->edits);
    else
      edits.insert(edits.end(), log->edits.begin(), log->edits.end());
    std::ranges::move(log->removed, std::back_inserter(removed));
    *log = {};
  }
  edits = last_of_each_key(std::move(edits));
  drop_what_ranges_removed(edits, removed);
  return {.removed = joined(std::move(removed)), .edits = std::move(edits)};
}

}  // namespace cairn::inline v0::ocdbt
