// step_directory.h -- the directory of steps of a training run: which steps there are, what they
// record, and how one of them is removed.
#pragma once

#include <cairn/checkpoint_manager.h>
#include <cairn/io/directory.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

inline constexpr std::string_view kMetricsItem = "metrics";

// The folders whose names are names of steps, in ascending order of the steps. Like Orbax, it takes
// every folder with such a name for a step.
std::vector<std::int64_t> steps_in(const Directory& root, const StepNameFormat& format);

// The step with its time: that of its commit or, if none is recorded, that of the folder's last
// change. With the metrics of its item "metrics"; members that are not numbers are left out.
StepInfo read_step(const std::string& folder, std::int64_t step);
// The metrics of a step; none if there are none. Throws data_loss if the file is not JSON.
std::optional<Metrics> read_metrics(const std::string& folder);
std::string metrics_text(const Metrics& metrics);

// Throws already_exists unless the folder holds a checkpoint and nothing else.
void check_step_removable(const Directory& root, const std::string& name);
// Removes the folder of a step. From the first moment on its name marks it as a leftover, so that a
// kill cannot leave a half-removed step behind. Throws as check_step_removable(). Succeeds if nothing is there.
void remove_step(const Directory& root, const std::string& name);
// Moves the folder of a step to the folder `subfolder` of the root, where it replaces an older one.
// Throws as check_step_removable().
void set_step_aside(const Directory& root, const std::string& name, const std::string& subfolder);

}  // namespace cairn::inline v0::orbax
