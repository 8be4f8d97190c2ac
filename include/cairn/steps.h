// steps.h -- the steps of a training run: which there are, what they take, and which of them to
// remove. For a directory, or the URL of a store, of Orbax's CheckpointManager or of Cairn's;
// read_steps() also for a directory of TensorFlow's.
#pragma once

#include <cairn/step_policies.h>
#include <cairn/storage/store_options.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

class StepFormat;  // CheckpointManagerOptions::step_format

// For a CheckpointManager whose steps are Distributed Checkpoints, which PyTorch loads with
// torch.distributed.checkpoint.load(checkpoint_id=<root>/<step>): each step holds one tree. Of the
// options of the handler, they have chunk_bytes (largest chunk; none: 256 MiB), durability,
// commit_protocol, multiprocessing_options, save_timeout, background_copy_bytes, resources, store
// and observer. Several processes save the shards of their devices. Steps that PyTorch has written
// count, too. Throws as save_as(TargetFormat::kDcp, ...).
std::shared_ptr<const StepFormat> distributed_checkpoint_steps();

// One step of a directory.
struct StepRecord {
  std::int64_t step = 0;
  std::string path;  // of its folder; for TensorFlow, the prefix of its files
  // Nanoseconds since 1970; none if the step does not say it.
  std::optional<std::int64_t> committed_at_ns = {};
  std::uint64_t nbytes = 0;  // of the step's files; a file with several names counts once
  // Bytes of the files that no other step has, which the removal of the step frees. 0 for a step
  // that is a symbolic link: it is never removed.
  std::uint64_t unique_nbytes = 0;
  std::vector<std::string> items = {};  // names, sorted; none for a step that is one tree
  std::optional<Metrics> metrics = {};  // members that are numbers
  bool complete = false;                // opens as a whole
  std::string reason = {};              // why not; "" if it is complete
};
// All steps of a directory, those of interrupted saves and those behind symbolic links included, in
// ascending order; if there are none, the TensorFlow checkpoints whose prefixes end with a number.
// Reads no arrays. Throws not_found if nothing is there, invalid_argument if it is not a directory
// of steps.
std::vector<StepRecord> read_steps(const std::string& path, const StoreOptions& store = {});
// The folders of the directory that hold checkpoints, but whose names read_steps() does not take
// for those of steps: ckpt-200, epoch=100. Names, sorted. Throws as read_steps().
std::vector<std::string> find_unnamed_steps(const std::string& path,
                                            const StoreOptions& store = {});
// Why the folder of a step is not a complete checkpoint: it holds none, its save has not ended, or
// something is missing or too short that its records name. "" if it is complete. Reads no arrays.
// Throws not_found if nothing is there, io.
std::string incomplete_reason(const std::string& path, const StoreOptions& store = {});
// The records as JSON text (docs/reference/json.md).
std::string steps_json(const std::vector<StepRecord>& steps);

// Which steps prune_steps() keeps. At least one of the first three must be given.
struct PruneOptions {
  std::optional<std::size_t> keep_last = {};    // the last ones
  std::optional<std::int64_t> keep_every = {};  // multiples of it
  std::optional<std::string> best = {};         // the step with the best metric of this name
  BestMode best_mode = BestMode::kMax;          // what "best" means
  bool dry_run = false;                         // remove nothing
  StoreOptions store = {};                      // how to reach the store, if the path is a URL
  // A request to stop ends the call soon, with the error cancelled. Each step is then whole or
  // gone. Objects of the last one may be left in a store: clean_leftovers() removes them.
  std::stop_token cancel = {};
};
// The outcome for a step.
enum class PruneOutcome : std::uint8_t {
  kKept,
  kRemoved,  // in a dry run: would be removed
  kRefused   // the folder holds something besides a checkpoint, or cannot be removed
};
struct PrunedStep {
  std::int64_t step = 0;
  std::string path;
  std::uint64_t nbytes = 0;  // that its removal frees
  PruneOutcome outcome = PruneOutcome::kKept;
  std::string why = {};  // the reason for kKept and kRefused
};
// Removes the complete steps that the options do not keep, the oldest first. The newest complete
// step is always kept; steps of interrupted saves are left to clean_leftovers(). Throws
// invalid_argument if no option says what to keep, not_found if no step has the metric, and as
// read_steps().
std::vector<PrunedStep> prune_steps(const std::string& path, const PruneOptions& options);
// The result as JSON text (docs/reference/json.md).
std::string prune_json(const std::vector<PrunedStep>& steps);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
