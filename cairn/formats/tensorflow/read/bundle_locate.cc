// bundle_locate.cc -- inspects names, the last bytes of indexes, and state files.
#include <cairn/formats/tensorflow/read/bundle_locate.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/git_lfs.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/tensorflow/index/checkpoint_state.h>
#include <cairn/formats/tensorflow/index/sstable.h>
#include <cairn/formats/tensorflow/index/v1_checkpoint.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/tensorflow.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndex = ".index";
constexpr std::size_t kMaxListed = 8;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Whether an index is there. A pipe in its place counts: opening the checkpoint reports it.
bool has_index(const std::string& prefix) {
  const std::string path = bundle_index_path(prefix);
  return is_file(path) || is_special_file(path);
}

std::optional<std::int64_t> trailing_number(std::string_view prefix) {
  const std::size_t dash = prefix.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view digits = prefix.substr(dash + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    return std::nullopt;
  return number;
}

BundlePlace place_of(std::string prefix, std::string found_by) {
  const auto step = trailing_number(prefix);
  return {std::move(prefix), std::move(found_by), step};
}

// Whether data files lie beside the file `name`, which then is an index, whatever is in it. Opening
// the checkpoint reports what is wrong.
bool has_data_beside(const std::string& name, const std::set<std::string, std::less<>>& names) {
  const std::string data = name.substr(0, name.size() - kIndex.size()) + ".data-";
  const auto first = names.lower_bound(data);
  return first != names.end() && first->starts_with(data);
}

// The prefixes of the indexes in a folder, sorted.
std::vector<std::string> prefixes_in(const std::string& folder) {
  std::vector<std::string> prefixes;
  const auto names = names_in(folder);
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    if (!path.ends_with(kIndex) || !is_file(path)) continue;
    if (is_sstable(path) || has_data_beside(name, names))
      prefixes.push_back(path.substr(0, path.size() - kIndex.size()));
  }
  return prefixes;
}

std::string listed(const std::vector<std::string>& prefixes) {
  std::vector<std::string> names;
  for (const std::string& prefix : prefixes)
    if (names.size() < kMaxListed) names.push_back(fs::path(prefix).filename().string());
  return fmt::format("{}{}", fmt::join(names, ", "),
                     prefixes.size() > kMaxListed
                         ? fmt::format(" and {} more", prefixes.size() - kMaxListed)
                         : "");
}

// Finds the checkpoint of a step; `all` has the prefixes in the folder.
BundlePlace step_in(const std::string& folder, const std::vector<std::string>& all,
                    std::int64_t step) {
  std::vector<std::string> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const std::string& prefix) { return trailing_number(prefix) == step; });
  if (found.size() == 1) return place_of(found.front(), "");
  if (found.empty())
    throw Error(Code::kNotFound, fmt::format("{}: has no checkpoint of step {}{}", folder, step,
                                             all.empty() ? "" : "; it has " + listed(all)));
  throw Error(Code::kInvalidArgument,
              fmt::format("{}: has several checkpoints of step {}: {}; name one", folder, step,
                          listed(found)));
}

// The content of a state file; nullopt if the file does not exist or is not a state file.
std::optional<CheckpointState> state_at(const std::string& path) {
  if (!is_file(path)) return std::nullopt;
  Result<CheckpointState> state = read_checkpoint_state(path);
  if (!state.ok()) return std::nullopt;
  return std::move(state).value();
}

BundlePlace latest_of(const std::string& state_path, const CheckpointState& state) {
  const std::string folder = fs::path(state_path).parent_path().string();
  const std::string& latest = state.model_checkpoint_path;
  if (latest.empty()) throw Error(Code::kNotFound, state_path + ": does not name a checkpoint");
  const std::string prefix = resolve_checkpoint_path(folder, latest);
  if (has_index(prefix)) return place_of(prefix, "the latest that its state file names");
  refuse_v1_checkpoint(prefix);
  const auto others = prefixes_in(folder.empty() ? "." : folder);
  constexpr std::size_t kShown = 300;  // bytes shown of a name, which may be as long as the file
  throw Error(Code::kNotFound,
              fmt::format("{}: the latest checkpoint is {}{}, which has no index{}", state_path,
                          latest.substr(0, kShown), latest.size() > kShown ? "..." : "",
                          others.empty() ? "" : "; there are " + listed(others)));
}

