// killed_states_tool.cc -- leaves what a manager leaves when it is killed at each of its system
// calls that change files: killed_states_tool DIRECTORY KIND makes DIRECTORY/0, 1, ..., and
// DIRECTORY/whole, in which nothing was killed. KIND: "rename" and "marker" are the protocols of a
// commit; "reuse": steps share what is unchanged; "aside": removed steps are set aside.
//
// The root of steps 1, 2 and 3, of which each has the item "state" {"x": step, "frozen": array},
// and with "marker" a JSON item "config", also holds what a save of step 9 has left. The manager
// saves step 4, removes step 1 after that, removes step 2 on request and cleans up.
#include <cairn/checkpoint_manager.h>
#include <cairn/error.h>
#include <cairn/maintain.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/kill_at.h"

namespace {

using namespace cairn;
using cairn::testing::Ended;
using cairn::testing::run_and_kill_at;

CheckpointManagerOptions options_of(std::string_view kind) {
  CheckpointManagerOptions options{.max_to_keep = 3, .enable_async_checkpointing = false};
  if (kind == "marker") options.handler.commit_protocol = CommitProtocol::kCommitMarker;
  if (kind == "reuse") options.handler.reuse = Reuse::kUnchanged;
  if (kind == "aside") options.todelete_subdir = "old";
  options.handler.resources.threads = 1;
  return options;
}

void save_step(CheckpointManager& manager, std::int64_t step, std::string_view kind) {
  const std::vector<float> frozen(10'000, 0.5F);
  const Tree tree{{"x", step}, {"frozen", Array::from<float>(frozen, {10'000})}};
  CheckpointItems items{{"state", PyTreeSaveArgs{tree}}};
  if (kind == "marker") items.emplace_back("config", JsonItem{"{}"});
  manager.save(step, items);
}

void prepare(const std::string& root, std::string_view kind) {
  CheckpointManager manager(root, options_of(kind));
  for (const std::int64_t step : {1, 2, 3}) save_step(manager, step, kind);
  constexpr int kInTheMiddle = 12;
  const Ended ended = run_and_kill_at(kInTheMiddle, [&] { save_step(manager, 9, kind); });
  if (ended != Ended::kKilled) throw Error(Code::kFailedPrecondition, "step 9 was saved");
}

void work(const std::string& root, std::string_view kind) {
  CheckpointManager manager(root, options_of(kind));
  save_step(manager, 4, kind);  // removes step 1
  manager.remove(2);
  clean_leftovers(root);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const std::filesystem::path directory = argv[1];
  const std::string_view kind = argv[2];
  const std::filesystem::path prepared = directory / "prepared";
  prepare(prepared, kind);
  Ended ended = Ended::kKilled;
  for (int n = 0; ended == Ended::kKilled; ++n) {
    const std::filesystem::path root = directory / std::to_string(n);
    std::filesystem::copy(prepared, root, std::filesystem::copy_options::recursive);
    ended = run_and_kill_at(n, [&] { work(root, kind); });
    if (ended == Ended::kWell) std::filesystem::rename(root, directory / "whole");
  }
  std::filesystem::remove_all(prepared);
  return ended == Ended::kWell ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 3;
}
