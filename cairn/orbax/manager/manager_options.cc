// manager_options.cc -- checks the options, and makes policies of those that are shorthands.
#include <cairn/orbax/manager/manager_options.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/save/step_format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {

void check_options(const CheckpointManagerOptions& options) {
  if (!options.read_only && options.keep_policy.select &&
      (options.max_to_keep || options.keep_period || options.keep_time_interval))
    invalid_argument("keep_policy excludes max_to_keep, keep_period and keep_time_interval");
  if (options.save_interval_steps <= 0)
    invalid_argument("save_interval_steps is " + std::to_string(options.save_interval_steps) +
                     "; it must be positive");
  if (options.todelete_subdir) {
    const std::string& name = *options.todelete_subdir;
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
      invalid_argument("todelete_subdir '" + name + "' is not the name of a directory");
    if (parse_step_name(name, options.step_name_format) || name == kRootMetadataFolder)
      invalid_argument("todelete_subdir '" + name + "' is a name that the manager itself uses");
    if (name.find(kTemporaryMark) != std::string::npos)
      invalid_argument("todelete_subdir '" + name + "' is a name of unfinished checkpoints");
  }
  (void)step_name(0, options.step_name_format);
  if (options.step_format != nullptr) options.step_format->check_options(options.handler);
}

std::vector<std::string_view> ignored_options(const CheckpointManagerOptions& options) {
  if (!options.read_only) return {};
  const CheckpointManagerOptions defaults;
  const std::pair<std::string_view, bool> given[] = {
      {"save_interval_steps", options.save_interval_steps != defaults.save_interval_steps},
      {"save_on_steps", !options.save_on_steps.empty()},
      {"save_policy", options.save_policy.decide != nullptr},
      {"max_to_keep", options.max_to_keep.has_value()},
      {"keep_period", options.keep_period.has_value()},
      {"keep_time_interval", options.keep_time_interval.has_value()},
      {"keep_policy", options.keep_policy.select != nullptr},
      {"cleanup_tmp_directories", options.cleanup_tmp_directories},
      {"todelete_subdir", options.todelete_subdir.has_value()}};
  std::vector<std::string_view> names;
  for (const auto& [name, is_given] : given)
    if (is_given) names.push_back(name);
  return names;
}

SavePolicy save_policy_of(const CheckpointManagerOptions& options) {
  if (options.save_policy.decide) return options.save_policy;
  return save_policy::any_of({save_policy::fixed_interval(options.save_interval_steps),
                              save_policy::specific_steps(options.save_on_steps),
                              save_policy::preemption(), save_policy::initial()});
}

CommitRule commit_rule_of(const CheckpointManagerOptions& options) {
  return {options.handler.commit_protocol, options.handler.allow_legacy_atomic_rename};
}

KeepPolicy keep_policy_of(const CheckpointManagerOptions& options) {
  if (options.read_only) return keep_policy::all();
  if (options.keep_policy.select) return options.keep_policy;
  if (!options.max_to_keep) return keep_policy::all();
  std::vector<KeepPolicy> policies;
  if (options.keep_period) policies.push_back(keep_policy::every_n_steps(*options.keep_period));
  if (options.keep_time_interval)
    policies.push_back(keep_policy::every(*options.keep_time_interval));
  policies.push_back(options.best_fn ? keep_policy::best(*options.max_to_keep, options.best_fn,
                                                         options.best_mode,
                                                         options.keep_checkpoints_without_metrics)
                                     : keep_policy::latest(*options.max_to_keep));
  return keep_policy::any_of(std::move(policies));
}

}  // namespace cairn::inline v0::orbax
