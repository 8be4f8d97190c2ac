#include <cairn/formats/pytorch/deepspeed/model_file.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/file/read_states.h>

#include <algorithm>
#include <functional>
#include <set>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

constexpr const char* kModule = "module";

}  // namespace

std::map<std::string, std::size_t> ModelFile::members(const std::string& dict) const {
  std::map<std::string, std::size_t> found;
  for (std::size_t i = 0; i < file.state.leaves.size(); ++i) {
    const KeyPath& keys = file.state.leaves[i].leaf.info.path;
    if (keys.size() == 2 && keys[0].text == dict) found.emplace(keys[1].text, i);
  }
  return found;
}

ModelFile read_model_file(const File& file, std::uint32_t number, Executor& executor) {
  auto read = read_states(file, number, executor, parse_model_states);
  return {.path = file.path(), .states = std::move(read.states), .file = std::move(read.file)};
}

void add_buffers_and_ties(const ModelFile& model, Weights& weights) {
  std::map<std::string, std::size_t> known;  // index in weights
  for (std::size_t i = 0; i < weights.size(); ++i) known.emplace(weights[i].first, i);
  const auto add = [&](const std::string& name, RawLeaf leaf) {
    if (known.emplace(name, weights.size()).second) weights.emplace_back(name, std::move(leaf));
  };
  const auto module = model.members(kModule);
  for (const std::string& name : model.states.buffers)
    if (const auto found = module.find(name); found != module.end())
      add(name, model.file.state.leaves[found->second].leaf);
  for (const auto& [name, source] : model.states.ties)
    if (const auto found = known.find(source); found != known.end())
      add(name, RawLeaf(weights[found->second].second));
}

void add_other_tensors(const ModelFile& model, Weights& weights) {
  std::set<std::string, std::less<>> known;
  for (const auto& [name, leaf] : weights) known.insert(name);
  for (const auto& [name, index] : model.members(kModule)) {
    const StateLeaf& leaf = model.file.state.leaves[index];
    if (leaf.tensor && !known.contains(name)) weights.emplace_back(name, leaf.leaf);
  }
}

void sort_as_module(const ModelFile& model, Weights& weights) {
  const auto module = model.members(kModule);
  const auto place = [&](const std::pair<std::string, RawLeaf>& weight) {
    const auto found = module.find(weight.first);
    return found == module.end() ? model.file.state.leaves.size() : found->second;
  };
  std::ranges::stable_sort(weights, {}, place);
}

HiddenPaths paths_of_weights(const Weights& weights) {
  HiddenPaths hidden = {{"param_shapes"},
                        {"frozen_param_shapes"},
                        {"frozen_param_fragments"},
                        {"buffer_names"},
                        {"shared_params"}};
  for (const auto& [name, leaf] : weights) hidden.insert({kModule, name});
  return hidden;
}

}  // namespace cairn::inline v0::pytorch::deepspeed
