// open.cc -- one way in and out: detects the format at a path and opens it; saves a tree.
#include <cairn/open.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/text.h>
#include <cairn/formats/detect.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/foreign.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/formats/safetensors/model_folder.h>
#include <cairn/formats/tensorflow/index/v1_checkpoint.h>
#include <cairn/formats/tensorflow/read/bundle_locate.h>
#include <cairn/formats/trainer_folder.h>
#include <cairn/io/file.h>
#include <cairn/io/save_lock.h>
#include <cairn/io/temporary_name.h>
#include <cairn/io/tree/file_tree.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/retry.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/tools/dcp/dcp_run.h>
#include <cairn/tools/dcp/open_dcp.h>
#include <cairn/tools/source/flax_folder.h>
#include <cairn/tools/source/open_to_verify.h>
#include <cairn/tools/web/web_folder.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

[[noreturn]] void refuse(const std::string& path) {
  throw Error(Code::kInvalidArgument,
              path +
                  ": not a checkpoint: expected an Orbax checkpoint or step root (a directory with "
                  "_METADATA, manifest.ocdbt, "
                  "_CHECKPOINT_METADATA or step directories), the prefix of a TensorFlow "
                  "checkpoint or its folder, a .safetensors file or its "
                  ".index.json, an .npz or .npy file, a .pt file of PyTorch, or a flax msgpack "
                  "file or folder of "
                  "checkpoint_<step> files");
}

// Refuses options that a format cannot honour. These formats have one tree in one version; only a
// TensorFlow folder may have several steps. Ignoring such an option would give a wrong result.
void refuse_choices(const std::string& path, const OpenOptions& options, bool has_steps = false) {
  const char* choice = options.step && !has_steps       ? "a step"
                       : options.item                   ? "an item"
                       : !options.metadata_key.empty()  ? "a metadata key"
                       : options.version.generation     ? "a generation"
                       : options.version.commit_time_ns ? "a commit time"
                                                        : nullptr;
  if (choice != nullptr)
    throw Error(Code::kInvalidArgument, std::string(choice) + " was requested, but " + path +
                                            " is not an Orbax checkpoint or Zarr array");
}

// A save that was killed early leaves only a folder that can be recognised by its name.
void refuse_leftover(const std::string& path) {
  const std::string name = std::filesystem::path(path).lexically_normal().filename().string();
  if (name.find(orbax::kTemporaryMark) == std::string::npos) return;
  throw Error(Code::kFailedPrecondition,
              path +
                  ": is unfinished: a save is in progress, or was interrupted before it wrote "
                  "anything to read (cairn clean removes it)");
}

// A path that the user gave is not damaged data, whatever is there.
void refuse_special_file(const FileTree& tree, const std::string& path) {
  if (tree.is_special_file(path))
    throw Error(Code::kInvalidArgument,
                path + ": is not a regular file (it is " + tree.kind_at(path) +
                    "); a checkpoint is a file or a directory, so write the bytes to a file first");
}

// A file of a Distributed Checkpoint says little without the others.
void refuse_part(const FileTree& tree, const std::string& path) {
  const std::string_view name = name_of(path);
  const bool is_part = name.ends_with(".distcp") || name.ends_with(".metadata");
  const std::string folder = parent_of(path);
  if (is_part && tree.exists(path) &&
      (is_distributed(tree, folder) || is_unfinished_distributed(tree, folder)))
    throw Error(Code::kInvalidArgument,
                path + ": is a part of a Distributed Checkpoint of PyTorch; open its folder");
}

// Opens one step of a flax folder.
std::unique_ptr<Checkpoint> open_flax(const FileTree& tree, const std::string& file,
                                      const OpenOptions& options) {
  refuse_choices(file, options, true);
  if (!detect_file(tree, file)) refuse_foreign_file(tree, file);
  return open_msgpack(tree, file, options);
}

std::unique_ptr<Checkpoint> open_as(const FileTree& tree, const std::string& path, Format format,
                                    const OpenOptions& options) {
  switch (format) {
    case Format::kSafetensors:
      return open_safetensors(tree, path, options);
    case Format::kMsgpack:
      return open_msgpack(tree, path, options);
    case Format::kNpz:
      return open_npz(tree, path, options);
    case Format::kNpy:
      return open_npy(tree, path, options);
    case Format::kTensorflow:
      return open_tensorflow(tree, path, options);
    case Format::kPytorch:
      return open_pytorch(tree, path, options);
    case Format::kOrbax:
      break;
  }
  refuse(path);
}

