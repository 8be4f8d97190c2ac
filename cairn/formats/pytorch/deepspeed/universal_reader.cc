#include <cairn/formats/pytorch/deepspeed/universal_reader.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/pytorch/deepspeed/model_file.h>
#include <cairn/formats/pytorch/deepspeed/parameter_leaf.h>
#include <cairn/formats/pytorch/deepspeed/partitions.h>
#include <cairn/formats/pytorch/deepspeed/state_tree.h>
#include <cairn/formats/pytorch/file/read_states.h>
#include <cairn/io/tree/file_on_demand.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

constexpr std::string_view kEnding = ".pt";
constexpr const char* kOptimizerState = "zero/optimizer_state.pt";
// Files that are kept open. A checkpoint has four for each parameter.
constexpr std::size_t kMostOpen = 128;

// zero/<parameter>/<state>.pt
struct StateFilePath {
  std::string parameter, state, path;
};

class UniversalReader {
 public:
  UniversalReader(const FileTree& tree, std::string folder, const FolderNames& names,
                  const OpenOptions& options)
      : source_(tree),
        folder_(std::move(folder)),
        names_(names),
        options_(options),
        workers_(options.resources.threads) {
    const auto model = first_model_file(names);
    if (!model || !source_.exists(folder_ + "/" + kOptimizerState))
      throw Error(Code::kFailedPrecondition,
                  fmt::format("{}: is an unfinished Universal checkpoint of DeepSpeed: {}, which "
                              "is written last, is missing",
                              folder_, model ? kOptimizerState : "mp_rank_00_model_states.pt"));
    list_states();
    for (const std::string& path : {folder_ + "/" + *model, folder_ + "/" + kOptimizerState})
      files_.push_back(with_read_ahead(source_.open(path)));
  }

