// flax_folder.cc -- finds the steps that flax.training.checkpoints saved in a folder.
#include <cairn/tools/source/flax_folder.h>

#include <cairn/base/text.h>
#include <cairn/error.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kFlaxPrefix = "checkpoint_";

struct FlaxStep {
  double number = 0;  // flax accepts fractions
  std::string name;
};

// nullopt for other names, for example "checkpoint_tmp", a save in progress.
std::optional<double> flax_step(std::string_view name) {
  if (!name.starts_with(kFlaxPrefix)) return std::nullopt;
  name.remove_prefix(kFlaxPrefix.size());
  const bool number =
      consists_of(name, "0123456789.eE+-") && name.find_first_of(kDecimalDigits) == 0;
  double step = 0;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (!number || status != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

std::vector<FlaxStep> find_steps(const FileTree& tree, const std::string& folder) {
  std::vector<FlaxStep> steps;
  for (FolderEntry& entry : tree.entries(folder)) {
    const auto number = flax_step(entry.name);
    if (number && !entry.is_folder) steps.push_back({*number, std::move(entry.name)});
  }
  std::sort(steps.begin(), steps.end(), [](const FlaxStep& a, const FlaxStep& b) {
    return std::pair(a.number, std::string_view(a.name)) <
           std::pair(b.number, std::string_view(b.name));
  });
  return steps;
}

}  // namespace

std::vector<std::string> flax_step_files(const FileTree& tree, const std::string& folder) {
  std::vector<std::string> files;
  for (const FlaxStep& step : find_steps(tree, folder)) files.push_back(folder + "/" + step.name);
  return files;
}

std::optional<std::string> flax_step_file(const FileTree& tree, const std::string& folder,
                                          std::optional<std::int64_t> step) {
  const std::vector<FlaxStep> steps = find_steps(tree, folder);
  if (steps.empty()) return std::nullopt;
  if (!step) return folder + "/" + steps.back().name;
  std::string names;
  for (const FlaxStep& each : steps) {
    if (each.number == static_cast<double>(*step)) return folder + "/" + each.name;
    names += (names.empty() ? "" : ", ") + each.name;
  }
  throw Error(Code::kNotFound,
              "step " + std::to_string(*step) + " is not in " + folder + "; it has " + names);
}

}  // namespace cairn::inline v0
