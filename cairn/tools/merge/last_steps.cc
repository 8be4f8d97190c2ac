// last_steps.cc -- opens the last steps of a training run.
#include <cairn/convert.h>
#include <cairn/open.h>
#include <cairn/steps.h>

#include <cairn/base/errors.h>

#include <fmt/format.h>

namespace cairn::inline v0 {

std::vector<std::shared_ptr<const Checkpoint>> open_last_steps(const std::string& path,
                                                               std::size_t count,
                                                               const OpenOptions& options) {
  if (count < 2)
    invalid_argument(fmt::format("the last {} steps: expected a number of at least 2", count));
  if (options.step) invalid_argument("the last steps are chosen, so no step can be given");
  std::vector<StepRecord> complete;
  for (StepRecord& record : read_steps(path, options.store))
    if (record.complete) complete.push_back(std::move(record));
  if (complete.size() < count)
    throw Error(Code::kNotFound,
                fmt::format("{}: has {} complete step{}, not {}", path, complete.size(),
                            complete.size() == 1 ? "" : "s", count));
  std::vector<std::shared_ptr<const Checkpoint>> opened;
  for (std::size_t i = complete.size() - count; i < complete.size(); ++i)
    opened.push_back(open(complete[i].path, options));
  return opened;
}

}  // namespace cairn::inline v0
