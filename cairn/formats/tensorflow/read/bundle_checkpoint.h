// bundle_checkpoint.h -- an open TensorFlow checkpoint. Its tensors lie raw in data files, whole or
// in slices. Each has a checksum, which is verified before any byte of it is returned.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/raw/raw_read.h>
#include <cairn/formats/raw/raw_verify.h>
#include <cairn/formats/raw/raw_view.h>
#include <cairn/formats/tensorflow/index/bundle_entry_bytes.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// The stored bytes of a tensor, or of one slice of it.
struct BundleStored {
  Box box;         // in the tensor's elements
  RawArray array;  // with a checksum; for strings and variants an EntryStream
};
// A slice whose data file is missing or too short.
struct BundleLost {
  Box box;
  std::string why;
  Code code = Code::kDataLoss;
};
// A tensor: its description, its stored slices and its missing ones.
struct BundleLeaf {
  TensorInfo info;
  std::vector<BundleStored> stored;
  std::vector<BundleLost> lost = {};
};

// A Checkpoint over a TensorFlow checkpoint; see Checkpoint for the contracts.
class BundleCheckpoint final : public Checkpoint {
 public:
  // Everything that the reader finds in the index and the data files.
  struct Contents {
    std::vector<File> files;
    std::vector<BundleLeaf> leaves;  // sorted by name
    std::vector<Finding> notes;      // found while opening; verify repeats them
    bool big_endian = false;
  };
  BundleCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents);
  [[nodiscard]] const CheckpointInfo& info() const override { return info_; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  // Verifies checksums. If a slice is read whole, its checksum is computed on the way. If it is
  // read in part, all of it is read once before.
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override;
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override;
  // Reads the viewed bytes once, for the checksum.
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override;
  [[nodiscard]] std::vector<ProgramObject> objects() const override;
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;
  [[nodiscard]] VerifyReport join_verified(std::vector<VerifyPart> parts) const override;

 protected:
  // Also finds a tensor by its key without the suffix of variables, by the steps of a path joined
  // with dots, or by a path through the program's objects.
  [[nodiscard]] std::optional<std::size_t> find_other(std::string_view name) const override;

 private:
  class Reading;
  struct Range {
    std::uint32_t begin = 0, end = 0;  // of arrays_ and boxes_
  };
  [[nodiscard]] const TensorInfo& tensor(std::size_t index) const;
  // Throws data_loss if the array's checksum does not match, unless it was verified before.
  void check_whole(std::size_t array) const;
  // Throws data_loss for elements in `box` that are in no slice, or in no slice that can be read.
  [[noreturn]] void refuse_gap(std::size_t index, const Box& box, std::int64_t covered) const;
  [[nodiscard]] const std::string& name_of(std::size_t array) const {
    return tensors_[tensor_of_[array]].name;
  }
  // A description of every stored array as a tensor of its own, for findings.
  [[nodiscard]] std::vector<TensorInfo> describe() const;
  [[nodiscard]] Executor& executor() const {
    return own_executor_ ? *own_executor_ : default_executor();
  }

  CheckpointInfo info_;
  std::vector<Finding> notes_;
  std::vector<File> files_;
  bool big_endian_;
  std::vector<TensorInfo> tensors_;
  std::vector<Range> ranges_;  // parallel to tensors_: what is stored of each
  std::vector<Box> boxes_;     // parallel to arrays_
  std::map<std::size_t, std::vector<BundleLost>> lost_;  // by tensor
  std::vector<RawArray> arrays_;
  std::vector<std::uint32_t> tensor_of_;  // parallel to arrays_: which tensor it belongs to
  // parallel to arrays_: whether the checksum was verified
  std::unique_ptr<std::atomic<bool>[]> checksum_ok_;
  std::uint64_t memory_;
  std::unique_ptr<Executor> own_executor_;
  RawMaps maps_;  // mappings of files_
};

}  // namespace cairn::inline v0