std::optional<BundlePlace> locate_in_folder(const std::string& folder,
                                            std::optional<std::int64_t> step) {
  const std::string state_path = folder + "/" + std::string(kCheckpointStateFile);
  const std::string variables = folder + "/variables/variables";
  if (has_index(variables)) {
    if (step)
      throw Error(
          Code::kInvalidArgument,
          fmt::format("{}: a SavedModel has no steps, but step {} was requested", folder, *step));
    return place_of(variables, "the variables of a SavedModel");
  }
  if (is_file(folder + "/saved_model.pb"))
    throw Error(Code::kNotFound, folder + ": the SavedModel has no variables");
  const auto state = state_at(state_path);
  if (state && !step) return latest_of(state_path, *state);
  const std::vector<std::string> prefixes = prefixes_in(folder);
  if (step && (state || !prefixes.empty())) return step_in(folder, prefixes, *step);
  if (prefixes.empty()) return std::nullopt;
  if (prefixes.size() > 1)
    throw Error(
        Code::kInvalidArgument,
        fmt::format(
            "{}: has several checkpoints and no state file that names the latest: {}; name one",
            folder, listed(prefixes)));
  return place_of(prefixes.front(), "the only one of its folder");
}

// Checks the step of a path that names one checkpoint.
BundlePlace checked(BundlePlace place, std::optional<std::int64_t> step) {
  if (step && place.step != step)
    throw Error(
        Code::kInvalidArgument,
        fmt::format("{}: is a single checkpoint, but not that of step {}", place.prefix, *step));
  return place;
}

}  // namespace

bool is_lfs_pointer(const File& file) {
  Bytes first(std::min<std::uint64_t>(file.size(), kLfsPointer.size()));
  file.read_into(0, first);
  return is_lfs_pointer(ByteView(first));
}

std::optional<BundlePlace> locate_bundle(const std::string& path,
                                         std::optional<std::int64_t> step) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    if (auto place = locate_in_folder(path, step)) return place;
  if (is_file(path)) {
    if (path.ends_with(kIndex)) {
      const std::string prefix = path.substr(0, path.size() - kIndex.size());
      // An index without its last bytes still counts if there is data beside it: opening it reports
      // the damage.
      if (is_sstable(path) || is_file(bundle_data_path(prefix, 0, 1)))
        return checked(place_of(prefix, ""), step);
    }
    if (const auto prefix = prefix_of_data(path); prefix && has_index(*prefix))
      return checked(place_of(*prefix, ""), step);
    if (fs::path(path).filename() == kCheckpointStateFile)
      if (const auto state = state_at(path))
        return step ? step_in(parent_of(path), prefixes_in(parent_of(path)), *step)
                    : latest_of(path, *state);
    return std::nullopt;
  }
  if (!path.empty() && path.back() != '/' && has_index(path))
    return checked(place_of(path, ""), step);
  return std::nullopt;
}

bool is_tensorflow(const std::string& path) {
  const auto found = try_call([&] { return locate_bundle(path).has_value(); });
  return !found.ok() || found.value();  // a path with something wrong counts, too
}

std::vector<std::string> bundle_prefixes(const std::string& folder) {
  std::vector<std::string> prefixes = prefixes_in(folder);
  std::stable_sort(prefixes.begin(), prefixes.end(),
                   [](const std::string& a, const std::string& b) {
                     return trailing_number(a) < trailing_number(b);
                   });
  return prefixes;
}

}  // namespace cairn::inline v0
