// bundle_steps.cc -- describes TensorFlow's checkpoints by their indexes and the state file.
#include <cairn/tools/steps/bundle_steps.h>

#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/tensorflow/index/checkpoint_state.h>
#include <cairn/formats/tensorflow/read/bundle_locate.h>
#include <cairn/io/directory.h>
#include <cairn/tensorflow.h>

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace cairn::inline v0 {
namespace {

// When each checkpoint was saved, by the name of its prefix. The state file records it.
std::map<std::string, std::int64_t> save_times(const std::string& folder) {
  std::map<std::string, std::int64_t> times;
  const auto state =
      read_checkpoint_state(FileTree(), folder + "/" + std::string(kCheckpointStateFile));
  if (!state) return times;
  const auto& paths = state.value().all_model_checkpoint_paths;
  const auto& seconds = state.value().all_model_checkpoint_timestamps;
  constexpr double kMostSeconds = 9e9;  // its nanoseconds fit 64 bits
  for (std::size_t i = 0; i < std::min(paths.size(), seconds.size()); ++i)
    if (seconds[i] > 0 && seconds[i] < kMostSeconds)
      times.emplace(name_of(paths[i]), std::llround(seconds[i] * 1e9));
  return times;
}

void add_size(const std::string& path, StepRecord& record) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  record.nbytes += size;
  if (status.st_nlink == 1) record.unique_nbytes += size;
}

// Why the checkpoint does not open as a whole; "" if it does.
std::string incomplete(const std::string& prefix) {
  const auto opened = try_call([&] { return open_tensorflow(prefix, {}); });
  if (!opened) return opened.error().message();
  for (const TensorInfo& tensor : opened.value()->tensors())
    if (!tensor.is_described()) return tensor.name + ": " + tensor.error;
  return "";
}

}  // namespace

std::vector<StepRecord> read_bundle_steps(const std::string& folder) {
  std::vector<StepRecord> steps;
  std::map<std::string, std::size_t, std::less<>> by_name;
  for (const std::string& prefix : bundle_prefixes(FileTree(), folder)) {
    const auto place = try_call([&] { return locate_bundle(FileTree(), prefix); });
    if (!place || !place.value() || !place.value()->step) continue;
    by_name.emplace(name_of(prefix), steps.size());
    steps.push_back({.step = *place.value()->step, .path = prefix});
    add_size(bundle_index_path(prefix), steps.back());
  }
  if (steps.empty()) return steps;
  for (const std::string& name : names_in(folder)) {
    const auto prefix = prefix_of_data(name);
    const auto found = prefix ? by_name.find(*prefix) : by_name.end();
    if (found != by_name.end()) add_size(folder + "/" + name, steps[found->second]);
  }
  const auto times = save_times(folder);
  for (const auto& [name, i] : by_name)
    if (const auto time = times.find(name); time != times.end())
      steps[i].committed_at_ns = time->second;
  default_executor().for_each(steps.size(), [&](std::size_t i) {
    steps[i].reason = incomplete(steps[i].path);
    steps[i].complete = steps[i].reason.empty();
  });
  std::ranges::stable_sort(steps, {}, &StepRecord::step);
  return steps;
}

}  // namespace cairn::inline v0
