// raw_checkpoint.h -- what checkpoints share whose arrays lie raw in a few files: bulk reads,
// views, reading every byte.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/raw/raw_read.h>
#include <cairn/formats/raw/raw_verify.h>
#include <cairn/formats/raw/raw_view.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

// A leaf: what it is and, if it has bytes, where.
struct RawLeaf {
  TensorInfo info;
  RawArray array;
  std::string unreadable;  // why its elements cannot be read; "" if they can
};

class RawCheckpoint final : public Checkpoint {
 public:
  struct Contents {
    std::vector<File> files;
    std::vector<RawLeaf> leaves;
    std::vector<Finding> notes;     // of opening, repeated by verify
    std::optional<Tree> structure;  // none: what the paths say
  };
  RawCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents);
  [[nodiscard]] const CheckpointInfo& info() const override { return info_; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  // Of an array with a checksum that is read whole it is taken on the way; of one that is read in
  // part the whole is read once before.
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override;
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  // Reads what it shows once, if it has a checksum.
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override;
  [[nodiscard]] Tree structure() const override {
    return structure_ ? *structure_ : Checkpoint::structure();
  }
  // Every byte is read; arrays without a checksum are listed as unprotected.
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;
  [[nodiscard]] VerifyReport join_verified(std::vector<VerifyPart> parts) const override;

 private:
  [[nodiscard]] const TensorInfo& tensor(std::size_t index) const;
  [[nodiscard]] RawContents contents() const;
  // Throws data_loss if the array's checksum does not fit, unless it has been seen that it does;
  // nothing for one without.
  void check_whole(std::size_t index) const;
  // What comes behind the reading of stored bytes: checksums of arrays that are read whole, then
  // byte order.
  void finish_read(const ReadRequest& request, const RawSums* sums) const;
  [[nodiscard]] Executor& executor() const {
    return own_executor_ ? *own_executor_ : default_executor();
  }

  CheckpointInfo info_;
  std::vector<Finding> notes_;
  std::vector<File> files_;
  std::optional<Tree> structure_;
  std::vector<TensorInfo> tensors_;
  std::vector<RawArray> arrays_;  // beside tensors_
  // beside tensors_: its checksum has been seen to fit
  std::unique_ptr<std::atomic<bool>[]> checksum_ok_;
  std::uint64_t memory_;
  std::unique_ptr<Executor> own_executor_;
  RawMaps maps_;  // of files_
};

}  // namespace cairn
