// bundle_locate.cc -- inspects names, the last bytes of indexes, and state files.
#include <cairn/formats/tensorflow/read/bundle_locate.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/git_lfs.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/tensorflow/index/checkpoint_state.h>
#include <cairn/formats/tensorflow/index/sstable.h>
#include <cairn/formats/tensorflow/index/v1_checkpoint.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/tensorflow.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kIndex = ".index";
constexpr std::size_t kMaxListed = 8;

// Whether an index is there. A pipe in its place counts: opening the checkpoint reports it.
bool has_index(const FileTree& tree, const std::string& prefix) {
  const std::string path = bundle_index_path(prefix);
  return tree.is_file(path) || tree.is_special_file(path);
}

// False where the local system cannot tell.
bool is_folder(const FileTree& tree, const std::string& path) {
  const auto found = try_look(tree.is_local(), [&] { return tree.is_folder(path); });
  return found.ok() && found.value();
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
std::vector<std::string> prefixes_in(const FileTree& tree, const std::string& folder) {
  std::vector<std::string> prefixes;
  const auto names = tree.names_in(folder);
  for (const std::string& name : names) {
    const std::string path = resolve_checkpoint_path(folder, name);
    if (!path.ends_with(kIndex) || !tree.is_file(path)) continue;
    if (has_data_beside(name, names) || is_sstable(tree, path))
      prefixes.push_back(path.substr(0, path.size() - kIndex.size()));
  }
  return prefixes;
}

std::string listed(const std::vector<std::string>& prefixes) {
  std::vector<std::string> names;
  for (const std::string& prefix : prefixes)
    if (names.size() < kMaxListed) names.emplace_back(name_of(prefix));
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
std::optional<CheckpointState> state_at(const FileTree& tree, const std::string& path) {
  if (!tree.is_file(path)) return std::nullopt;
  Result<CheckpointState> state = read_checkpoint_state(tree, path);
  if (!state.ok()) return std::nullopt;
  return std::move(state).value();
}

BundlePlace latest_of(const FileTree& tree, const std::string& state_path,
                      const CheckpointState& state) {
  const std::string folder(without_final_slashes(folder_prefix(state_path)));
  const std::string& latest = state.model_checkpoint_path;
  if (latest.empty()) throw Error(Code::kNotFound, state_path + ": does not name a checkpoint");
  const std::string prefix = resolve_checkpoint_path(folder, latest);
  if (has_index(tree, prefix)) return place_of(prefix, "the latest that its state file names");
  refuse_v1_checkpoint(tree, prefix);
  const auto others = prefixes_in(tree, folder.empty() ? "." : folder);
  constexpr std::size_t kShown = 300;  // bytes shown of a name, which may be as long as the file
  throw Error(Code::kNotFound,
              fmt::format("{}: the latest checkpoint is {}{}, which has no index{}", state_path,
                          latest.substr(0, kShown), latest.size() > kShown ? "..." : "",
                          others.empty() ? "" : "; there are " + listed(others)));
}

std::optional<BundlePlace> locate_in_folder(const FileTree& tree, const std::string& folder,
                                            std::optional<std::int64_t> step) {
  const std::string state_path = folder + "/" + std::string(kCheckpointStateFile);
  const std::string variables = folder + "/variables/variables";
  if (has_index(tree, variables)) {
    if (step)
      throw Error(
          Code::kInvalidArgument,
          fmt::format("{}: a SavedModel has no steps, but step {} was requested", folder, *step));
    return place_of(variables, "the variables of a SavedModel");
  }
  if (tree.is_file(folder + "/saved_model.pb"))
    throw Error(Code::kNotFound, folder + ": the SavedModel has no variables");
  const auto state = state_at(tree, state_path);
  if (state && !step) return latest_of(tree, state_path, *state);
  const std::vector<std::string> prefixes = prefixes_in(tree, folder);
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

std::optional<BundlePlace> locate_bundle(const FileTree& tree, const std::string& path,
                                         std::optional<std::int64_t> step) {
  if (is_folder(tree, path))
    if (auto place = locate_in_folder(tree, path, step)) return place;
  if (tree.is_file(path)) {
    if (path.ends_with(kIndex)) {
      const std::string prefix = path.substr(0, path.size() - kIndex.size());
      // An index without its last bytes still counts if there is data beside it: opening it reports
      // the damage.
      if (is_sstable(tree, path) || tree.is_file(bundle_data_path(prefix, 0, 1)))
        return checked(place_of(prefix, ""), step);
    }
    if (const auto prefix = prefix_of_data(path); prefix && has_index(tree, *prefix))
      return checked(place_of(*prefix, ""), step);
    if (name_of(path) == kCheckpointStateFile)
      if (const auto state = state_at(tree, path))
        return step ? step_in(parent_of(path), prefixes_in(tree, parent_of(path)), *step)
                    : latest_of(tree, path, *state);
    return std::nullopt;
  }
  if (!path.empty() && path.back() != '/' && has_index(tree, path))
    return checked(place_of(path, ""), step);
  return std::nullopt;
}

bool is_tensorflow(const std::string& path, const StoreOptions& store) {
  std::string place;
  const auto tree = try_call([&] {
    place = normal_path(path);
    return tree_around(place, store);
  });
  if (!tree.ok() && tree.error().code() == Code::kIo) throw Error(tree.error());
  return tree.ok() && is_tensorflow(tree.value(), place);
}

bool is_tensorflow(const FileTree& tree, const std::string& path) {
  const auto found =
      try_look(tree.is_local(), [&] { return locate_bundle(tree, path).has_value(); });
  return !found.ok() || found.value();  // a path with something wrong counts, too
}

std::vector<std::string> bundle_prefixes(const FileTree& tree, const std::string& folder) {
  std::vector<std::string> prefixes = prefixes_in(tree, folder);
  std::stable_sort(prefixes.begin(), prefixes.end(),
                   [](const std::string& a, const std::string& b) {
                     return trailing_number(a) < trailing_number(b);
                   });
  return prefixes;
}

}  // namespace cairn::inline v0