// Opens a file. Mentions a name that promises another format than the content has.
std::unique_ptr<Checkpoint> open_file(const FileTree& tree, const std::string& path, Format format,
                                      const OpenOptions& options) {
  auto checkpoint = open_as(tree, path, format, options);
  const auto promised = format_of_name(path);
  if (promised && promised != format && format != Format::kTensorflow)
    dynamic_cast<RawCheckpoint&>(*checkpoint)
        .warn(fmt::format("its format is {}, although its name ends as those of {} files do",
                          format_name(format), format_name(*promised)));
  return checkpoint;
}

// Finds Orbax's layout of a folder. A store's folder has been listed already.
std::optional<orbax::Layout> find_orbax(const FileTree& tree, const std::string& path,
                                        const OpenOptions& options) {
  if (tree.is_local()) return orbax::try_find_layout(path, options);
  const FolderPtr folder = tree.folder()->open_below(path);
  auto layout =
      in_folder(folder.get(), [&] { return orbax::try_find_layout(folder, path, options); });
  folder->check_still_in_use();
  if (layout) layout->folder->check_still_in_use();
  return layout;
}

// Whether a folder is one checkpoint, finished or not, damaged or not.
bool is_checkpoint_folder(const FileTree& tree, const std::string& path) {
  const auto layout = try_look(tree.is_local(), [&] {
    return find_orbax(tree, path, {.allow_uncommitted = true}).has_value();
  });
  return !layout.ok() || layout.value() || is_tensorflow(tree, path);
}

// Whether a child of a folder is a checkpoint. A file that cannot be read is reported.
bool is_checkpoint(const FileTree& tree, const std::string& path) {
  if (tree.is_special_file(path)) return false;
  if (!tree.is_folder(path)) {
    const auto format = try_call([&] { return detect_file(tree, path).has_value(); });
    return !format.ok() || format.value();
  }
  const auto found = try_call([&] {
    return flax_step_file(tree, path, std::nullopt).has_value() ||
           find_safetensors_model(tree, path).has_value() ||
           find_pytorch_model(tree, path).has_value() || is_distributed(tree, path) ||
           is_unfinished_distributed(tree, path) || find_deepspeed(tree, path).has_value() ||
           find_megatron_iteration(tree, path).has_value() || is_torch_checkpointing(tree, path) ||
           find_trainer_model(tree, path, trainer_items(tree, path)).has_value();
  });
  return is_checkpoint_folder(tree, path) || !found.ok() || found.value();
}

// Adds the checkpoints in a folder that are not in the list, by name. The files of a TensorFlow
// checkpoint and the shards of a set belong to their index.
void add_other_checkpoints(const FileTree& tree, const std::string& folder,
                           std::vector<ListedCheckpoint>& found) {
  std::set<std::string> known;
  for (const ListedCheckpoint& checkpoint : found) known.emplace(name_of(checkpoint.path));
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second)
      found.push_back({folder.ends_with('/') ? folder + name : folder + "/" + name, std::nullopt});
  };
  for (const std::string& prefix : bundle_prefixes(tree, folder)) add(std::string(name_of(prefix)));
  const std::vector<std::string> models = safetensors_models(tree, folder);
  for (const std::string& name : tree.names_in(folder)) {
    const std::string path = folder + "/" + name;
    const bool is_file = !tree.is_folder(path);
    if (name.starts_with('.') || is_temporary_name(name) ||
        name.find(orbax::kTemporaryMark) != std::string::npos ||
        (is_file && is_tensorflow(tree, path)))
      continue;
    const bool is_model = is_file && format_of_name(name) == Format::kSafetensors;
    if (is_model ? std::ranges::find(models, name) != models.end() : is_checkpoint(tree, path))
      add(name);
  }
}

