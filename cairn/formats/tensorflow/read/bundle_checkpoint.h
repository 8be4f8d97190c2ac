// bundle_checkpoint.h -- a TensorFlow checkpoint that has been opened: tensors whose bytes lie raw
// in data files, whole or in slices, each with a checksum that is looked at before a byte of it is
// believed.
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

namespace cairn {

// What is stored of a tensor: all of it, or a slice.
struct BundleStored {
  Box box;         // of the tensor's elements
  RawArray array;  // with a checksum; for strings and variants an EntryStream
};
// A slice whose data file is missing or too short.
struct BundleLost {
  Box box;
  std::string why;
  Code code = Code::kDataLoss;
};
struct BundleLeaf {
  TensorInfo info;
  std::vector<BundleStored> stored;
  std::vector<BundleLost> lost = {};
};

class BundleCheckpoint final : public Checkpoint {
 public:
  struct Contents {
    std::vector<File> files;
    std::vector<BundleLeaf> leaves;  // by name
    std::vector<Finding> notes;      // of opening, repeated by verify
    bool big_endian = false;
  };
  BundleCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents);
  [[nodiscard]] const CheckpointInfo& info() const override { return info_; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  // Of what is read whole the checksum is taken on the way; of what is read in part the whole is
  // read once before.
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override;
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override;
  // Reads what it shows once, for the checksum.
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override;
  [[nodiscard]] std::vector<ProgramObject> objects() const override;
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;
  [[nodiscard]] VerifyReport join_verified(std::vector<VerifyPart> parts) const override;

 protected:
  // A key without how all keys of variables end, the keys of a path joined with dots, or a path
  // through the program's objects.
  [[nodiscard]] std::optional<std::size_t> find_other(std::string_view name) const override;

 private:
  class Reading;
  struct Range {
    std::uint32_t begin = 0, end = 0;  // of arrays_ and boxes_
  };
  [[nodiscard]] const TensorInfo& tensor(std::size_t index) const;
  void check_whole(std::size_t array) const;
  // Throws data_loss for elements in `box` that no slice has, or none that can be read.
  [[noreturn]] void refuse_gap(std::size_t index, const Box& box, std::int64_t covered) const;
  [[nodiscard]] const std::string& name_of(std::size_t array) const {
    return tensors_[tensor_of_[array]].name;
  }
  // What is stored, each as a tensor of its own, for what is said of it.
  [[nodiscard]] std::vector<TensorInfo> describe() const;
  [[nodiscard]] Executor& executor() const {
    return own_executor_ ? *own_executor_ : default_executor();
  }

  CheckpointInfo info_;
  std::vector<Finding> notes_;
  std::vector<File> files_;
  bool big_endian_;
  std::vector<TensorInfo> tensors_;
  std::vector<Range> ranges_;                            // beside tensors_: what is stored of each
  std::vector<Box> boxes_;                               // beside arrays_
  std::map<std::size_t, std::vector<BundleLost>> lost_;  // by tensor
  std::vector<RawArray> arrays_;
  std::vector<std::uint32_t> tensor_of_;  // beside arrays_: whose it is
  // beside arrays_: its checksum has been seen to fit
  std::unique_ptr<std::atomic<bool>[]> checksum_ok_;
  std::uint64_t memory_;
  std::unique_ptr<Executor> own_executor_;
  RawMaps maps_;  // of files_
};

}  // namespace cairn
