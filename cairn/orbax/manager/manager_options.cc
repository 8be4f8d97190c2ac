// manager_options.cc -- checks the options, and makes policies of those that are shorthands.
#include <cairn/orbax/manager/manager_options.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/layout/layout.h>

#include <string>
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
  }
  (void)step_name(0, options.step_name_format);
}

SavePolicy save_policy_of(const CheckpointManagerOptions& options) {
  if (options.save_policy.decide) return options.save_policy;
  return save_policy::any_of({save_policy::fixed_interval(options.save_interval_steps),
                              save_policy::specific_steps(options.save_on_steps),
                              save_policy::preemption(), save_policy::initial()});
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
