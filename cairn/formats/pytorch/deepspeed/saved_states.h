// saved_states.h -- what the pickles of a DeepSpeed checkpoint say about its parameters.
//
//   model states   param_shapes          [{name: shape}]: one dict of each group of parameters
//                  frozen_param_shapes   {name: shape}, or None
//                  buffer_names          [name]
//                  shared_params         {name: name of the parameter whose values it has}
//                  dp_world_size, mp_world_size, global_steps
//   optim states   optimizer_state_dict  {zero_stage, partition_count, param_alignment_paddings}
//
// Source of the rules: what deepspeed 0.19.8 writes, and how its zero_to_fp32 reads it.
#pragma once

#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {

struct Parameter {
  std::string name;
  Shape shape;
  bool operator==(const Parameter&) const = default;
};

struct ModelStates {
  bool has_shapes = false;  // false: ZeRO was not used
  std::vector<std::vector<Parameter>> groups;
  std::vector<Parameter> frozen;
  std::vector<std::string> buffers;
  std::vector<std::pair<std::string, std::string>> ties;
  std::optional<std::uint64_t> ranks, model_ranks, global_steps;
};

struct OptimStates {
  std::uint64_t stage = 0;  // of ZeRO: 1 to 3
  // The number of ranks among which a group is divided; one number for all groups, or one of each.
  std::vector<std::uint64_t> partition_counts;
  // Elements behind each parameter of each group; empty: none.
  std::vector<std::vector<std::uint64_t>> paddings;
};

// Both throw data_loss for values that DeepSpeed does not write, invalid_argument for a pickle of
// something else, unimplemented for a form that Cairn does not read.
ModelStates parse_model_states(const pickle::Pickle& pickle);
OptimStates parse_optim_states(const pickle::Pickle& pickle);

}  // namespace cairn::inline v0::pytorch::deepspeed
