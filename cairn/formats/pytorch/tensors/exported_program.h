// exported_program.h -- the tensors of an archive of torch.export (.pt2). Their bytes are members
// of the archive, described by JSON:
//
//   data/weights/model_weights_config.json       parameters and buffers
//   data/constants/model_constants_config.json   other tensors
//
//   {"config": {name: {"path_name": "weight_0", "use_pickle": false,
//                      "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 2}], "strides": [...],
//                                      "storage_offset": {"as_int": 0}, "layout": 7}}}}
//
// Source of the rules: torch 2.13, torch.export.pt2_archive and torch._export.serde.schema.
#pragma once

#include <cairn/formats/pytorch/tensors/state_walk.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::pytorch {

// The texts of the two descriptions; "" if the archive has none.
struct ExportedProgram {
  std::string weights;
  std::string constants;
};

// The leaves of an archive, one key each: the names of its tensors. `size_of` gives the bytes of
// the member data/<key>; nullopt if there is none. Throws data_loss for a description that PyTorch does
// not write.
State exported_state(
    const ExportedProgram& program,
    const std::function<std::optional<std::uint64_t>(std::string_view key)>& size_of);

}  // namespace cairn::inline v0::pytorch
