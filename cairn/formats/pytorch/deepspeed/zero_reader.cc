#include <cairn/formats/pytorch/deepspeed/zero_reader.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/deepspeed/model_file.h>
#include <cairn/formats/pytorch/deepspeed/parameter_leaf.h>
#include <cairn/formats/pytorch/deepspeed/partitions.h>
#include <cairn/formats/pytorch/deepspeed/rank_states.h>
#include <cairn/formats/pytorch/deepspeed/state_tree.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

class ZeroReader {
 public:
  ZeroReader(const FileTree& tree, std::string folder, const StateFiles& names,
             const OpenOptions& options)
      : folder_(std::move(folder)), options_(options), workers_(options.resources.threads) {
    for (const auto* of_kind : {&names.models, &names.optims})
      for (const std::string& name : *of_kind)
        files_.push_back(with_read_ahead(tree.open(folder_ + "/" + name)));
    Executor& executor = workers_.executor();
    models_.resize(names.models.size());
    ranks_.resize(names.optims.size());
    executor.for_each(files_.size(), [&](std::size_t i) {
      const auto number = static_cast<std::uint32_t>(i);
      if (i < models_.size())
        models_[i] = read_model_file(files_[i], number, executor);
      else
        ranks_[i - models_.size()] = read_rank_states(files_[i], number, executor);
    });
  }

  std::unique_ptr<Checkpoint> checkpoint() && {
    check_ranks();
    check_models();
    partition();
    add_weights();
    add_states();
    return std::move(*this).finish();
  }

 private:
  [[nodiscard]] std::uint64_t stage() const { return ranks_[0].states.stage; }

  // ---- whether the files belong together ----

  void check_ranks() const {
    for (const RankStates& rank : ranks_) {
      const auto& counts = rank.states.partition_counts;
      if (rank.states.stage != stage())
        fail_two_saves(rank.path, ranks_[0].path, "another stage of ZeRO");
      if (counts.empty() || counts != ranks_[0].states.partition_counts)
        fail_two_saves(rank.path, ranks_[0].path, "another number of ranks");
      if (rank.weights.size() != ranks_[0].weights.size())
        fail_two_saves(rank.path, ranks_[0].path, "another number of groups of parameters");
      if (rank.states.paddings != ranks_[0].states.paddings)
        fail_two_saves(rank.path, ranks_[0].path, "another padding");
      if (std::ranges::count(counts, counts[0]) != static_cast<std::ptrdiff_t>(counts.size()))
        throw Error(Code::kUnimplemented,
                    fmt::format("{}: its groups are divided among different numbers of ranks ({}), "
                                "as with experts",
                                rank.path, fmt::join(counts, ", ")));
      check_count(rank, counts[0]);
    }
  }
  void check_count(const RankStates& rank, std::uint64_t count) const {
    const std::string next = name_of_rank(name_of(ranks_.back().path), ranks_.size());
    if (count > ranks_.size())
      data_loss(fmt::format("{}/{}: the file is missing; {} ranks saved, as {} says", folder_, next,
                            count, name_of(rank.path)));
    if (count < ranks_.size())
      throw Error(Code::kFailedPrecondition,
                  fmt::format("{}: is of another save; {} ranks saved, as {} says",
                              ranks_.back().path, count, name_of(rank.path)));
  }

