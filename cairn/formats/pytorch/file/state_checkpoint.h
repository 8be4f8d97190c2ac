// state_checkpoint.h -- a checkpoint of files of torch.save: it knows the types of the keys of its
// dicts, and verifies storages that no leaf shows.
#pragma once

#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/raw/raw_checkpoint.h>

#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {

class StateCheckpoint final : public RawCheckpoint {
 public:
  StateCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents,
                  std::vector<DictKeyTypes> key_types, std::vector<UnusedStorage> unused)
      : RawCheckpoint(options, std::move(info), std::move(contents)),
        key_types_(std::move(key_types)),
        unused_(std::move(unused)) {}
  [[nodiscard]] std::vector<DictKeyTypes> key_types() const override { return key_types_; }

  // Checks the storages that no leaf shows, too.
  [[nodiscard]] VerifyPart verify_part(WorkShare share, const ProgressFn& progress) const override;

 private:
  void check(const UnusedStorage& storage, VerifyReport& report) const;

  std::vector<DictKeyTypes> key_types_;
  std::vector<UnusedStorage> unused_;
};

}  // namespace cairn::inline v0::pytorch
