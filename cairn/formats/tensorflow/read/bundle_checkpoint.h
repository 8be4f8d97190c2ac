// bundle_checkpoint.h -- an open TensorFlow checkpoint. Its tensors lie raw in data files, whole or
// in slices. Each has a checksum, which is verified before any byte of it is returned.
#pragma once

#include <cairn/formats/raw/raw_checkpoint.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// A slice whose data file is missing or too short.
struct BundleLost {
  Box box;
  std::string why;
  Code code = Code::kDataLoss;
};

// Adds to a raw checkpoint what TensorFlow has more: tensors of strings, slices that are lost, and
// the program's objects. The leaves are sorted by name. The slices of strings and variants are
// EntryStreams.
class BundleCheckpoint final : public RawCheckpoint {
 public:
  using LostSlices = std::map<std::size_t, std::vector<BundleLost>>;  // by tensor
  BundleCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents,
                   LostSlices lost)
      : RawCheckpoint(options, std::move(info), std::move(contents)), lost_(std::move(lost)) {}
  [[nodiscard]] std::string read_string(std::size_t index) const override;
  [[nodiscard]] std::vector<std::string> read_strings(std::size_t index) const override;
  [[nodiscard]] std::vector<ProgramObject> objects() const override;

 protected:
  // Also finds a tensor by its key without the suffix of variables, by the steps of a path joined
  // with dots, or by a path through the program's objects.
  [[nodiscard]] std::optional<std::size_t> find_other(std::string_view name) const override;
  // Says why a lost slice cannot be read.
  [[noreturn]] void throw_gap(std::size_t tensor, const Box& box,
                              std::int64_t covered) const override;
  // Adds the place of the bytes.
  [[nodiscard]] std::string where(const RawSlice& slice) const override;

 private:
  LostSlices lost_;
};

}  // namespace cairn::inline v0