  void check_models() const {
    const ModelFile& first = models_[0];
    if (stage() == 3 && models_.size() != ranks_.size())
      data_loss(fmt::format("{}: with ZeRO 3, each rank has such a file; there are {} for {} ranks",
                            first.path, models_.size(), ranks_.size()));
    if (stage() != 3 && models_.size() != 1)
      throw Error(Code::kFailedPrecondition,
                  fmt::format("{}: is a file of ZeRO 3, but {} is of stage {}", models_.back().path,
                              name_of(ranks_[0].path), stage()));
    if (!first.states.has_shapes)
      throw Error(Code::kFailedPrecondition,
                  fmt::format("{}: has no shapes of parameters, as if ZeRO was not used, but there "
                              "is {}",
                              first.path, name_of(ranks_[0].path)));
    for (const ModelFile& model : models_) {
      if (model.states.model_ranks.value_or(1) != 1)
        throw Error(Code::kUnimplemented,
                    fmt::format("{}: the model is split among {} ranks, which Cairn does not read",
                                model.path, *model.states.model_ranks));
      if (model.states.ranks.value_or(ranks_.size()) != ranks_.size())
        throw Error(Code::kFailedPrecondition,
                    fmt::format("{}: {} ranks saved it, but there are optimizer states of {}; the "
                                "files are of two saves",
                                model.path, *model.states.ranks, ranks_.size()));
      if (model.states.groups != first.states.groups || model.states.frozen != first.states.frozen)
        fail_two_saves(model.path, first.path, "other shapes of parameters");
      if (model.states.global_steps != first.states.global_steps)
        fail_two_saves(model.path, first.path, "another number of steps");
    }
  }

  // ---- parameters ----

  void partition() {
    Lengths lengths;
    for (const RankStates& rank : ranks_) {
      auto& of_rank = lengths.emplace_back();
      for (const FlatPart& part : rank.weights) of_rank.push_back(part.count);
    }
    const auto& groups = models_[0].states.groups;
    partitioned_ = with_context(
        [&] { return ranks_[0].path; },
        [&] {
          return stage() == 3 ? partition_parameters(groups, lengths)
                              : partition_groups(groups, ranks_[0].states.paddings, lengths);
        });
  }

  RawLeaf weights_leaf(const Partitioned& parameter) const {
    const TorchElement& element = ranks_[0].weights[parameter.group].element;
    return parameter_leaf(parameter, element, [&](const Fragment& fragment) -> const FlatPart& {
      const RankStates& rank = ranks_[fragment.rank];
      const FlatPart& part = rank.weights[fragment.group];
      if (part.element.name != element.name)
        fail_two_saves(rank.path, ranks_[0].path, "another type of weights");
      return part;
    });
  }

  void add_weights() {
    Weights weights;
    std::set<std::string_view> names;
    const auto add = [&](const std::string& name, RawLeaf leaf) {
      if (!names.insert(name).second)
        data_loss(fmt::format("{}: {}: is there twice", models_[0].path, name));
      weights.emplace_back(name, std::move(leaf));
    };
    for (auto& [name, leaf] : frozen_weights(models_, stage() == 3)) add(name, std::move(leaf));
    for (const Partitioned& parameter : partitioned_)
      add(parameter.parameter->name, weights_leaf(parameter));
    add_buffers_and_ties(models_[0], weights);
    if (stage() != 3) add_other_tensors(models_[0], weights);
    sort_as_module(models_[0], weights);
    hidden_ = paths_of_weights(weights);
    for (auto& [name, leaf] : weights) tree_.add(kWeights, name, std::move(leaf));
  }

  // ---- what the optimizer keeps ----

  void add_states() {
    check_scalars();
    for (const Partitioned& parameter : partitioned_) {
      if (parameter.group >= ranks_[0].groups.size()) continue;  // there are no vectors
      const GroupStates& states = ranks_[0].groups[parameter.group];
      for (const auto& [name, first] : states.moments)
        tree_.add(name, parameter.parameter->name, moment_leaf(parameter, name, first.element));
      for (const auto& [name, leaf] : states.scalars)
        tree_.add(name, parameter.parameter->name, RawLeaf(leaf));
    }
  }

