// fill.h -- what a repaired array has in place of its lost elements.
#pragma once

#include <cairn/maintain.h>
#include <cairn/tools/repair/recovered_checkpoint.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

class BoxFiller {
 public:
  // `from`: the checkpoint of LostElements::kCheckpoint.
  BoxFiller(LostElements how, std::shared_ptr<const Checkpoint> from)
      : how_(how), from_(std::move(from)) {}
  // The fill of the lost boxes of a leaf; nullopt if the leaf is to be left out. Throws, with the
  // reason, if it cannot be filled.
  [[nodiscard]] std::optional<FilledBoxes> fill(const std::string& name, const TensorInfo& leaf,
                                                const std::vector<Box>& lost) const;

 private:
  [[nodiscard]] FilledBoxes from_checkpoint(const std::string& name, const TensorInfo& leaf,
                                            const std::vector<Box>& lost) const;

  LostElements how_;
  std::shared_ptr<const Checkpoint> from_;
};

}  // namespace cairn::inline v0
