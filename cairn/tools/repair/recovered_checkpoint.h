// recovered_checkpoint.h -- the checkpoint whose leaves come from several copies of it.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/tools/repair/copies.h>
#include <cairn/tools/source/derived_checkpoint.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The lost elements of an array, and what the result has in place of them.
struct FilledBoxes {
  std::vector<Box> lost;
  Bytes element;  // each of them; empty: those of `from`
  std::shared_ptr<const Checkpoint> from = {};
  std::size_t index = 0;  // into its tensors
};
// Where a leaf comes from.
struct LeafOrigin {
  TensorInfo info;
  std::size_t copy = 0;
  std::size_t index = 0;  // into the copy's tensors
  std::optional<FilledBoxes> filled = {};
};

class RecoveredCheckpoint final : public DerivedCheckpoint {
 public:
  // `tree`: the copy whose tree and metadata the result has. `keeps_tree`: it has exactly the
  // leaves of that copy, in the same order.
  RecoveredCheckpoint(std::vector<LeafCopy> copies, std::size_t tree, bool keeps_tree,
                      std::vector<LeafOrigin> leaves);

  [[nodiscard]] const Checkpoint& source() const override { return of(tree_); }
  // All copies: the target may not be the damaged checkpoint itself, even if that is the only one.
  [[nodiscard]] std::vector<const Checkpoint*> other_sources() const override;
  [[nodiscard]] CheckpointInfo info() const override { return info_; }
  [[nodiscard]] TensorList tensors() const override { return tensors_; }
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override;
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override;
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override;
  [[nodiscard]] std::string random_key_impl(std::size_t index) const override;
  [[nodiscard]] std::optional<ZarrMetadata> zarr_metadata(std::size_t index) const override;
  [[nodiscard]] Tree tree_of(const std::function<Tree(std::size_t index)>& leaf) const override;
  [[nodiscard]] Tree rich_tree_of(
      const std::function<Tree(std::size_t index)>& leaf) const override;
  [[nodiscard]] std::vector<DictKeyTypes> key_types() const override;
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> ties() const override;
  [[nodiscard]] std::vector<ProgramObject> objects() const override;

 private:
  [[nodiscard]] const Checkpoint& of(std::size_t copy) const { return *copies_[copy].checkpoint; }

  std::vector<LeafCopy> copies_;
  std::size_t tree_;
  bool keeps_tree_;
  bool is_of_one_copy_ = true;  // all leaves are those of `tree_`, none is filled
  CheckpointInfo info_;
  std::vector<LeafOrigin> origins_;  // parallel to tensors_
  TensorList tensors_;
};

}  // namespace cairn::inline v0