  std::unique_ptr<Checkpoint> checkpoint() && {
    Executor& executor = workers_.executor();
    model_ = read_model_file(files_[0], 0, executor);
    // A file for one rank is of ZeRO 3.
    is_of_zero_3_ = name_of(model_.path).starts_with("zero_pp_rank_");
    auto optimizer = read_leaves(files_[1], 1);
    for (const auto& group : model_.states.groups)
      for (const Parameter& parameter : group) shapes_.emplace(parameter.name, &parameter.shape);
    check_files();
    read_states_of_parameters();
    tree_.add_file(files_[0], model_.file);
    tree_.add_file(files_[1], optimizer);
    add_weights();
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].state != kWeights)
        tree_.add(states_[i].state, states_[i].parameter, std::move(leaves_[i]));
    add_facts();
    tree_.add_rest("model_states", std::move(model_.file), hidden_);
    // With ZeRO 3 the file has the vectors of rank 0, too, which no longer count.
    tree_.add_rest("optim_states", std::move(optimizer),
                   {{"fp32_flat_groups"}, {"optimizer_state_dict", "state"}, {"zero_stage"}});
    return std::move(tree_).checkpoint(options_, std::move(files_));
  }

 private:
  void list_states() {
    const std::string zero = folder_ + "/zero";
    for (const std::string& parameter : source_.names_in(zero)) {
      const std::string of_parameter = zero + "/" + parameter;
      if (!source_.is_folder(of_parameter)) continue;
      if (!valid_utf8(parameter)) data_loss(of_parameter + ": the name is not a text");
      for (const std::string& name : source_.names_in(of_parameter))
        if (name.ends_with(kEnding))
          states_.push_back({.parameter = parameter,
                             .state = name.substr(0, name.size() - kEnding.size()),
                             .path = of_parameter + "/" + name});
    }
  }

  // All parameters that were trained have the same files.
  void check_files() const {
    std::map<std::string_view, std::set<std::string_view>> found;  // states by parameter
    std::set<std::string_view> states = {kWeights};
    for (const StateFilePath& file : states_) {
      found[file.parameter].insert(file.state);
      if (shapes_.contains(file.parameter)) states.insert(file.state);
    }
    const bool is_split = model_.states.model_ranks.value_or(1) != 1;
    for (const auto& [name, shape] : shapes_)
      for (const std::string_view state : states)
        if (!is_split && !found[name].contains(state))
          data_loss(
              fmt::format("{}/zero/{}/{}{}: the file is missing", folder_, name, state, kEnding));
  }

  static StateFile read_leaves(const File& file, std::uint32_t number) {
    Executor here(1);  // these archives have few members
    return read_states(file, number, here, [](const pickle::Pickle&) { return std::monostate(); })
        .file;
  }

  void read_states_of_parameters() {
    const auto first = static_cast<std::uint32_t>(files_.size());
    const bool are_many = states_.size() > kMostOpen;
    for (const StateFilePath& file : states_)
      files_.push_back(are_many ? file_on_demand(source_, file.path)
                                : with_read_ahead(source_.open(file.path)));
    std::vector<StateFile> read(states_.size());
    workers_.executor().for_each(states_.size(), [&](std::size_t i) {
      const auto number = static_cast<std::uint32_t>(first + i);
      read[i] = read_leaves(files_[number], number);
    });
    for (std::size_t i = 0; i < states_.size(); ++i) {
      tree_.add_file(files_[first + i], read[i]);
      leaves_.push_back(with_context([&] { return states_[i].path; },
                                     [&] { return value_of(states_[i], read[i]); }));
    }
  }

  // A value alone, or a dict of the value and of how it was put together.
  RawLeaf value_of(const StateFilePath& file, StateFile& read) {
    std::optional<RawLeaf> value;
    for (StateLeaf& leaf : read.state.leaves) {
      const KeyPath& path = leaf.leaf.info.path;
      if (path.empty() || (path.size() == 1 && path[0].text == "param"))
        value = shaped(file, std::move(leaf));
      else
        others_.insert(path[0].text);
    }
    if (!value || !value->info.is_array()) data_loss("it holds no values of a parameter");
    return *std::move(value);
  }

  // Of a checkpoint of ZeRO 3, the values are in one dimension.
  RawLeaf shaped(const StateFilePath& file, StateLeaf leaf) const {
    const auto known = shapes_.find(file.parameter);
    TensorInfo& info = leaf.leaf.info;
    const bool is_flat = leaf.tensor && info.shape.size() == 1 && leaf.leaf.array.axes.empty();
    if (known == shapes_.end() || !is_flat) return std::move(leaf.leaf);
    if (elements_in(*known->second) == static_cast<std::uint64_t>(info.shape[0]))
      info.shape = *known->second;
    return std::move(leaf.leaf);
  }

  void add_weights() {
    Weights weights;
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].state == kWeights)
        weights.emplace_back(states_[i].parameter, std::move(leaves_[i]));
    add_buffers_and_ties(model_, weights);
    add_frozen(weights);
    if (!is_of_zero_3_) add_other_tensors(model_, weights);  // else a module has no values
    sort_as_module(model_, weights);
    hidden_ = paths_of_weights(weights);
    for (auto& [name, leaf] : weights) tree_.add(kWeights, name, std::move(leaf));
  }

  // DeepSpeed does not convert them from ZeRO 3; their parts are in the files of all ranks.
  void add_frozen(Weights& weights) {
    std::vector<ModelFile> models;
    if (is_of_zero_3_ && !model_.states.frozen.empty())
      for (const std::string& name : list_state_files(folder_, names_).models) {
        if (models.empty()) {
          models.push_back(model_);
          continue;
        }
        files_.push_back(with_read_ahead(source_.open(folder_ + "/" + name)));
        models.push_back(read_model_file(
            files_.back(), static_cast<std::uint32_t>(files_.size() - 1), workers_.executor()));
        tree_.add_file(files_.back(), models.back().file);
      }
    else
      models.push_back(model_);
    std::set<std::string, std::less<>> known;
    for (const auto& [name, leaf] : weights) known.insert(name);
    for (auto& weight : frozen_weights(models, is_of_zero_3_))
      if (!known.contains(weight.first)) weights.push_back(std::move(weight));
  }

  void add_facts() {
    info_.format = "pytorch";
    info_.layout = "DeepSpeed Universal checkpoint";
    info_.path = folder_;
    info_.facts.emplace_back("files", std::to_string(files_.size()));
    std::vector<std::string> unshown = {"the module's own copies of its parameters"};
    for (const std::string& other : others_) unshown.push_back("zero/*/*.pt: " + other);
    info_.facts.emplace_back("not shown", listed_names(unshown));
  }

  FileTree source_;
  std::string folder_;
  FolderNames names_;  // in the folder
  const OpenOptions& options_;
  Workers workers_;
  // The model's, the optimizer's, those of states_, then those of other ranks' models.
  std::vector<File> files_;
  ModelFile model_;
  bool is_of_zero_3_ = false;
  std::map<std::string, const Shape*> shapes_;  // of parameters that were trained
  std::vector<StateFilePath> states_;
  std::vector<RawLeaf> leaves_;   // parallel to states_
  std::set<std::string> others_;  // keys of values that are not shown
  HiddenPaths hidden_;            // in the file of model states
  CheckpointInfo info_;
  StateTree tree_{info_};
};

}  // namespace

std::unique_ptr<Checkpoint> open_universal(const FileTree& tree, const std::string& folder,
                                           const FolderNames& names, const OpenOptions& options) {
  return UniversalReader(tree, folder, names, options).checkpoint();
}

}  // namespace cairn::inline v0::pytorch::deepspeed
