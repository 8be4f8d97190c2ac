// step_directory.h -- the directory of steps of a training run: which steps there are, and what
// they and the directory record.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/base/json/json.h>
#include <cairn/bytes.h>
#include <cairn/checkpoint_manager.h>
#include <cairn/io/directory.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/orbax/commit/in_place.h>
#include <cairn/orbax/manager/run_root.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {

inline constexpr std::string_view kMetricsItem = "metrics";

// The steps of a directory, in ascending order.
struct FoundSteps {
  std::vector<std::int64_t> complete;
  std::vector<IncompleteStep> incomplete;
};
// Which folders are steps, and which of them count.
struct StepRule {
  StepNameFormat names = StepNameFormat();
  CommitRule commit = {};
  std::shared_ptr<const StepFormat> format = {};  // null: Orbax's
};
// The folders whose names are names of steps; with kCommitMarker those that count as committed. A
// step is complete if why_incomplete() says so, or if it cannot be read: then its restore says why.
FoundSteps find_steps(const RunRoot& root, const StepRule& rule, Executor& executor);
// The steps as a message to other processes, and back.
Bytes message_of(const FoundSteps& found);
FoundSteps found_steps_of(ByteView message);
// The latest complete step, unless it is earlier than `least`. Examines no earlier one.
std::optional<std::int64_t> find_latest_step(const RunRoot& root, const StepRule& rule,
                                             std::optional<std::int64_t> least = {});

// The step with its time: that of its commit or, if none is recorded, that of the folder's last
// change. With the metrics of its item "metrics": nested numbers are named "eval.loss" or, in a
// list, "losses.0"; everything else is left out.
StepInfo read_step(const std::string& folder, std::int64_t step);
// The numbers of a JSON object, with the names that read_step() gives.
Metrics numbers_of(const Json& json);
// The metrics of a step; none if there are none. Throws data_loss if the file is not JSON.
std::optional<Metrics> read_metrics(const std::string& folder);
// As above, for a step that is held open.
std::optional<Metrics> read_metrics(const FolderHandle& step);
// The metrics as the JSON that read_metrics() reads.
std::string metrics_text(const Metrics& metrics);

// Spells a given JSON object as Orbax does. Throws as given_object().
std::string json_object_text(const std::string& text, std::string_view what);

// The text of the file with the custom metadata of a run. Throws as json_object_text().
std::string root_metadata_text(const std::string& custom_metadata);
// Stores the custom metadata of a run, a JSON object, unless some are stored.
void write_root_metadata(const Directory& root, const std::string& custom_metadata);
// The stored custom metadata of a run as JSON; "" if there are none.
std::string read_root_metadata(const std::string& root);

}  // namespace cairn::inline v0::orbax
