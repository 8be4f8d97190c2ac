// derived_checkpoint.h -- a checkpoint that is computed from another one.
#pragma once

#include <cairn/checkpoint.h>

namespace cairn::inline v0 {

// A checkpoint that is computed from another one.
class DerivedCheckpoint : public Checkpoint {
 public:
  [[nodiscard]] virtual const Checkpoint& source() const = 0;
};

}  // namespace cairn::inline v0
