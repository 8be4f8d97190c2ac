// orbax_reader.h -- reads an open Orbax checkpoint, a bare OCDBT database, or bare Zarr arrays.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/read/pytree_item.h>
#include <cairn/orbax/read/verify.h>
#include <cairn/tree/verifiable_checkpoint.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// The Checkpoint of one detected layout. See checkpoint.h for the public functions.
class OrbaxCheckpoint : public VerifiableCheckpoint {
 public:
  // `lost` lists the items that could not be opened. Each is one unreadable leaf behind the leaves
  // of `items`, and a finding of verify.
  OrbaxCheckpoint(Layout layout, std::vector<PytreeItem> items, const OpenOptions& options,
                  std::vector<LostItem> lost = {});
  using Checkpoint::info;
  using Checkpoint::read;

  [[nodiscard]] CheckpointInfo info() const override { return info_; }
  [[nodiscard]] TensorList tensors() const override { return tensors_; }
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override;
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override;
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override;
  [[nodiscard]] std::string random_key_impl(std::size_t index) const override;
  [[nodiscard]] std::optional<ZarrMetadata> zarr_metadata(std::size_t index) const override;
  [[nodiscard]] Tree rich_tree_of(const std::function<Tree(std::size_t)>& leaf) const override;
  [[nodiscard]] std::vector<DictKeyTypes> key_types() const override;
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;
  // For tools that need more than the leaves.
  [[nodiscard]] const Layout& layout() const { return layout_; }
  // The opened items; their tensors are in tensors().
  [[nodiscard]] std::span<const PytreeItem> opened_items() const { return items_; }
  // Whether all items were to be opened, and not only one that the caller named.
  [[nodiscard]] bool is_whole() const { return whole_; }

 private:
  TensorInfo add_lost_item(const LostItem& lost);
  // Returns the tensor at `index`.
  [[nodiscard]] const TensorInfo& tensor(std::size_t index) const;
  // Returns the name of the tensor for messages.
  [[nodiscard]] std::string label(std::size_t index) const;
  [[nodiscard]] handlers::WorkLimits limits() const;
  [[nodiscard]] Executor& executor() const override { return workers_.executor(); }
  // Reads a value that is stored in the aggregate file.
  void read_inside(const ReadRequest& request) const;
  // Throws Error(kUnavailable) if something was missing in an item that has been replaced.
  void check_not_replaced() const;
  // Runs `f` and reports the replacement of an item as Error(kUnavailable).
  template <class F>
  auto guarded(F f) const;

  Layout layout_;
  std::vector<PytreeItem> items_;  // their tensors have been moved to tensors_
  std::vector<LostItem> lost_;
  TensorList tensors_;                    // the tensors of all items
  handlers::StoredArrays stored_;         // parallel to tensors_
  std::vector<LeafValue> values_;         // parallel to tensors_
  std::vector<std::size_t> leaf_counts_;  // parallel to items_
  std::vector<zarr::MissingChunk> missing_;
  CheckpointInfo info_;
  bool whole_;
  Workers workers_;
  std::uint64_t memory_;
  mutable handlers::ValueStreams streams_;
};

// Opens the checkpoint that find_layout has found, with the same options. Throws as open_orbax; an
// item that cannot be opened is an error only if there is no other. Throws data_loss if nothing is
// left of what the checkpoint records.
std::unique_ptr<Checkpoint> open_layout(Layout layout, const OpenOptions& options);
// The same, but opens a checkpoint of which nothing is left, too (CheckpointInfo::missing).
std::unique_ptr<Checkpoint> open_remains(Layout layout, const OpenOptions& options);
// The same for verification: does not throw if no item can be opened.
std::unique_ptr<Checkpoint> open_layout_to_verify(Layout layout, const OpenOptions& options);

}  // namespace cairn::inline v0::orbax
