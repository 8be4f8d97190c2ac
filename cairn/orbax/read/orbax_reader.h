// orbax_reader.h -- an opened Orbax checkpoint (or bare OCDBT database, or bare Zarr arrays).
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/read/pytree_item.h>
#include <cairn/orbax/read/verify.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::orbax {

class OrbaxCheckpoint : public Checkpoint {
 public:
  // lost: items that could not be opened, for verify.
  OrbaxCheckpoint(Layout layout, std::vector<PytreeItem> items, const OpenOptions& options,
                  std::vector<LostItem> lost = {});
  using Checkpoint::info;
  using Checkpoint::read;

  [[nodiscard]] const CheckpointInfo& info() const override { return info_; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override;
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  [[nodiscard]] std::optional<Array> try_view(std::size_t index) const override;
  [[nodiscard]] std::string random_key_impl(std::size_t index) const override;
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;

 private:
  [[nodiscard]] const TensorInfo& tensor(std::size_t index) const;
  [[nodiscard]] std::string label(std::size_t index) const;
  [[nodiscard]] handlers::WorkLimits limits() const;
  void read_inside(const ReadRequest& request) const;
  // Error(kUnavailable) if something was missing in an item that has been replaced.
  void check_not_replaced() const;
  template <class F>
  auto guarded(F f) const;

  Layout layout_;
  std::vector<PytreeItem> items_;  // their tensors have moved to tensors_
  std::vector<LostItem> lost_;
  std::vector<TensorInfo> tensors_;       // of all items
  handlers::StoredArrays stored_;         // beside tensors_
  std::vector<LeafValue> values_;         // beside tensors_
  std::vector<std::size_t> leaf_counts_;  // beside items_
  std::vector<zarr::MissingChunk> missing_;
  CheckpointInfo info_;
  std::unique_ptr<Executor> own_executor_;  // null: the process's
  std::uint64_t memory_;
  mutable handlers::ValueStreams streams_;
};

// Opens a checkpoint to be verified: an item that cannot be opened is a finding, and the others are
// verified all the same.
std::unique_ptr<Checkpoint> open_to_verify(const std::string& path, const OpenOptions& options);

}  // namespace cairn::orbax
