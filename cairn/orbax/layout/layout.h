// layout.h -- every name that Orbax gives to files and folders, and finding out what a directory is
// by looking at it.
//
//   <root>/<step>/_CHECKPOINT_METADATA, commit_success.txt      a manager's step: a composite of
//   items <root>/<step>/<item>/_METADATA, manifest.ocdbt, d/, ...     one pytree; "direct"
//   checkpoints are such a folder alone <root>/<step>/<item>/metadata | data.json | <item> a JSON
//   item <name>.orbax-checkpoint-tmp                                 being written
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/io/folder_handle.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::orbax {

inline constexpr std::string_view kTreeMetadataFile = "_METADATA";
inline constexpr std::string_view kCheckpointMetadataFile = "_CHECKPOINT_METADATA";
inline constexpr std::string_view kShardingFile = "_sharding";
inline constexpr std::string_view kStringsFile = "_strings.json";
inline constexpr std::string_view kArrayMetadataFolder = "array_metadatas";
inline constexpr std::string_view kArrayMetadataPrefix = "process_";  // of its files
inline constexpr std::string_view kAggregateFile = "checkpoint";
// bytes of any of the above
inline constexpr std::uint64_t kMaxMetadataFile = std::uint64_t{2} << 30U;
inline constexpr std::string_view kManifestFile = "manifest.ocdbt";
inline constexpr std::string_view kProcessPrefix = "ocdbt.process_";
inline constexpr std::string_view kCommitFile = "commit_success.txt";
inline constexpr std::string_view kV1Marker = "orbax.checkpoint";
inline constexpr std::string_view kTemporaryMark = ".orbax-checkpoint-tmp";
// at the end of the folder of pending ones
inline constexpr std::string_view kPartialMark = ".partial_save";
inline constexpr std::string_view kPendingMark = ".partial_save.pending_";
inline constexpr std::string_view kRootMetadataFolder = "metadata";
inline constexpr std::string_view kRootMetadataFile = "_ROOT_METADATA";

// The names in one directory, sorted. Empty if there is no such directory. Throws Error(kIo) if the
// directory cannot be listed: one that may not be read is not an empty one.
struct Listing {
  std::string path;
  std::vector<std::string> files;
  std::vector<std::string> folders;
  // this folder or one above it, through which the names were read; null: there is no such folder
  FolderPtr folder = nullptr;
  [[nodiscard]] bool has_file(std::string_view name) const;
  [[nodiscard]] bool has_folder(std::string_view name) const;
};
Listing list_directory(const std::string& path);
// The same for `path` at or below a folder that is held open.
Listing list_directory(const FolderPtr& folder, const std::string& path);
std::string join(std::string_view folder, std::string_view name);

// "12" -> 12, "step_00000012" -> 12; nullopt for other names, temporary ones among them.
std::optional<std::int64_t> parse_step(std::string_view name);

enum class ItemKind : std::uint8_t {
  kPytree,  // arrays with `_METADATA`, an aggregate file, a database, or just folders of arrays
  kOther,   // JSON, text, something unknown
};
struct Item {
  std::string name;  // "" for a direct checkpoint
  std::string path;
  ItemKind kind = ItemKind::kOther;
  std::string note;            // what kind of pytree, where it is a special one: "JAX random key"
  FolderPtr folder = nullptr;  // path's, or one above it, held open; null: only the path is known
};

enum class LayoutKind : std::uint8_t {
  kDirect,     // the directory is itself one pytree item
  kComposite,  // items in sub-folders
  kZarr,       // Zarr arrays that no checkpoint metadata speaks of
};
struct Layout {
  LayoutKind kind = LayoutKind::kDirect;
  // of the checkpoint itself: of the step, if a root was opened
  std::string path;
  std::string root;                      // the step root; "" if none was opened
  std::optional<std::int64_t> step;      // set with root
  std::size_t step_count = 0;            // folders of the root that have a step's name
  std::vector<std::string> passed_over;  // folders of later steps that are not complete
  bool v1 = false;
  std::string uncommitted;  // why the checkpoint is not finished; "" if it is
  std::vector<Item> items;  // direct: one, named ""
  // That of `path`, held open: everything that is read of the checkpoint is read through it, so
  // that a checkpoint that is replaced meanwhile is never mixed with the new one.
  FolderPtr folder = nullptr;
};

// Looks at `path` and decides. Throws not_found if nothing is there or the step is not;
// failed_precondition for something unfinished unless allow_uncommitted; invalid_argument for what
// is no checkpoint, saying what was looked for.
Layout find_layout(const std::string& path, const OpenOptions& options);

// The folders of all steps of a root, complete or not, by their numbers. Empty for what is not a
// root.
std::vector<std::string> list_steps(const std::string& path);

}  // namespace cairn::orbax
