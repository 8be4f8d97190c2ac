// manager_options.h -- what the options of a CheckpointManager amount to.
#pragma once

#include <cairn/checkpoint_manager.h>
#include <cairn/orbax/commit/in_place.h>

#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {

// Throws invalid_argument for options that exclude each other or make no sense.
void check_options(const CheckpointManagerOptions& options);
// The names of the options that were given and that a read-only manager ignores.
std::vector<std::string_view> ignored_options(const CheckpointManagerOptions& options);
SavePolicy save_policy_of(const CheckpointManagerOptions& options);
KeepPolicy keep_policy_of(const CheckpointManagerOptions& options);
CommitRule commit_rule_of(const CheckpointManagerOptions& options);

}  // namespace cairn::inline v0::orbax
