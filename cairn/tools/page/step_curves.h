// step_curves.h -- statistics over the last steps of a run.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/checkpoint.h>
#include <cairn/steps.h>
#include <cairn/tools/page/phases.h>
#include <cairn/tools/page/rows.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0::page {

// The steps and the rows whose curves are drawn.
class StepCurves {
 public:
  // The last `count` complete steps of a directory, and the largest rows of floating-point arrays:
  // 60,000 points at most. `rows` are leaves of the checkpoint. Throws as read_steps(), not_found
  // if no step is complete, and invalid_argument for a count beyond 100.
  StepCurves(const std::string& run, std::size_t count, const OpenOptions& open,
             const Checkpoint& checkpoint, const Rows& rows);

  // The bytes that all steps have together, if they are as the rows say.
  [[nodiscard]] std::uint64_t bytes() const;
  // Opens the steps one after the other, and reads the rows in each. A step or a tensor that cannot
  // be read leaves a gap, and a text that says why.
  [[nodiscard]] Json read(const Resources& resources, Phases& phases) const;

 private:
  class Curves;
  void add_step(const StepRecord& record, const Resources& resources, Phases& phases,
                Curves& curves) const;

  OpenOptions open_;
  std::string item_;  // the only one of the rows; "": see TensorInfo::item
  const Rows& rows_;
  std::vector<StepRecord> steps_;
  std::vector<std::size_t> chosen_;  // rows
  std::vector<std::string> notes_;
};

}  // namespace cairn::inline v0::page
