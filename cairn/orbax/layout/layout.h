// layout.h -- the detection of a directory's checkpoint layout.
//
//   <root>/<step>/_CHECKPOINT_METADATA, commit_success.txt      a manager's step: a composite of
//                                                               items
//   <root>/<step>/<item>/_METADATA, manifest.ocdbt, d/, ...     one pytree; "direct" checkpoints
//                                                               are such a folder alone
//   <root>/<step>/<item>/metadata | data.json | <item>          a JSON item
//   <name>.orbax-checkpoint-tmp                                 being written
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/orbax/layout/listing.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/layout/names.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// The kind of an item.
enum class ItemKind : std::uint8_t {
  // a pytree: arrays with `_METADATA`, an aggregate file, a database, or only array folders
  kPytree,
  kOther,  // JSON, text, or an unknown kind of item
};
// One item of a checkpoint: a pytree, or another kind of data in a folder of its own.
struct Item {
  std::string name;  // "" for a direct checkpoint
  std::string path;
  ItemKind kind = ItemKind::kOther;
  std::string note;  // the kind of a special pytree, for example "JAX random key"
  // An open handle to the folder `path` or to a folder above it. Null if only the path is known.
  FolderPtr folder = nullptr;
};

// A part of a checkpoint that is recorded, but not there. Found without opening any item.
struct LostPart {
  std::string item;      // "" for a direct checkpoint
  std::string path;      // of the folder or file
  std::string record;    // the file that names it
  bool is_tree = false;  // the item is a tree, of which nothing can be opened
  // The file that a finding is about, and what is wrong with it.
  std::string file;
  std::string why;
};
// A sentence about the part.
std::string lost_text(const LostPart& part);

// The layout of a checkpoint directory.
enum class LayoutKind : std::uint8_t {
  kDirect,     // the directory is itself one pytree item
  kComposite,  // the items are in subfolders
  kZarr,       // Zarr arrays without checkpoint metadata
};
// A step that was not opened because it is not complete.
struct PassedStep {
  std::string folder;  // its name
  std::string why;
  bool lacks_files = false;  // false: its save has not ended, or the folder holds no checkpoint
};
// The detected layout of one checkpoint.
struct Layout {
  LayoutKind kind = LayoutKind::kDirect;
  // The path of the checkpoint. If a step root was opened, this is the path of the step.
  std::string path;
  std::string root;                     // the step root; "" if none was opened
  FolderPtr root_folder = nullptr;      // set if `root` is set
  std::optional<std::int64_t> step;     // set if `root` is set
  std::size_t step_count = 0;           // the number of folders in the root that have a step name
  std::vector<PassedStep> passed_over;  // the later steps that are incomplete
  // False: of a composite checkpoint, only the items have files that mark them. It is older than
  // _CHECKPOINT_METADATA, or a folder in which somebody keeps checkpoints.
  bool is_marked = true;
  bool v1 = false;
  std::string uncommitted;  // why the checkpoint is unfinished; "" if it is finished
  std::vector<Item> items;  // a direct checkpoint has one item, named ""
  // An open handle to `path`. Cairn reads the whole checkpoint through this handle. If the
  // checkpoint is replaced during the read, the reader never mixes the old and the new checkpoint.
  FolderPtr folder = nullptr;
  // `_CHECKPOINT_METADATA`; nullopt if there is none, or if it cannot be read.
  std::optional<CheckpointMetadata> metadata = {};
  std::optional<Error> metadata_error = {};  // why it cannot be read
  std::vector<LostPart> lost = {};           // what the checkpoint records and lacks
};

// Opens the folder of a checkpoint or of an item. The handle notices (FolderHandle::replaced) that
// the checkpoint is replaced or removed, also if the writer does not rename its folder.
FolderPtr open_checkpoint_folder(const std::string& path, const StoreOptions& store = {});

// Detects the layout of the directory `path`, and what is missing of the checkpoint. Throws
// not_found if the directory or the requested step does not exist. Throws unavailable if others
// replace or remove the checkpoint again and again. Throws failed_precondition if the checkpoint is
// unfinished and allow_uncommitted is not set. Throws invalid_argument if the directory is not a
// checkpoint; the message lists the names that were searched for.
Layout find_layout(const std::string& path, const OpenOptions& options);
// The same, but nullopt if the directory is not a checkpoint.
std::optional<Layout> try_find_layout(const std::string& path, const OpenOptions& options);
// The same, for a directory that is held open under its absolute path. `path` is for messages.
std::optional<Layout> try_find_layout(const FolderPtr& directory, const std::string& path,
                                      const OpenOptions& options);

// Returns why a checkpoint's folder is unfinished, judging by its content; "" if it is finished.
std::string why_unfinished(const FolderPtr& folder);

// Returns true if files of the directory itself mark it as a checkpoint. Its folders are then parts
// of it, also where their names end with numbers (`ocdbt.process_0`, an item `params_1`).
bool has_checkpoint_markers(const std::string& path, const StoreOptions& store = {});

// Returns the path of the file with the metadata of a root; "" if there is none.
std::string root_metadata_file(const FolderHandle& root);

// Returns the folders of all steps of a root, complete or incomplete, sorted by step number.
// Returns an empty list if `path` is not a root.
std::vector<std::string> list_steps(const std::string& path, const StoreOptions& store = {});

}  // namespace cairn::inline v0::orbax
