// planned_source.h -- a checkpoint, and what of it will be written.
#pragma once

#include <cairn/tools/convert/plan.h>

namespace cairn {

struct PlannedSource {
  const Checkpoint& source;
  const ConvertPlan& plan;
};

}  // namespace cairn
