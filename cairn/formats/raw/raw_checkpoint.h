// raw_checkpoint.h -- a checkpoint whose arrays lie raw in a few files, as safetensors and npz have
// them: bulk reads, views, and verification of every byte.
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

namespace cairn::inline v0 {

// A leaf: its description and, if it has bytes, where they lie.
struct RawLeaf {
  TensorInfo info;
  RawArray array;
  std::string unreadable;  // why its elements cannot be read; "" if they can
};

// A Checkpoint over raw arrays; see Checkpoint for the contracts.
class RawCheckpoint final : public Checkpoint {
 public:
  // Everything that a reader of a format finds in its files.
  struct Contents {
    std::vector<File> files;
    std::vector<RawLeaf> leaves;
    std::vector<Finding> notes;     // found while opening; verify repeats them
    std::optional<Tree> structure;  // nullopt: derived from the paths
  };
  RawCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents);
  [[nodiscard]] const CheckpointInfo& info() const override { return info_; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  // Verifies checksums. If an array is read whole, its checksum is computed on the way. If it is
  // read in part, all of it is read once before.
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override;
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  // Reads the viewed array once, if it has a checksum.
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override;
  [[nodiscard]] Tree structure() const override {
    return structure_ ? *structure_ : Checkpoint::structure();
  }
  // Reads every byte. Lists arrays without a checksum as unprotected.
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;
  [[nodiscard]] VerifyReport join_verified(std::vector<VerifyPart> parts) const override;

 private:
  [[nodiscard]] const TensorInfo& tensor(std::size_t index) const;
  [[nodiscard]] RawContents contents() const;
  // Throws data_loss if the array's checksum does not match. Does nothing if it has no checksum, or
  // if the checksum has already been verified.
  void check_whole(std::size_t index) const;
  // Finishes a read once the stored bytes are in place: verifies the checksum of an array that was
  // read whole, then fixes the byte order.
  void finish_read(const ReadRequest& request, const RawSums* sums) const;
  [[nodiscard]] Executor& executor() const {
    return own_executor_ ? *own_executor_ : default_executor();
  }

  CheckpointInfo info_;
  std::vector<Finding> notes_;
  std::vector<File> files_;
  std::optional<Tree> structure_;
  std::vector<TensorInfo> tensors_;
  std::vector<RawArray> arrays_;  // parallel to tensors_
  // parallel to tensors_: whether the checksum was verified
  std::unique_ptr<std::atomic<bool>[]> checksum_ok_;
  std::uint64_t memory_;
  std::unique_ptr<Executor> own_executor_;
  RawMaps maps_;  // mappings of files_
};

}  // namespace cairn::inline v0
