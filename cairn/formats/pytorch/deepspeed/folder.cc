#include <cairn/formats/pytorch/deepspeed/folder.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <utility>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

constexpr std::string_view kModelEnding = "_model_states.pt";
constexpr std::string_view kOptimEnding = "_optim_states.pt";
constexpr std::string_view kRank = "zero_pp_rank_";
constexpr std::string_view kModelRank = "mp_rank_";
// DeepSpeed puts this script into each run folder.
constexpr std::string_view kScript = "zero_to_fp32.py";
constexpr std::uint64_t kMostTag = 4096;  // bytes

// Also "layer_00-model_states.pt", and "..._00optim_states.pt" as early versions wrote.
bool is_state_file(std::string_view name) {
  return name.ends_with(kModelEnding.substr(1)) || name.ends_with(kOptimEnding.substr(1));
}

// The parts of a name: "bf16_" "zero_pp_rank_" 3 "_mp_rank_" 0 "_optim_states.pt".
struct StateName {
  std::string prefix;                 // "", "bf16_" or "fp16_"
  std::optional<std::uint64_t> rank;  // nullopt: one file for all ranks
  std::uint64_t model_rank = 0;
};

// Takes a decimal number from the front.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// nullopt for a name of another form.
std::optional<StateName> parse_name(std::string_view name) {
  StateName parsed;
  for (const std::string_view prefix : {"bf16_", "fp16_"})
    if (take(name, prefix)) parsed.prefix = prefix;
  if (take(name, kRank)) {
    if (name.starts_with('0') && !name.starts_with("0_")) return std::nullopt;
    parsed.rank = take_number(name);
    if (!parsed.rank || !take(name, "_")) return std::nullopt;
  } else if (!parsed.prefix.empty()) {
    return std::nullopt;
  }
  if (!take(name, kModelRank)) return std::nullopt;
  const auto model_rank = take_number(name);
  if (!model_rank || (name != kModelEnding && name != kOptimEnding)) return std::nullopt;
  parsed.model_rank = *model_rank;
  return parsed;
}

StateName parse_supported_name(const std::string& folder, const std::string& name) {
  const auto parsed = parse_name(name);
  if (!parsed)
    throw Error(Code::kUnimplemented,
                fmt::format("{}/{}: Cairn does not read DeepSpeed checkpoints of pipeline stages, "
                            "of experts, or of early versions",
                            folder, name));
  if (parsed->model_rank != 0)
    throw Error(Code::kUnimplemented,
                fmt::format("{}/{}: Cairn does not read DeepSpeed checkpoints of models that are "
                            "split among ranks (mp_rank above 0); convert it with DeepSpeed's "
                            "ds_to_universal",
                            folder, name));
  return *parsed;
}

// The files of one kind. Ranks are numbered without gaps.
class Ranks {
 public:
  explicit Ranks(const std::string& folder) : folder_(folder) {}

  void add(const StateName& parsed, const std::string& name) {
    if (!names_.empty() && parsed.prefix != prefix_) fail_two_saves(names_.begin()->second, name);
    prefix_ = parsed.prefix;
    if (!parsed.rank)
      single_ = name;
    else
      names_.emplace(*parsed.rank, name);
    if (single_ && !names_.empty()) fail_two_saves(*single_, names_.begin()->second);
  }

  [[nodiscard]] bool is_empty() const { return !single_ && names_.empty(); }
  [[nodiscard]] bool is_single() const { return single_.has_value(); }

  std::vector<std::string> in_order() && {
    if (single_) return {*std::move(single_)};
    std::vector<std::string> found;
    for (auto& [rank, name] : names_) {
      if (rank != found.size())
        data_loss(
            fmt::format("{}/{}: the file is missing; there are files of later ranks, such "
                        "as {}",
                        folder_, name_of_rank(name, found.size()), name));
      found.push_back(std::move(name));
    }
    return found;
  }

 private:
  [[noreturn]] void fail_two_saves(const std::string& a, const std::string& b) const {
    throw Error(Code::kFailedPrecondition,
                fmt::format("{}: {} and {} are of two saves; remove the files of one of them",
                            folder_, a, b));
  }

