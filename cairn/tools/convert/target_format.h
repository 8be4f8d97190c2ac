// target_format.h -- what the formats that convert() writes can hold.
#pragma once

#include <cairn/convert.h>

#include <string>

namespace cairn::inline v0 {

// Whether the target is an Orbax checkpoint.
bool is_orbax_format(TargetFormat format);
// Whether the target is a folder.
bool is_folder_format(TargetFormat format);
// Whether PyTorch loads it.
bool is_torch_format(TargetFormat format);
// Whether the format holds nested trees; the others hold a flat list of names.
bool holds_trees(TargetFormat format);
// Whether the format records the types of keys that are not str.
bool keeps_key_types(TargetFormat format);
// As target_format_name(), to be joined with other text.
std::string format_text(TargetFormat format);

// Throws invalid_argument for options that the format does not have.
void check_options(const ConvertOptions& options, TargetFormat format);
// Why the format cannot hold a leaf that is stored as `dtype`; "" if it can.
std::string obstacle(const TensorInfo& tensor, DType dtype, TargetFormat format);

}  // namespace cairn::inline v0
