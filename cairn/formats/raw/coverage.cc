#include <cairn/formats/raw/coverage.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::inline v0 {
namespace {

// The price of a part in memory, in steps of comparing chunks.
constexpr std::uint64_t kPartSteps = 50;

// The parts of `box` outside of `hole`, which lies inside it: at most two for each axis.
void cut_out(Box box, const Box& hole, std::vector<Box>& parts) {
  for (std::size_t d = 0; d < box.rank(); ++d) {
    const std::int64_t before = hole.origin[d] - box.origin[d];
    if (before > 0) {
      parts.push_back(box);
      parts.back().shape[d] = before;
    }
    const std::int64_t end = hole.origin[d] + hole.shape[d];
    if (const std::int64_t after = box.origin[d] + box.shape[d] - end; after > 0) {
      parts.push_back(box);
      parts.back().origin[d] = end;
      parts.back().shape[d] = after;
    }
    box.origin[d] = hole.origin[d];
    box.shape[d] = hole.shape[d];
  }
}

class Cover {
 public:
  Cover(std::span<const Box> chunks, std::uint64_t& steps) : chunks_(chunks), steps_(steps) {}

  Coverage run() {
    std::vector<std::size_t> unique = find_unique();
    const auto later = find_overlaps(std::move(unique));
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (is_copy_[i]) continue;
      const auto found = later.find(i);
      if (found == later.end())
        add_part(i, chunks_[i]);
      else
        add_rest(i, found->second);
    }
    return std::move(out_);
  }

 private:
  // Chunks with the same box as a later one are doubles.
  std::vector<std::size_t> find_unique() {
    std::map<std::pair<Shape, Shape>, std::size_t> last;
    std::vector<std::size_t> unique;
    is_copy_.resize(chunks_.size());
    for (std::size_t i = chunks_.size(); i-- > 0;) {
      if (chunks_[i].empty()) continue;
      is_copy_[i] = !last.emplace(std::pair(chunks_[i].origin, chunks_[i].shape), i).second;
      if (is_copy_[i])
        out_.doubles.push_back({i, chunks_[i]});
      else
        unique.push_back(i);
    }
    return unique;
  }

  // The axis along which the chunks begin at the most places.
  [[nodiscard]] std::size_t axis_of(const std::vector<std::size_t>& chunks) const {
    std::size_t best = 0, most = 0;
    for (std::size_t d = 0; d < chunks_[chunks.front()].rank(); ++d) {
      std::vector<std::int64_t> origins;
      origins.reserve(chunks.size());
      for (const std::size_t i : chunks) origins.push_back(chunks_[i].origin[d]);
      std::ranges::sort(origins);
      const auto end = std::unique(origins.begin(), origins.end());
      const auto places = static_cast<std::size_t>(end - origins.begin());
      if (places > most) {
        most = places;
        best = d;
      }
    }
    return best;
  }

  // For each chunk that later ones overlap: these.
  std::map<std::size_t, std::vector<std::size_t>> find_overlaps(std::vector<std::size_t> chunks) {
    std::map<std::size_t, std::vector<std::size_t>> later;
    if (chunks.size() < 2 || chunks_[chunks.front()].rank() == 0) return later;
    const std::size_t axis = axis_of(chunks);
    std::ranges::sort(chunks, {}, [&](std::size_t i) { return chunks_[i].origin[axis]; });
    for (std::size_t a = 0; a < chunks.size(); ++a) {
      const Box& box = chunks_[chunks[a]];
      const std::int64_t end = box.origin[axis] + box.shape[axis];
      for (std::size_t b = a + 1; b < chunks.size(); ++b) {
        if (chunks_[chunks[b]].origin[axis] >= end) break;
        take_steps(1 + box.rank());
        if (!intersect(box, chunks_[chunks[b]])) continue;
        take_steps(kPartSteps);
        later[std::min(chunks[a], chunks[b])].push_back(std::max(chunks[a], chunks[b]));
      }
    }
    for (auto& [chunk, others] : later) std::ranges::sort(others);
    return later;
  }

  // Adds what no later chunk has.
  void add_rest(std::size_t chunk, const std::vector<std::size_t>& later) {
    std::vector<Box> left = {chunks_[chunk]};
    for (const std::size_t other : later) {
      std::vector<Box> next;
      for (Box& box : left) {
        take_steps(kPartSteps);
        const auto common = intersect(box, chunks_[other]);
        if (!common) {
          next.push_back(std::move(box));
          continue;
        }
        out_.doubles.push_back({chunk, *common});
        cut_out(std::move(box), *common, next);
      }
      left = std::move(next);
    }
    for (Box& box : left) add_part(chunk, std::move(box));
  }

  void add_part(std::size_t chunk, Box box) {
    out_.elements += element_count(box.shape);
    out_.parts.push_back({chunk, std::move(box)});
  }

  void take_steps(std::uint64_t steps) {
    if (steps > steps_) data_loss("its chunks overlap each other too often");
    steps_ -= steps;
  }

  std::span<const Box> chunks_;
  std::vector<bool> is_copy_;
  std::uint64_t& steps_;
  Coverage out_;
};

}  // namespace

Coverage cover(std::span<const Box> chunks, std::uint64_t& steps) {
  return Cover(chunks, steps).run();
}

}  // namespace cairn::inline v0
