// verifiable_checkpoint.h -- the base of the library's own readers: a Checkpoint that several
// processes verify together.
#pragma once

#include <cairn/base/verify_part.h>
#include <cairn/base/work_partition.h>
#include <cairn/checkpoint.h>

#include <vector>

namespace cairn::inline v0 {

// A Checkpoint that is verified in parts.
class VerifiableCheckpoint : public Checkpoint {
 public:
  [[nodiscard]] VerifyReport verify(const ProgressFn& progress) const final;
  // Checks one process's share of the bytes. `share` divides the work into parts of about the same
  // number of bytes.
  [[nodiscard]] virtual VerifyPart verify_part(WorkShare share,
                                               const ProgressFn& progress) const = 0;
  // Merges the parts of all processes, given in the order of their shares. The report equals the
  // report of a single process.
  [[nodiscard]] virtual VerifyReport join_verified(std::vector<VerifyPart> parts) const;
};

}  // namespace cairn::inline v0
