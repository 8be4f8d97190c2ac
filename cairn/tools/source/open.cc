// open.cc -- one way in and out: detects the format at a path and opens it; saves a tree.
#include <cairn/open.h>

#include <cairn/formats/detect.h>
#include <cairn/formats/foreign.h>
#include <cairn/formats/tensorflow/read/bundle_locate.h>
#include <cairn/io/file.h>
#include <cairn/msgpack.h>
#include <cairn/npz.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/safetensors.h>
#include <cairn/tensorflow.h>
#include <cairn/tools/source/endings.h>
#include <cairn/tools/source/flax_folder.h>
#include <cairn/tools/source/open_to_verify.h>

#include <filesystem>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kFilePrefix = "file://";

[[noreturn]] void refuse(const std::string& path) {
  throw Error(Code::kInvalidArgument,
              path +
                  ": not a checkpoint: expected an Orbax checkpoint or step root (a directory with "
                  "_METADATA, manifest.ocdbt, "
                  "_CHECKPOINT_METADATA or step directories), the prefix of a TensorFlow "
                  "checkpoint or its folder, a .safetensors file or its "
                  ".index.json, an .npz or .npy file, or a flax msgpack file or folder of "
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
void refuse_special_file(const std::string& path) {
  if (is_special_file(path))
    throw Error(Code::kInvalidArgument,
                path + ": is not a regular file (it is " + kind_at(path) +
                    "); a checkpoint is a file or a directory, so write the bytes to a file first");
}

std::string local_path(const std::string& path) {
  if (path.starts_with(kFilePrefix)) return path.substr(kFilePrefix.size());
  const std::size_t scheme = path.find("://");
  if (scheme != std::string::npos && path.find('/') > scheme)
    throw Error(Code::kUnimplemented, path + ": URLs of scheme '" + path.substr(0, scheme) +
                                          "' are not supported, only local paths");
  return path;
}

// Opens one step of a flax folder.
std::unique_ptr<Checkpoint> open_flax(const std::string& file, const OpenOptions& options) {
  refuse_choices(file, options, true);
  if (!detect_file(file)) refuse_foreign_file(file);
  return open_msgpack(file, options);
}

using LayoutOpener = std::unique_ptr<Checkpoint> (*)(orbax::Layout, const OpenOptions&);

std::unique_ptr<Checkpoint> open_any(const std::string& where, const OpenOptions& options,
                                     LayoutOpener open_layout) {
  const std::string path = local_path(where);
  if (path.empty()) throw Error(Code::kInvalidArgument, "the path of the checkpoint is empty");
  if (directory_exists(path)) {
    // Only Zarr arrays have a metadata key, and they may not be recognised without it.
    if (!options.metadata_key.empty())
      return open_layout(orbax::find_layout(path, options), options);
    if (auto layout = orbax::try_find_layout(path, options))
      return open_layout(*std::move(layout), options);
    refuse_leftover(path);
    if (is_tensorflow(path)) {
      refuse_choices(path, options, true);
      return open_tensorflow(path, options);
    }
    if (const auto file = flax_step_file(path, options.step)) return open_flax(*file, options);
    refuse_choices(path, options);
    // A model folder in the form that Hugging Face uses.
    for (const std::string_view name : {"model.safetensors.index.json", "model.safetensors"})
      if (file_exists(path + "/" + std::string(name)))
        return open_safetensors(path + "/" + std::string(name), options);
    refuse_foreign_files_in(path);
    refuse(path);
  }
  refuse_special_file(path);
  const auto format = detect_file(path);
  if (!format) {
    refuse_foreign_file(path);
    refuse(path);
  }
  if (*format != Format::kOrbax) refuse_choices(path, options, *format == Format::kTensorflow);
  switch (*format) {
    case Format::kSafetensors:
      return open_safetensors(path, options);
    case Format::kMsgpack:
      return open_msgpack(path, options);
    case Format::kNpz:
      return open_npz(path, options);
    case Format::kNpy:
      return open_npy(path, options);
    case Format::kTensorflow:
      return open_tensorflow(path, options);
    case Format::kOrbax:
      return open_layout(orbax::find_layout(path, options), options);
  }
  refuse(path);
}

}  // namespace

std::string_view version() { return CAIRN_VERSION; }

std::unique_ptr<Checkpoint> open(const std::string& where, const OpenOptions& options) {
  return open_any(where, options, &orbax::open_layout);
}

std::unique_ptr<Checkpoint> open_to_verify(const std::string& where, const OpenOptions& options) {
  return open_any(where, options, &orbax::open_layout_to_verify);
}

std::vector<std::string> list_steps(const std::string& where, const OpenOptions& options) {
  const std::string path = local_path(where);
  if (options.step)
    throw Error(Code::kInvalidArgument,
                "one step and all steps were requested; choose one of them");
  if (!file_exists(path)) throw Error(Code::kNotFound, path + " does not exist");
  std::vector<std::string> steps =
      directory_exists(path) ? orbax::list_steps(path) : std::vector<std::string>();
  if (steps.empty() && directory_exists(path)) steps = bundle_prefixes(path);
  if (steps.empty() && directory_exists(path)) steps = flax_step_files(path);
  if (steps.empty())
    throw Error(Code::kInvalidArgument,
                path + " is not a root of steps, so its steps cannot be verified");
  return steps;
}

Tree load(const std::string& path, const OpenOptions& options) {
  return open(path, options)->load();
}

void save(const std::string& path, const Tree& tree, const SaveOptions& options) {
  const std::string where = local_path(path);
  if (const TargetFormat format = save_format_of(where); format != TargetFormat::kOrbax)
    throw Error(Code::kInvalidArgument,
                path +
                    ": save writes the folder of an Orbax checkpoint, and this is the name of a " +
                    std::string(find_ending(where)->text) +
                    " file: call the writer of that format (write_safetensors, write_npz, "
                    "write_msgpack, convert), or save_orbax for a folder of this name");
  SaveOptions local = options;
  local.reuse_from = local_path(options.reuse_from);
  save_orbax(where, tree, local);
}

}  // namespace cairn::inline v0
