// raw_checkpoint.h -- a checkpoint whose arrays lie raw in a few files, whole or in slices: bulk
// reads, views, and verification of every byte.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/raw/raw_read.h>
#include <cairn/formats/raw/raw_verify.h>
#include <cairn/formats/raw/raw_view.h>
#include <cairn/tree/verifiable_checkpoint.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// A leaf: its description and, if it has bytes, where they lie.
struct RawLeaf {
  TensorInfo info;
  RawArray array;                               // the whole tensor
  std::optional<std::vector<RawSlice>> slices;  // if set: its parts, instead of `array`
  std::string unreadable;                       // why its elements cannot be read; "" if they can
};

// A tensor that an index names and that is not where it should be.
RawLeaf lost_leaf(std::string name, const Error& why);

// A Checkpoint over raw arrays; see Checkpoint for the contracts. TensorFlow's adds to it.
class RawCheckpoint : public VerifiableCheckpoint {
 public:
  // Everything that a reader of a format finds in its files. It keeps leaves in the form in which
  // the checkpoint keeps them, so that a million leaves are never in memory twice.
  class Contents {
   public:
    std::vector<File> files;
    std::vector<File> indexes;      // files that say what is in `files`
    std::vector<Finding> notes;     // found while opening; verify repeats them
    std::optional<Tree> structure;  // nullopt: derived from the paths
    std::vector<std::pair<std::size_t, std::size_t>> ties;  // as Checkpoint::ties()

    // Reserves memory for this many leaves.
    void reserve(std::size_t leaves);
    void add(RawLeaf leaf);
    // The descriptions of the leaves so far. A reader may complete them.
    [[nodiscard]] std::vector<TensorInfo>& tensors() { return tensors_; }

   private:
    friend RawCheckpoint;
    std::vector<TensorInfo> tensors_;
    std::vector<RawSlice> slices_;            // by tensor
    std::vector<std::uint32_t> first_slice_;  // of each tensor
  };
  RawCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents);
  // Adds a warning that is not about any tensor; verify repeats it as a note. For the function that
  // opens the checkpoint.
  void warn(const std::string& text);
  // Adds a note about the checkpoint to what verify says. For the function that opens it.
  void note(const std::string& text);
  // Sets the names of the items of the folder that was opened. For the function that opens it.
  void set_items(std::vector<std::string> items) { info_.items = std::move(items); }
  // Sets the metadata that somebody recorded beside the checkpoint: a JSON text. For the function
  // that opens it.
  void set_custom_metadata(std::string json) { info_.custom_metadata = std::move(json); }
  // Sets the step that the checkpoint is. For the function that opens it.
  void set_step(std::int64_t step) { info_.step = step; }
  [[nodiscard]] CheckpointInfo info() const override { return info_; }
  [[nodiscard]] TensorList tensors() const override { return tensors_; }
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> ties() const override {
    return ties_;
  }
  // Verifies checksums. If a slice is read whole, its checksum is computed on the way. If it is
  // read in part, all of it is read once before.
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override;
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override;
  // Reads the viewed array once, if it has a checksum.
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override;
  [[nodiscard]] Tree tree_of(const std::function<Tree(std::size_t)>& leaf) const override;
  // Reads every byte. Lists arrays without a checksum as unprotected.
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;
  [[nodiscard]] VerifyReport join_verified(std::vector<VerifyPart> parts) const override;

 protected:
  [[nodiscard]] const TensorInfo& tensor(std::size_t index) const;
  // As tensor(), for a leaf that must be a string.
  [[nodiscard]] const TensorInfo& string_leaf(std::size_t index) const;
  [[nodiscard]] const std::vector<File>& files() const { return files_; }
  [[nodiscard]] Executor& executor() const override { return workers_.executor(); }
  // The most bytes that are in use for reading.
  [[nodiscard]] std::uint64_t memory() const { return memory_; }
  // Returns what is stored of a tensor.
  [[nodiscard]] std::span<const RawSlice> slices_of(std::size_t tensor) const {
    return std::span(slices_).subspan(first_slice_[tensor],
                                      first_slice_[tensor + 1] - first_slice_[tensor]);
  }
  // Returns the tensor's only slice if it covers the whole tensor, else null.
  [[nodiscard]] const RawSlice* whole_slice(std::size_t tensor) const {
    const auto slices = slices_of(tensor);
    return slices.size() == 1 && !slices[0].box ? &slices[0] : nullptr;
  }
  // Throws data_loss for elements in `box` that are in no slice.
  [[noreturn]] virtual void throw_gap(std::size_t tensor, const Box& box,
                                      std::int64_t covered) const;
  // Returns the context of an error in the bytes of a slice: the name of its tensor, and the file
  // with the place where they begin.
  [[nodiscard]] virtual std::string where(const RawSlice& slice) const;

 private:
  class Reading;
  [[nodiscard]] RawContents contents() const;
  // Throws unavailable if a file was written to since it was opened, or if one of several was
  // replaced: they then may be of several saves.
  void check_current() const;
  // Runs f, which reads. If it fails because the files are of several saves, throws unavailable.
  template <class F>
  auto while_current(F f) const;
  [[nodiscard]] std::atomic<bool>& checksum_ok(const RawSlice& slice) const {
    return checksum_ok_[static_cast<std::size_t>(&slice - slices_.data())];
  }
  // Finds the arrays of the slices that the requests need.
  void find_arrays(std::span<const ReadRequest> requests) const;
  // Throws data_loss if the slice's checksum does not match. Does nothing if it has no checksum, or
  // if the checksum has already been verified.
  void check_whole(const RawSlice& slice) const;
  // The same, for a slice that was read whole, with the checksums of its bytes.
  void check_read(const RawSlice& slice, const PartChecksums& sums) const;

  CheckpointInfo info_;
  std::vector<std::pair<std::size_t, std::size_t>> ties_;
  std::vector<Finding> notes_;
  std::vector<File> files_;
  std::vector<File> indexes_;
  std::optional<Tree> structure_;
  TensorList tensors_;
  std::vector<RawSlice> slices_;            // by tensor
  std::vector<std::uint32_t> first_slice_;  // of each tensor, and the number of all slices
  // parallel to slices_: whether the checksum was verified
  std::unique_ptr<std::atomic<bool>[]> checksum_ok_;
  bool has_deferred_ = false;  // some arrays are found when they are needed
  std::uint64_t memory_;
  Workers workers_;
  RawMaps maps_;  // mappings of files_
};

}  // namespace cairn::inline v0