// The folder of a training run is its model; the files beside it are items, which open by their
// names.
std::unique_ptr<Checkpoint> with_items(const std::vector<std::string>& items, std::string_view name,
                                       std::unique_ptr<Checkpoint> model) {
  std::vector<std::string> others;
  std::ranges::copy_if(items, std::back_inserter(others),
                       [&](const std::string& item) { return item != name; });
  if (others.empty()) return model;
  auto* opened = dynamic_cast<RawCheckpoint*>(model.get());
  if (opened == nullptr) return model;  // of Orbax: its items are its own
  opened->set_items(items);
  opened->note("items beside the model are verified only if --item names them: " +
               listed_names(others));
  return model;
}

OpenOptions without_item(OpenOptions options) {
  options.item.reset();
  return options;
}

// The path of an item that was requested.
std::string path_of_item(const std::string& folder, const std::string& name,
                         const std::vector<std::string>& items) {
  if (std::ranges::find(items, name) == items.end())
    throw Error(Code::kNotFound, fmt::format("{}: there is no item \"{}\"; its items are {}",
                                             folder, name, listed_names(items)));
  return folder + "/" + name;
}

std::unique_ptr<Checkpoint> open_step(const FileTree& tree, const ChosenDcpStep& chosen,
                                      OpenOptions options) {
  options.step.reset();
  refuse_choices(chosen.step.path, options);
  return open_dcp_step(tree, chosen, options);
}

using LayoutOpener = std::unique_ptr<Checkpoint> (*)(orbax::Layout, const OpenOptions&);

std::unique_ptr<Checkpoint> open_path(const FileTree& tree, const std::string& path,
                                      const OpenOptions& options, LayoutOpener open_layout);

// Opens a folder with files of PyTorch or of safetensors: a checkpoint, a model or a run.
std::unique_ptr<Checkpoint> open_model_folder(const FileTree& tree, const std::string& path,
                                              const OpenOptions& options,
                                              LayoutOpener open_layout) {
  const bool is_dcp = is_distributed(tree, path);
  if (options.step && !is_dcp)
    if (const auto chosen = choose_dcp_step(tree, path, options.step))
      return open_step(tree, *chosen, options);
  std::vector<std::string> items = trainer_items(tree, path);
  if (options.item && !items.empty())
    return open_path(tree, path_of_item(path, *options.item, items), without_item(options),
                     open_layout);
  refuse_choices(path, options);
  if (is_dcp) {
    std::erase_if(items, [&](const std::string& item) { return is_common_file(tree, path, item); });
    return with_items(items, "", open_dcp(tree, path, options));
  }
  if (const auto model = find_safetensors_model(tree, path)) {
    // The files of several processes are one model.
    std::erase_if(items, [&](const std::string& item) {
      return std::ranges::find(model->sharded, item) != model->sharded.end();
    });
    return with_items(items, name_of(model->path), open_safetensors(tree, *model, options));
  }
  if (const auto model = find_pytorch_model(tree, path))
    return with_items(items, name_of(*model), open_pytorch(tree, *model, options));
  if (const auto folder = find_deepspeed(tree, path)) return open_deepspeed(tree, *folder, options);
  if (const auto folder = find_megatron_iteration(tree, path))
    return with_items(items, name_of(*folder), open_path(tree, *folder, options, open_layout));
  if (is_torch_checkpointing(tree, path)) return open_torch_checkpointing(tree, path, options);
  if (const auto model = find_trainer_model(tree, path, items))
    return with_items(items, *model, open_path(tree, path + "/" + *model, options, open_layout));
  if (is_unfinished_distributed(tree, path)) return open_distributed(tree, path, options);
  if (const auto chosen = choose_dcp_step(tree, path, {})) return open_step(tree, *chosen, options);
  refuse_foreign_files_in(tree, path);
  refuse(path);
}

std::unique_ptr<Checkpoint> open_folder_at(const FileTree& tree, const std::string& path,
                                           const OpenOptions& options, LayoutOpener open_layout) {
  // Only Zarr arrays have a metadata key, and they may not be recognised without it.
  if (!options.metadata_key.empty()) return open_layout(orbax::find_layout(path, options), options);
  if (auto layout = find_orbax(tree, path, options))
    return open_layout(*std::move(layout), options);
  refuse_leftover(path);
  if (is_tensorflow(tree, path)) {
    refuse_choices(path, options, true);
    return open_tensorflow(tree, path, options);
  }
  if (const auto file = flax_step_file(tree, path, options.step))
    return open_flax(tree, *file, options);
  return open_model_folder(tree, path, options, open_layout);
}

