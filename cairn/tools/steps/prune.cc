// prune.cc -- removes the steps of a directory that are no longer wanted.
#include <cairn/steps.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/manager/best_steps.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/tools/report/json_text.h>

#include <memory>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

std::vector<StepInfo> infos_of(const std::vector<StepRecord>& steps) {
  std::vector<StepInfo> infos;
  for (const StepRecord& record : steps)
    if (record.complete) infos.push_back({.step = record.step, .metrics = record.metrics});
  return infos;
}

// Keeps the best step, of those that have the metric.
KeepPolicy best_of(const std::string& name, BestMode mode) {
  return {[name, mode](std::span<const StepInfo> steps) {
    const auto metric = [&](const StepInfo& step) -> std::optional<double> {
      if (!step.metrics || !step.metrics->contains(name)) return std::nullopt;
      return step.metrics->at(name);
    };
    const std::vector<std::size_t> ranked = orbax::by_quality(steps, metric, mode);
    if (ranked.empty() && !steps.empty())
      throw Error(Code::kNotFound, "no step has the metric '" + name + "'");
    std::vector<bool> kept(steps.size(), false);
    if (!ranked.empty()) kept[ranked.back()] = true;
    return kept;
  }};
}

// Pairs of a policy and what it says of the steps it keeps, in the order in which they are named.
std::vector<std::pair<KeepPolicy, std::string>> policies_of(const PruneOptions& options) {
  std::vector<std::pair<KeepPolicy, std::string>> policies;
  if (options.keep_last)
    policies.emplace_back(keep_policy::latest(*options.keep_last),
                          "one of the last " + std::to_string(*options.keep_last));
  if (options.best)
    policies.emplace_back(best_of(*options.best, options.best_mode),
                          "the best by '" + *options.best + "'");
  if (options.keep_every)
    policies.emplace_back(keep_policy::every_n_steps(*options.keep_every),
                          "a multiple of " + std::to_string(*options.keep_every));
  if (policies.empty())
    invalid_argument(
        "nothing says which steps to keep; give a number of last steps, an interval "
        "or a metric");
  policies.emplace_back(keep_policy::latest(1), "the newest");
  return policies;
}

// Why each complete step is kept; "" if it is not.
std::vector<std::string> reasons(const std::vector<StepInfo>& infos, const PruneOptions& options) {
  std::vector<std::string> why(infos.size());
  for (const auto& [policy, text] : policies_of(options)) {
    const std::vector<bool> kept = policy.select(infos);
    for (std::size_t i = 0; i < infos.size(); ++i)
      if (kept[i] && why[i].empty()) why[i] = text;
  }
  return why;
}

// Whether a complete step is in two folders: it is not known which of them its writer means.
bool has_two_folders(const std::vector<StepRecord>& steps, const StepRecord& record) {
  return std::ranges::any_of(steps, [&](const StepRecord& other) {
    return other.complete && other.step == record.step && other.path != record.path;
  });
}

void refuse(PrunedStep& step, std::string why) {
  step.outcome = PruneOutcome::kRefused;
  step.why = std::move(why);
}

// Sets the outcome of `remove`: kRemoved, or kRefused if it throws. Throws cancelled after a
// request to stop.
template <class Remove>
void attempt(PrunedStep& step, Remove remove) {
  throw_if_cancelled();
  const auto removed = try_call([&] { return remove(std::string(name_of(step.path))), true; });
  step.outcome = PruneOutcome::kRemoved;
  if (removed) return;
  throw_if_cancelled();
  refuse(step, removed.error().message());
}

// Keeps the steps that links lead to which stay.
void keep_linked(const orbax::RunRoot& root, std::vector<PrunedStep>& steps) {
  std::set<std::string> names, going;
  for (const PrunedStep& step : steps) {
    names.emplace(name_of(step.path));
    if (step.outcome == PruneOutcome::kRemoved) going.emplace(name_of(step.path));
  }
  orbax::StepLinks links;
  const auto needed = root.needed_by_links(links, names, going);
  for (PrunedStep& step : steps) {
    const auto link = needed.find(std::string(name_of(step.path)));
    if (link == needed.end()) continue;
    step.outcome = PruneOutcome::kKept;
    step.why = "the link " + link->second + " leads to it";
  }
}

// A directory of steps, and the expected outcome for each of them.
struct Plan {
  std::unique_ptr<orbax::RunRoot> root;
  std::vector<PrunedStep> steps;
};

Plan plan_of(const std::string& path, const PruneOptions& options) {
  const std::vector<StepRecord> steps = read_steps(path, options.store);
  const StorePtr store = orbax::open_run_store(path, options.store);
  if (!steps.empty() && store == nullptr && file_exists(bundle_index_path(steps.front().path)))
    invalid_argument(path +
                     ": is a folder of TensorFlow checkpoints, which Cairn does not prune; its "
                     "CheckpointManager removes old ones (max_to_keep)");
  const std::vector<std::string> why = reasons(infos_of(steps), options);
  Plan plan{.root = store ? orbax::make_store_root(store, normal_path(path))
                          : orbax::make_local_root(Directory::open(path)),
            .steps = {}};
  std::size_t next = 0;
  for (const StepRecord& record : steps) {
    PrunedStep& step = plan.steps.emplace_back(
        PrunedStep{.step = record.step, .path = record.path, .nbytes = record.unique_nbytes});
    step.why = record.complete ? why[next++] : "not complete";
    if (!step.why.empty()) continue;
    if (has_two_folders(steps, record))
      refuse(step,
             record.path + ": the step is in another folder, too; remove one of them yourself");
    else
      attempt(step, [&](const std::string& name) {
        plan.root->check_removable(name, ForeignFiles::kRefuse);
      });
  }
  keep_linked(*plan.root, plan.steps);
  return plan;
}

Json outcome_json(PruneOutcome outcome) {
  switch (outcome) {
    case PruneOutcome::kKept:
      return "kept";
    case PruneOutcome::kRemoved:
      return "removed";
    case PruneOutcome::kRefused:
      break;
  }
  return "refused";
}

}  // namespace

std::vector<PrunedStep> prune_steps(const std::string& path, const PruneOptions& options) {
  Plan plan = stoppable_by(options.cancel, [&] { return plan_of(path, options); });
  // From here on a request counts only while there is something left to do.
  const CancellationScope scope{Cancellation(options.cancel)};
  for (PrunedStep& step : plan.steps)
    if (step.outcome == PruneOutcome::kRemoved && !options.dry_run)
      attempt(step, [&](const std::string& name) {
        plan.root->remove_step(name, CommitProtocol::kAtomicRename, ForeignFiles::kRefuse);
      });
  return std::move(plan.steps);
}

std::string prune_json(const std::vector<PrunedStep>& steps) {
  JsonArray list;
  for (const PrunedStep& step : steps)
    list.push_back(JsonObject{{"step", step.step},
                              {"path", text_json(step.path)},
                              {"nbytes", step.nbytes},
                              {"outcome", outcome_json(step.outcome)},
                              {"why", step.why.empty() ? Json() : text_json(step.why)}});
  return to_text(Json(std::move(list)), JsonStyle::kPretty);
}

}  // namespace cairn::inline v0
