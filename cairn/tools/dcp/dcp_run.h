// dcp_run.h -- a run whose steps are Distributed Checkpoints of PyTorch, in folders like
// 100, step-100 or iter_0000100.
#pragma once

#include <cairn/io/tree/file_tree.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Returns the number at the end of "100", "step-100", "step=100" and "step_00000100"; nullopt for
// other names.
std::optional<std::int64_t> dcp_step_of(std::string_view name);

struct DcpStep {
  std::int64_t step = 0;
  std::string path;
};
// Returns the folders of steps, finished or not, in ascending order. Empty if `folder` is not such
// a run.
std::vector<DcpStep> dcp_steps_in(const FileTree& tree, const std::string& folder);

// A step that is not complete.
struct PassedDcpStep {
  DcpStep step;
  std::string why;
  bool lacks_files = false;  // false: its save has not ended
};
struct ChosenDcpStep {
  DcpStep step;
  std::vector<PassedDcpStep> passed_over;  // the later ones, latest first
};
// Returns the wanted step or, without one, the latest that is complete; nullopt if `folder` is not
// such a run. Throws not_found if the run lacks the wanted step, failed_precondition if no step is
// complete, invalid_argument if two folders are the same step.
std::optional<ChosenDcpStep> choose_dcp_step(const FileTree& tree, const std::string& folder,
                                             std::optional<std::int64_t> wanted);

}  // namespace cairn::inline v0
