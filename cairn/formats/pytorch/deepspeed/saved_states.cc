#include <cairn/formats/pytorch/deepspeed/saved_states.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/pytorch/tensors/fields.h>

#include <fmt/format.h>

#include <string_view>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

using pickle::Kind;
using pickle::Part;
using pickle::Pickle;
using pickle::Value;

// Bytes of memory for what is parsed: a pickle may share a dict of parameters any number of times.
constexpr std::uint64_t kStateMemory = std::uint64_t{64} << 20U;
constexpr std::uint64_t kStateMemoryPerByte = 32;
constexpr std::uint64_t kParameterMemory = 256;
constexpr std::uint64_t kExtentMemory = 8;

class StateParser {
 public:
  explicit StateParser(const Pickle& pickle)
      : p_(pickle), left_(kStateMemory + kStateMemoryPerByte * pickle.end()) {}

  ModelStates model_states() {
    const Value root = p_.root();
    const auto module = find_member(p_, root, "module");
    const auto buffers = find_member(p_, root, "buffer_names");
    if (!module || !is_dict(p_, *module) || !buffers)
      throw Error(Code::kInvalidArgument, "not a file of model states of DeepSpeed");
    ModelStates states;
    for (const Value name : list(*buffers, "buffer_names")) states.buffers.push_back(text(name));
    if (const auto shapes = needed_member(root, "param_shapes")) {
      states.has_shapes = true;
      for (const Value group : list(*shapes, "param_shapes"))
        states.groups.push_back(parameters(group, "param_shapes"));
    }
    if (const auto frozen = needed_member(root, "frozen_param_shapes"))
      states.frozen = parameters(*frozen, "frozen_param_shapes");
    if (const auto shared = needed_member(root, "shared_params")) add_ties(*shared, states);
    states.ranks = count_member(root, "dp_world_size");
    states.model_ranks = count_member(root, "mp_world_size");
    states.global_steps = count_member(root, "global_steps");
    return states;
  }

  OptimStates optim_states() {
    const auto dict = find_member(p_, p_.root(), "optimizer_state_dict");
    const auto parts = dict ? find_member(p_, *dict, "partition_count") : std::nullopt;
    if (!parts) throw Error(Code::kInvalidArgument, "not a file of optimizer states of ZeRO");
    OptimStates states{.stage = stage(*dict)};
    if (p_.kind(*parts) == Kind::kList)
      for (const Value count : p_.items(*parts)) add_count(count, states.partition_counts);
    else
      add_count(*parts, states.partition_counts);
    if (const auto paddings = needed_member(*dict, "param_alignment_paddings"))
      for (const Value group : list(*paddings, "param_alignment_paddings")) {
        charge(kParameterMemory);
        auto& of_group = states.paddings.emplace_back();
        for (const Value padding : list(group, "param_alignment_paddings"))
          add_count(padding, of_group);
      }
    return states;
  }

 private:
  void charge(std::uint64_t bytes) {
    if (bytes > left_) data_loss("its parameters take too much memory for a pickle of this size");
    left_ -= bytes;
  }

  // A member of a dict; nullopt if there is none or it is None.
  [[nodiscard]] std::optional<Value> needed_member(Value dict, std::string_view key) const {
    const auto found = find_member(p_, dict, key);
    return found && p_.kind(*found) != Kind::kNone ? found : std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint64_t> count_member(Value dict, std::string_view key) const {
    const auto found = find_member(p_, dict, key);
    if (!found || p_.kind(*found) != Kind::kInt || p_.integer(*found) < 0) return std::nullopt;
    return static_cast<std::uint64_t>(p_.integer(*found));
  }
  void add_count(Value value, std::vector<std::uint64_t>& counts) {
    charge(kExtentMemory);
    counts.push_back(count_field(p_, value));
  }

  [[nodiscard]] std::span<const Value> list(Value value, std::string_view what) const {
    if (p_.kind(value) != Kind::kList && p_.kind(value) != Kind::kTuple)
      throw Error(Code::kUnimplemented, fmt::format("{} is not a list", what));
    return p_.items(value);
  }
  std::string text(Value value) {
    if (!is_text(p_, value) || !valid_utf8(p_.text(value)))
      data_loss("the name of a parameter is not a text");
    charge(kParameterMemory + p_.text(value).size());
    return std::string(p_.text(value));
  }

  std::vector<Parameter> parameters(Value dict, std::string_view what) {
    if (!is_dict(p_, dict)) data_loss(fmt::format("{} has no dict of shapes", what));
    std::vector<Parameter> found;
    for_each_entry(p_, dict, nullptr, [&](Value name, Value shape) {
      Parameter parameter{.name = text(name)};
      with_context([&] { return parameter.name; },
                   [&] { parameter.shape = extents_field(p_, shape); });
      charge(kParameterMemory + kExtentMemory * parameter.shape.size());
      found.push_back(std::move(parameter));
    });
    return found;
  }

  void add_ties(Value dict, ModelStates& states) {
    if (!is_dict(p_, dict)) data_loss("shared_params is not a dict");
    for_each_entry(p_, dict, nullptr, [&](Value name, Value source) {
      std::string first = text(name);
      states.ties.emplace_back(std::move(first), text(source));
    });
  }

  // ZeroStageEnum(2), or 2. BF16_Optimizer writes none; its parts are those of stage 1.
  [[nodiscard]] std::uint64_t stage(Value dict) const {
    auto value = needed_member(dict, "zero_stage");
    if (!value) return 1;
    if (p_.kind(*value) == Kind::kCall) {
      const Value arguments = p_.part(*value, Part::kArguments);
      if (p_.kind(arguments) != Kind::kTuple || p_.items(arguments).size() != 1)
        data_loss("its stage of ZeRO is not a number");
      value = p_.items(arguments)[0];
    }
    const std::uint64_t number = count_field(p_, *value);
    if (number < 1 || number > 3) data_loss(fmt::format("its stage of ZeRO is {}", number));
    return number;
  }

  const Pickle& p_;
  std::uint64_t left_;  // bytes of memory for what is parsed
};

}  // namespace

ModelStates parse_model_states(const Pickle& pickle) { return StateParser(pickle).model_states(); }

OptimStates parse_optim_states(const Pickle& pickle) { return StateParser(pickle).optim_states(); }

}  // namespace cairn::inline v0::pytorch::deepspeed
