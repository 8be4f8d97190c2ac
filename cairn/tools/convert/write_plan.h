// write_plan.h -- carries out a plan, in any format.
#pragma once

#include <cairn/tools/convert/plan.h>

#include <string>

namespace cairn::inline v0 {

// Writes the target, and adds its files and its compression to the plan's report. Throws the errors
// of reading and writing.
void write_plan(const Checkpoint& source, ConvertPlan& plan, const std::string& target,
                const ConvertOptions& options);

}  // namespace cairn::inline v0
