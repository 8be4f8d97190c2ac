// planned_source.h -- a checkpoint together with the plan of its conversion.
#pragma once

#include <cairn/tools/convert/plan.h>

namespace cairn::inline v0 {

// Borrows both.
struct PlannedSource {
  const Checkpoint& source;
  const ConvertPlan& plan;
};

}  // namespace cairn::inline v0
