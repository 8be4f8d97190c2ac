// rank_states.h -- the vectors of one rank: its parts of the fp32 weights and of the moments.
//
//   optimizer_state_dict
//     single_partition_of_fp32_groups    ZeRO 1 and 2: one vector of each group
//     base_optimizer_state.state.<G>     {exp_avg, exp_avg_sq, step}
//     fp32_flat_groups                   ZeRO 3
//     optimizer_state_dict.state.<G>
#pragma once

#include <cairn/base/executor.h>
#include <cairn/formats/pytorch/deepspeed/flat_part.h>
#include <cairn/formats/pytorch/deepspeed/saved_states.h>
#include <cairn/formats/pytorch/deepspeed/state_tree.h>
#include <cairn/formats/pytorch/file/read_states.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/io/file.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {

// What an optimizer keeps for one group.
struct GroupStates {
  std::map<std::string, FlatPart> moments;  // a value of each element
  std::map<std::string, RawLeaf> scalars;   // one value for all: "step"
};

struct RankStates {
  std::string path;  // of the file
  OptimStates states;
  std::vector<FlatPart> weights;    // by group
  std::vector<GroupStates> groups;  // parallel to weights
  std::vector<std::string> others;  // names of states that belong to no parameter
  StateFile file;
};

// Reads a file of optimizer states, the reader's file `number`. Throws data_loss for vectors that
// are missing or that are not vectors.
RankStates read_rank_states(const File& file, std::uint32_t number, Executor& executor);

// Where the vectors are, the positions in them, and the stage of ZeRO, whose class is DeepSpeed's.
HiddenPaths paths_of_vectors();

}  // namespace cairn::inline v0::pytorch::deepspeed