  RawLeaf moment_leaf(const Partitioned& parameter, const std::string& name,
                      const TorchElement& element) const {
    return parameter_leaf(parameter, element, [&](const Fragment& fragment) -> const FlatPart& {
      const RankStates& rank = ranks_[fragment.rank];
      const auto& moments = rank.groups[fragment.group].moments;
      const auto found = moments.find(name);
      if (found == moments.end() || found->second.element.name != element.name)
        data_loss(fmt::format("{}: has no {} of group {}, as other ranks have", rank.path, name,
                              fragment.group));
      return found->second;  // is as long as the weights
    });
  }

  // All ranks take their steps together.
  void check_scalars() const {
    for (const RankStates& rank : ranks_)
      for (std::size_t g = 0; g < rank.groups.size(); ++g)
        for (const auto& [name, leaf] : ranks_[0].groups[g].scalars) {
          const auto found = rank.groups[g].scalars.find(name);
          if (found == rank.groups[g].scalars.end() || bytes_of(found->second) != bytes_of(leaf))
            fail_two_saves(rank.path, ranks_[0].path,
                           fmt::format("another {} of group {}", name, g));
        }
  }
  [[nodiscard]] Bytes bytes_of(const RawLeaf& scalar) const {
    Bytes bytes(scalar.info.nbytes);
    read_raw_bytes(files_, scalar.array, 0, bytes);
    return bytes;
  }

  // ---- the rest ----

  std::unique_ptr<Checkpoint> finish() && {
    info_.format = "pytorch";
    info_.layout = fmt::format("DeepSpeed checkpoint, ZeRO {}", stage());
    info_.path = folder_;
    info_.facts.emplace_back("ranks", std::to_string(ranks_.size()));
    info_.facts.emplace_back("parameters", std::to_string(partitioned_.size()));
    std::vector<std::string> ties;
    for (const auto& [name, source] : models_[0].states.ties) ties.push_back(name + " = " + source);
    if (!ties.empty()) info_.facts.emplace_back("tied", listed_names(ties));
    std::vector<std::string> unshown = {"the module's own copies of its parameters"};
    if (ranks_.size() > 1) unshown.emplace_back("values of rank 1 and above beside their parts");
    unshown.insert(unshown.end(), ranks_[0].others.begin(), ranks_[0].others.end());
    info_.facts.emplace_back("not shown", listed_names(unshown));

    std::size_t number = 0;
    for (const ModelFile& model : models_) tree_.add_file(files_[number++], model.file);
    for (const RankStates& rank : ranks_) tree_.add_file(files_[number++], rank.file);
    tree_.add_rest("model_states", std::move(models_[0].file), hidden_);
    tree_.add_rest("optim_states", std::move(ranks_[0].file), paths_of_vectors());
    return std::move(tree_).checkpoint(options_, std::move(files_));
  }

  std::string folder_;
  const OpenOptions& options_;
  Workers workers_;
  std::vector<File> files_;        // of models_, then of ranks_
  std::vector<ModelFile> models_;  // one, or with ZeRO 3 one of each rank
  std::vector<RankStates> ranks_;
  std::vector<Partitioned> partitioned_;
  HiddenPaths hidden_;  // in the file of model states
  CheckpointInfo info_;
  StateTree tree_{info_};
};

}  // namespace

std::unique_ptr<Checkpoint> open_zero(const FileTree& tree, const std::string& folder,
                                      const StateFiles& names, const OpenOptions& options) {
  return ZeroReader(tree, folder, names, options).checkpoint();
}

std::unique_ptr<Checkpoint> open_model_alone(const FileTree& tree, const std::string& folder,
                                             const StateFiles& names, const OpenOptions& options) {
  const std::string path = folder + "/" + names.models.front();
  Executor here(1);
  if (read_model_file(with_read_ahead(tree.open(path)), 0, here).states.has_shapes)
    data_loss(
        fmt::format("{}: its files of optimizer states (*_optim_states.pt) are missing; {} "
                    "has only names and shapes of the weights",
                    folder, names.models.front()));
  return open_pytorch(tree, path, options);
}

}  // namespace cairn::inline v0::pytorch::deepspeed
