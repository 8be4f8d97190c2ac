// parameter_leaf.h -- a parameter made of the parts that ranks have of it.
#pragma once

#include <cairn/formats/pytorch/deepspeed/flat_part.h>
#include <cairn/formats/pytorch/deepspeed/model_file.h>
#include <cairn/formats/pytorch/deepspeed/partitions.h>
#include <cairn/formats/raw/raw_checkpoint.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {

// The vector of a rank that has a fragment.
using FindPart = std::function<const FlatPart&(const Fragment&)>;

// The leaf of a parameter, without a path. Each fragment becomes one slice or a few. The vectors
// that `find_part` returns have elements of this type.
RawLeaf parameter_leaf(const Partitioned& partitioned, const TorchElement& element,
                       const FindPart& find_part);

// The parameters that are not trained. Their values are in the files of model states: whole, or
// with ZeRO 3 divided among the ranks. Throws data_loss for values that are missing or do not add
// up.
Weights frozen_weights(const std::vector<ModelFile>& models, bool is_divided);

// Throws failed_precondition. `what`: "another number of steps".
[[noreturn]] void fail_two_saves(const std::string& path, const std::string& other,
                                 std::string_view what);

}  // namespace cairn::inline v0::pytorch::deepspeed