  const std::string& folder_;
  std::string prefix_;
  std::optional<std::string> single_;
  std::map<std::uint64_t, std::string> names_;
};

// The tag that a file names; nullopt if it does not hold the name of a folder.
std::optional<std::string> read_tag(const FileTree& tree, const std::string& path) {
  const auto text = try_look(tree.is_local(), [&]() -> std::optional<std::string> {
    const auto file = tree.try_open(path);
    if (!file || file->size() > kMostTag) return std::nullopt;
    Bytes bytes(file->size());
    file->read_into(0, bytes);
    std::string_view tag = as_text(bytes);
    constexpr std::string_view kSpace = " \t\r\n";
    tag.remove_prefix(std::min(tag.find_first_not_of(kSpace), tag.size()));
    tag = tag.substr(0, tag.find_last_not_of(kSpace) + 1);
    const bool is_name = is_below_folder(tag) && tag.find('\0') == std::string_view::npos &&
                         tag.find('\n') == std::string_view::npos;
    return is_name ? std::optional(std::string(tag)) : std::nullopt;
  });
  return text.ok() ? text.value() : std::nullopt;
}

}  // namespace

bool is_universal(const FileTree& tree, const std::string& folder, const FolderNames& names) {
  constexpr std::size_t kMostProbes = 8;
  const std::string zero = folder + "/zero";
  if (!names.contains("zero") || !tree.is_folder(zero)) return false;
  if (std::ranges::any_of(names, is_state_file)) return true;
  std::size_t probes = 0;
  for (const std::string& name : tree.names_in(zero)) {
    if (++probes > kMostProbes) break;
    if (tree.exists(fmt::format("{}/{}/fp32.pt", zero, name))) return true;
  }
  return false;
}

bool is_tag_folder(const FileTree& tree, const std::string& folder, const FolderNames& names) {
  return std::ranges::any_of(names, is_state_file) || is_universal(tree, folder, names);
}

StateFiles list_state_files(const std::string& folder, const FolderNames& names) {
  Ranks models(folder), optims(folder);
  for (const std::string& name : names)
    if (is_state_file(name))
      (name.ends_with(kOptimEnding) ? optims : models)
          .add(parse_supported_name(folder, name), name);
  if (models.is_empty())
    data_loss(folder + ": its file of model states (mp_rank_00_model_states.pt) is missing");
  const bool has_one_model = models.is_single();
  StateFiles files{.models = std::move(models).in_order(), .optims = std::move(optims).in_order()};
  if (has_one_model || files.optims.empty()) return files;
  const std::size_t of_models = files.models.size(), of_optims = files.optims.size();
  if (of_models != of_optims) {
    const bool lacks_model = of_models < of_optims;
    data_loss(fmt::format("{}/{}: the file is missing; there is {}", folder,
                          lacks_model ? name_of_rank(files.models.back(), of_models)
                                      : name_of_rank(files.optims.back(), of_optims),
                          lacks_model ? files.optims.back() : files.models.back()));
  }
  return files;
}

std::optional<std::string> first_model_file(const FolderNames& names) {
  for (const char* name :
       {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt"})
    if (names.contains(name)) return name;
  return std::nullopt;
}

std::string name_of_rank(std::string_view name, std::size_t rank) {
  const std::size_t begin = name.find(kRank) + kRank.size();
  return fmt::format("{}{}{}", name.substr(0, begin), rank, name.substr(name.find('_', begin)));
}

std::optional<std::string> newest_tag_folder(const FileTree& tree, const std::string& folder,
                                             const FolderNames& names) {
  for (const char* latest : {"latest", "latest_universal"}) {
    if (!names.contains(latest)) continue;
    const auto tag = read_tag(tree, folder + "/" + latest);
    if (!tag) continue;
    std::string named = folder + "/" + *tag;
    if (tree.is_folder(named) && is_tag_folder(tree, named, tree.names_in(named))) return named;
    if (names.contains(kScript))
      throw Error(Code::kFailedPrecondition,
                  fmt::format("{}/{}: names the DeepSpeed checkpoint {}, which is not there; open "
                              "the folder of another one",
                              folder, latest, *tag));
  }
  return std::nullopt;
}

}  // namespace cairn::inline v0::pytorch::deepspeed
