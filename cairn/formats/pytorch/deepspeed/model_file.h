// model_file.h -- a file of model states: the module's buffers and frozen parameters, and values of
// the training run.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/formats/pytorch/deepspeed/saved_states.h>
#include <cairn/formats/pytorch/deepspeed/state_tree.h>
#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/io/file.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {

// The weights of a model by name, in any order.
using Weights = std::vector<std::pair<std::string, RawLeaf>>;

struct ModelFile {
  std::string path;
  ModelStates states;
  StateFile file;

  // The leaves of a dict in the file, by key, as indices into file.state.leaves.
  [[nodiscard]] std::map<std::string, std::size_t> members(const std::string& dict) const;
};

ModelFile read_model_file(const File& file, std::uint32_t number, Executor& executor);

// Adds the buffers of the module, and under their names the parameters that share the values of
// others. Weights that are there already stay.
void add_buffers_and_ties(const ModelFile& model, Weights& weights);
// Adds the other tensors of a module that is whole: with ZeRO 1, parameters that are not trained
// are nowhere else.
void add_other_tensors(const ModelFile& model, Weights& weights);
// Puts the weights into the order of the module.
void sort_as_module(const ModelFile& model, Weights& weights);
// What of the file the weights stand for: entries of the module, and what describes them.
HiddenPaths paths_of_weights(const Weights& weights);

}  // namespace cairn::inline v0::pytorch::deepspeed
