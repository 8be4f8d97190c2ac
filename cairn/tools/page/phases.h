// phases.h -- one progress for the parts of a work.
#pragma once

#include <cairn/base/cancellation.h>
#include <cairn/checkpoint.h>
#include <cairn/tools/report/capped_sum.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace cairn::inline v0::page {

class Phases {
 public:
  // `total`: the bytes of all parts.
  Phases(ProgressFn progress, std::uint64_t total) : progress_(std::move(progress)), total_(total) {
    report(0);
  }

  // The progress of a part of so many bytes, in whatever unit the part counts.
  [[nodiscard]] ProgressFn of(std::uint64_t bytes) const {
    return [this, bytes](std::uint64_t done, std::uint64_t total) {
      const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
      report(static_cast<std::uint64_t>(std::min(1.0, share) * static_cast<double>(bytes)));
    };
  }
  // So many bytes of the parts are done. Throws if the caller has asked to stop.
  void add(std::uint64_t bytes) {
    add_capped(done_, bytes);
    report(0);
  }

 private:
  void report(std::uint64_t more) const {
    throw_if_cancelled();
    if (progress_) progress_(std::min(total_, done_ + std::min(more, total_ - done_)), total_);
  }

  ProgressFn progress_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
};

}  // namespace cairn::inline v0::page
