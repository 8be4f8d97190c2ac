// distributed_checkpoint.h -- a Distributed Checkpoint that has been read: its leaves, and what its
// chunks store twice.
#pragma once

#include <cairn/formats/raw/raw_checkpoint.h>

#include <memory>
#include <vector>

namespace cairn::inline v0::pytorch {

// Elements of a tensor that a second chunk holds, too, and where that has them.
struct DoubledPart {
  std::size_t tensor = 0;
  Box box;
  std::shared_ptr<const DeferredArray> array;
};

class DistributedCheckpoint final : public RawCheckpoint {
 public:
  // `again`: a checkpoint whose leaves are `doubles`, in order; null if there are none.
  DistributedCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents,
                        std::vector<DictKeyTypes> key_types, std::vector<DoubledPart> doubles,
                        std::unique_ptr<RawCheckpoint> again);
  [[nodiscard]] std::vector<DictKeyTypes> key_types() const override { return key_types_; }
  // Also reads what is stored twice, and compares it.
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;

 private:
  // The first element in which a second chunk differs; "" if there is none.
  [[nodiscard]] std::string difference(std::size_t i) const;
  void compare_doubles(VerifyPart& part) const;

  std::vector<DictKeyTypes> key_types_;
  std::vector<DoubledPart> doubles_;
  std::unique_ptr<RawCheckpoint> again_;
};

}  // namespace cairn::inline v0::pytorch