std::unique_ptr<Checkpoint> open_path(const FileTree& tree, const std::string& path,
                                      const OpenOptions& options, LayoutOpener open_layout) {
  if (tree.is_folder(path)) return open_folder_at(tree, path, options, open_layout);
  refuse_special_file(tree, path);
  refuse_part(tree, path);
  if (!tree.exists(path)) refuse_v1_checkpoint(tree, path);  // it may be the prefix of such files
  const auto format = detect_file(tree, path);
  if (!format) {
    refuse_foreign_file(tree, path);
    refuse(path);
  }
  if (*format == Format::kOrbax) return open_layout(orbax::find_layout(path, options), options);
  refuse_choices(path, options, *format == Format::kTensorflow);
  return open_file(tree, path, *format, options);
}

[[noreturn]] void fail_replaced(const std::string& path, const Error& found) {
  throw Error(Code::kUnavailable, path + ": was replaced or removed while Cairn read it (" +
                                      found.message() + "); open it again");
}

// Where what is at a path is looked for. In a store: the folder at the URL, or else what lies
// around it.
FileTree tree_at(const std::string& path, const OpenOptions& options) {
  const StoreOptions& store = options.store;
  if (!is_store_url(path)) return {};
  if (!can_list(path)) return web_tree_at(path, options);
  auto folder = try_call([&] { return open_folder(path, store); });
  if (folder.ok()) return FileTree(std::move(folder).value());
  if (folder.error().code() != Code::kNotFound) throw Error(folder.error());
  auto around = try_call([&] { return tree_around(path, store); });
  if (around.ok()) return std::move(around).value();
  // Above the root of a store there is nothing to look at.
  const Code code = around.error().code();
  const bool says_less = code == Code::kNotFound || code == Code::kInvalidArgument;
  throw Error(says_less ? folder.error() : around.error());
}

// Opens a checkpoint in a store.
std::unique_ptr<Checkpoint> open_url(const std::string& url, const OpenOptions& options,
                                     LayoutOpener open_layout) {
  const FileTree tree = tree_at(url, options);
  try {
    return open_path(tree, url, options, open_layout);
  } catch (const Error& e) {
    if (e.code() == Code::kIo || e.code() == Code::kUnavailable || e.code() == Code::kCancelled)
      throw;
    if (tree.folder()->replaced()) fail_replaced(url, e);
    throw;
  }
}

// Whether an error may come from a save that has not put its checkpoint into place yet.
bool may_be_unfinished(Code code) {
  return code == Code::kNotFound || code == Code::kInvalidArgument ||
         code == Code::kFailedPrecondition;
}

// Asks for the locks of the saves that may write `path`, also as the prefix of a TensorFlow
// checkpoint, and where a link leads.
bool is_being_saved(const std::string& path) {
  const std::string given(without_final_slashes(path));
  std::error_code failed;
  const std::string target = std::filesystem::weakly_canonical(given, failed).string();
  for (const std::string& name : {given, given + ".index", target})
    if (!name.empty() && SaveLock::is_held(save_lock_path(name))) return true;
  return false;
}

// Opens whatever is at the path. If others replace it meanwhile, it opens what they put there.
std::unique_ptr<Checkpoint> open_any(const std::string& where, const OpenOptions& options,
                                     LayoutOpener open_layout) {
  constexpr int kAttempts = 6;
  const std::string path = normal_path(where);
  if (path.empty()) throw Error(Code::kInvalidArgument, "the path of the checkpoint is empty");
  if (is_store_url(path))
    return retry_if_unavailable(kAttempts, [&] { return open_url(path, options, open_layout); });
  return retry_if_unavailable(kAttempts, [&] {
    const auto before = try_state(path);
    try {
      return open_path({}, path, options, open_layout);
    } catch (const Error& e) {
      if (e.code() == Code::kUnavailable) throw;
      if (may_be_unfinished(e.code()) && is_being_saved(path))
        throw Error(Code::kUnavailable,
                    path + ": a save to it is in progress (" + e.message() + "); open it again");
      if (try_state(path) == before) throw;
      fail_replaced(path, e);
    }
  });
}

