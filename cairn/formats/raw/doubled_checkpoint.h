// doubled_checkpoint.h -- a checkpoint whose chunks overlap: what is stored twice is compared when
// it is verified.
#pragma once

#include <cairn/formats/raw/raw_checkpoint.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace cairn::inline v0 {

// Elements of a tensor that a second chunk holds, too.
struct DoubledPart {
  std::size_t tensor = 0;
  Box box;
  RawRun place;  // of the second chunk
};

class DoubledCheckpoint : public RawCheckpoint {
 public:
  // `again`: a checkpoint whose leaves are the second chunks of `doubles`, in order; null if there
  // are none.
  DoubledCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents,
                    std::vector<DoubledPart> doubles, std::unique_ptr<RawCheckpoint> again);
  // Also reads what is stored twice, and compares it.
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;

 private:
  // In which elements the second chunk differs; "" if in none.
  [[nodiscard]] std::string difference(std::size_t i) const;
  void compare_doubles(VerifyPart& part) const;

  std::vector<DoubledPart> doubles_;
  std::unique_ptr<RawCheckpoint> again_;
};

}  // namespace cairn::inline v0
