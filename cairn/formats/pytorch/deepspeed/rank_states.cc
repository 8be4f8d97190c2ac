#include <cairn/formats/pytorch/deepspeed/rank_states.h>

#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

constexpr std::string_view kDict = "optimizer_state_dict";
constexpr std::string_view kStep = "step";  // may be a vector of one element

std::optional<std::size_t> index_of(std::string_view text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool is_index = error == std::errc() && end == text.data() + text.size();
  return is_index ? std::optional(index) : std::nullopt;
}

class RankReader {
 public:
  explicit RankReader(RankStates& rank)
      : rank_(rank),
        is_stage_3_(rank.states.stage == 3),
        weights_(is_stage_3_ ? "fp32_flat_groups" : "single_partition_of_fp32_groups"),
        optimizer_(is_stage_3_ ? kDict : "base_optimizer_state") {}

  void run() {
    for (const StateLeaf& leaf : rank_.file.state.leaves) add_weights(leaf);
    rank_.groups.resize(rank_.weights.size());
    for (const StateLeaf& leaf : rank_.file.state.leaves) add_state(leaf);
  }

 private:
  static const std::string& key(const StateLeaf& leaf, std::size_t i) {
    return leaf.leaf.info.path[i].text;
  }
  static std::size_t depth(const StateLeaf& leaf) { return leaf.leaf.info.path.size(); }

  // A vector of ZeRO 3 has attributes. Then it is <G>.value, and they are <G>.__dict__.
  void add_weights(const StateLeaf& leaf) {
    if (depth(leaf) < 3 || key(leaf, 0) != kDict || key(leaf, 1) != weights_) return;
    if (depth(leaf) > 3 && key(leaf, 3) == "__dict__") return;
    with_context([&] { return leaf.leaf.info.name; },
                 [&] {
                   const bool is_vector =
                       depth(leaf) == 3 || (depth(leaf) == 4 && key(leaf, 3) == "value");
                   if (!is_vector || index_of(key(leaf, 2)) != rank_.weights.size())
                     data_loss("it is not a vector of weights");
                   rank_.weights.push_back(flat_part(leaf));
                 });
  }

  // The states of a group are state.<G>.<name>. With elastic checkpoints they are <G>.<name>.
  void add_state(const StateLeaf& leaf) {
    if (depth(leaf) < 3 || key(leaf, 0) != kDict || key(leaf, 1) != optimizer_) return;
    std::size_t at = 2;
    if (key(leaf, at) == "state") ++at;
    const auto group = depth(leaf) > at ? index_of(key(leaf, at)) : std::nullopt;
    if (!group) return;
    if (depth(leaf) != at + 2 || *group >= rank_.groups.size() || !add_state(leaf, *group))
      rank_.others.push_back(leaf.leaf.info.name);
  }

  // Returns false for anything but a moment or a scalar.
  bool add_state(const StateLeaf& leaf, std::size_t group) {
    const std::string& name = leaf.leaf.info.path.back().text;
    GroupStates& states = rank_.groups[group];
    const TensorInfo& info = leaf.leaf.info;
    const bool is_vector = leaf.tensor && info.shape.size() == 1 && name != kStep;
    if (is_vector && static_cast<std::uint64_t>(info.shape[0]) >= rank_.weights[group].count) {
      states.moments.emplace(
          name, with_context([&] { return info.name; }, [&] { return flat_part(leaf); }));
      return true;
    }
    constexpr std::uint64_t kMostOfScalar = 16;  // bytes
    const bool is_scalar = info.is_array() && info.error.empty() && leaf.leaf.unreadable.empty() &&
                           info.nbytes > 0 && info.nbytes <= kMostOfScalar;
    if (is_scalar) states.scalars.emplace(name, leaf.leaf);
    return is_scalar;
  }

  RankStates& rank_;
  bool is_stage_3_;
  std::string_view weights_, optimizer_;
};

}  // namespace

RankStates read_rank_states(const File& file, std::uint32_t number, Executor& executor) {
  auto read = read_states(file, number, executor, parse_optim_states);
  RankStates rank{.path = file.path(),
                  .states = std::move(read.states),
                  .weights = {},
                  .groups = {},
                  .others = {},
                  .file = std::move(read.file)};
  with_context([&] { return rank.path; }, [&] { RankReader(rank).run(); });
  return rank;
}

HiddenPaths paths_of_vectors() {
  const std::string dict(kDict);
  return {{dict, "single_partition_of_fp32_groups"},
          {dict, "fp32_flat_groups"},
          {dict, "base_optimizer_state", "state"},
          {dict, dict, "state"},
          {dict, "param_slice_mappings"},
          {dict, "zero_stage"}};
}

}  // namespace cairn::inline v0::pytorch::deepspeed