// Returns the latest step that lacks files, if it is later than the one that was opened; else that.
std::unique_ptr<Checkpoint> lacking_dcp_step(const std::string& where, const OpenOptions& options,
                                             std::unique_ptr<Checkpoint> opened) {
  const CheckpointInfo info = opened->info();
  if (!info.step || info.format != format_name(Format::kPytorch) || options.step) return opened;
  const std::string path = normal_path(where);
  const auto chosen = choose_dcp_step(tree_at(path, options), path, {});
  if (!chosen) return opened;
  const auto lacking = std::ranges::find_if(chosen->passed_over, &PassedDcpStep::lacks_files);
  if (lacking == chosen->passed_over.end()) return opened;
  return open_any(lacking->step.path, options, &orbax::open_layout_to_verify);
}

std::vector<std::string> list_steps_in(const FileTree& tree, const std::string& path,
                                       const StoreOptions& store) {
  if (!tree.exists(path)) throw Error(Code::kNotFound, path + " does not exist");
  if (!tree.is_folder(path)) return {};
  std::vector<std::string> steps = orbax::list_steps(path, store);
  if (steps.empty()) steps = bundle_prefixes(tree, path);
  if (steps.empty()) steps = flax_step_files(tree, path);
  if (steps.empty() && !is_distributed(tree, path))
    for (DcpStep& step : dcp_steps_in(tree, path)) steps.push_back(std::move(step.path));
  return steps;
}

}  // namespace

std::string_view version() { return CAIRN_VERSION; }

std::unique_ptr<Checkpoint> open(const std::string& where, const OpenOptions& options) {
  return stoppable_by(options.cancel,
                      [&] { return open_any(where, options, &orbax::open_layout); });
}

std::unique_ptr<Checkpoint> open_to_verify(const std::string& where, const OpenOptions& options) {
  auto checkpoint = open_any(where, options, &orbax::open_layout_to_verify);
  // A reader goes back to the latest complete step. A check must report what the later one lacks.
  if (dynamic_cast<const RawCheckpoint*>(checkpoint.get()) != nullptr)
    return lacking_dcp_step(where, options, std::move(checkpoint));
  const auto* opened = dynamic_cast<const orbax::OrbaxCheckpoint*>(checkpoint.get());
  if (opened == nullptr) return checkpoint;
  for (const orbax::PassedStep& step : opened->layout().passed_over) {
    if (!step.lacks_files) continue;
    OpenOptions later = options;
    later.step = orbax::parse_step(step.folder);
    return open_any(where, later, &orbax::open_layout_to_verify);
  }
  return checkpoint;
}

std::vector<std::string> list_steps(const std::string& where, const StoreOptions& store) {
  const std::string path = normal_path(where);
  return list_steps_in(tree_at(path, {.store = store}), path, store);
}

// The number at the end of "12", "step_0012" and "ckpt-12".
std::optional<std::int64_t> number_at_end(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const char* begin = name.data() + (last == std::string::npos ? 0 : last + 1);
  const char* end = name.data() + name.size();
  std::int64_t number = 0;
  const auto parsed = std::from_chars(begin, end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

std::vector<ListedCheckpoint> list_checkpoints(const std::string& where,
                                               const OpenOptions& options) {
  if (options.step)
    throw Error(Code::kInvalidArgument,
                "one step and all steps were requested; choose one of them");
  const std::string path = normal_path(where);
  const FileTree tree = tree_at(path, options);
  std::vector<ListedCheckpoint> found;
  for (std::string& step : list_steps_in(tree, path, options.store)) {
    const auto number = number_at_end(std::string(name_of(step)));
    found.push_back({std::move(step), number});
  }
  const bool is_one = found.empty() && (!tree.is_folder(path) || is_checkpoint_folder(tree, path));
  if (!is_one) add_other_checkpoints(tree, path, found);
  if (found.empty())
    throw Error(Code::kInvalidArgument,
                path + (is_one ? " is not a root of steps or a folder of checkpoints, but one "
                                 "checkpoint: check it without --all-steps"
                               : ": holds no checkpoints"));
  return found;
}

Tree load(const std::string& path, const OpenOptions& options) {
  return stoppable_by(options.cancel, [&] { return open(path, options)->load(); });
}

}  // namespace cairn::inline v0
