// dcp_run.cc -- finds the steps by the names and contents of folders.
#include <cairn/tools/dcp/dcp_run.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/distributed/completeness.h>
#include <cairn/orbax/layout/names.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kBeforeStep = "-_=";

void refuse_two(const std::string& folder, const DcpStep& a, const DcpStep& b) {
  if (a.step == b.step)
    throw Error(Code::kInvalidArgument,
                fmt::format("step {} of {} is in two folders, '{}' and '{}': open one of them "
                            "directly",
                            a.step, folder, name_of(a.path), name_of(b.path)));
}

DcpStep named_step(const std::string& folder, const std::vector<DcpStep>& steps,
                   std::int64_t wanted) {
  const auto found = std::ranges::find(steps, wanted, &DcpStep::step);
  if (found == steps.end()) {
    std::vector<std::string> numbers;
    numbers.reserve(steps.size());
    for (const DcpStep& step : steps) numbers.push_back(std::to_string(step.step));
    throw Error(Code::kNotFound, fmt::format("step {} is not in {}; it has {}", wanted, folder,
                                             listed_names(numbers)));
  }
  if (found + 1 != steps.end()) refuse_two(folder, *found, *(found + 1));
  return *found;
}

}  // namespace

std::optional<std::int64_t> dcp_step_of(std::string_view name) {
  if (name.find(orbax::kTemporaryMark) != std::string_view::npos) return std::nullopt;
  const std::size_t last = name.find_last_not_of(kDecimalDigits);
  const std::string_view digits = last == std::string_view::npos ? name : name.substr(last + 1);
  if (last != std::string_view::npos &&
      (last == 0 || kBeforeStep.find(name[last]) == std::string_view::npos))
    return std::nullopt;
  std::int64_t step = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (status != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return step;
}

std::vector<DcpStep> dcp_steps_in(const FileTree& tree, const std::string& folder) {
  std::vector<DcpStep> steps;
  for (const FolderEntry& entry : tree.entries(folder)) {
    const auto step = dcp_step_of(entry.name);
    const std::string path = folder + "/" + entry.name;
    if (step && tree.is_folder(path) &&
        (is_distributed(tree, path) || is_unfinished_distributed(tree, path)))
      steps.push_back({*step, path});
  }
  std::ranges::sort(steps, {}, [](const DcpStep& step) {
    return std::pair(step.step, std::string_view(step.path));
  });
  return steps;
}

std::optional<ChosenDcpStep> choose_dcp_step(const FileTree& tree, const std::string& folder,
                                             std::optional<std::int64_t> wanted) {
  const std::vector<DcpStep> steps = dcp_steps_in(tree, folder);
  if (steps.empty()) return std::nullopt;
  if (wanted) return ChosenDcpStep{named_step(folder, steps, *wanted), {}};
  ChosenDcpStep chosen;
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
    std::string why = pytorch::why_incomplete(tree, it->path);
    if (why.empty()) {
      if (it + 1 != steps.rend()) refuse_two(folder, *(it + 1), *it);
      chosen.step = *it;
      return chosen;
    }
    chosen.passed_over.push_back({*it, std::move(why), is_distributed(tree, it->path)});
  }
  throw Error(Code::kFailedPrecondition,
              fmt::format("none of the {} steps of {} is complete; step {}: {}", steps.size(),
                          folder, steps.back().step, chosen.passed_over.front().why));
}

}  // namespace cairn::inline v0
