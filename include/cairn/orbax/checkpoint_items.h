// checkpoint_items.h -- the items of a checkpoint that has several. Each item is a directory
// <checkpoint>/<item>. Each type below names the handler of Orbax that writes and reads the same
// files.
#pragma once

#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_args.h>
#include <cairn/orbax/sharding.h>

#include <any>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// A tree whose leaves are arrays and numbers (StandardCheckpointHandler). Orbax restores it without
// being told what it is. Refused with invalid_argument: other leaves, a single array, no tree
// (None), and the deprecated SaveArgs::aggregate.
struct StandardItem {
  Tree item;
  std::optional<Tree> save_args = {};  // as in PyTreeSaveArgs
  std::string custom_metadata = {};    // as in PyTreeSaveArgs
};

// One array or one number (ArrayCheckpointHandler), stored without a database.
struct ArrayItem {
  Tree item;  // a leaf: Array, ShardedArray or a number
  SaveArgs save_args = {};
};

// A JSON text (JsonCheckpointHandler), stored as Python spells it.
struct JsonItem {
  std::string text;
};

// A protocol buffer in text format (ProtoCheckpointHandler). Cairn does not interpret it.
struct ProtoItem {
  std::string text;
};

// The key data of a random key of JAX (JaxRandomKeyCheckpointHandler).
struct JaxRandomKeyItem {
  Tree key;           // a leaf: an array of uint32
  bool typed = true;  // jax.random.key(); false: jax.random.PRNGKey(), an ordinary array
};

// The state of a random generator of NumPy (NumpyRandomKeyCheckpointHandler): a tuple as
// numpy.random.get_state() returns, or a dict.
struct NumpyRandomKeyItem {
  Tree state;
};

// Files of your own: an item of a handler that Cairn does not have. `write` is called in the
// primary process, in the thread of the save, with the directory of the item, which exists and is
// empty. It writes files and directories there, which Cairn makes durable.
struct FilesItem {
  std::string
      handler;  // recorded as the item's handler; Orbax restores with a handler of this name
  std::function<void(const std::string& directory)> write;
};

// An item to be saved.
using CheckpointItem = std::variant<PyTreeSaveArgs, StandardItem, ArrayItem, JsonItem, ProtoItem,
                                    JaxRandomKeyItem, NumpyRandomKeyItem, FilesItem>;
// Pairs of name and item. A name becomes a folder of the checkpoint. Saving throws invalid_argument
// for a name that is empty, "." or "..", for one with '/', a backslash, a NUL byte, the end
// ".__lock" or ".orbax-checkpoint-tmp", and for that of a file of each checkpoint
// (_CHECKPOINT_METADATA, commit_success.txt, orbax.checkpoint, _CHECKPOINT_DELETION).
using CheckpointItems = std::vector<std::pair<std::string, CheckpointItem>>;

// Reads an item of a handler that Cairn does not have, such as a FilesItem. Receives the directory
// of the item, which it must not change, and returns the value.
using FilesReader = std::function<std::any(const std::string& directory)>;
// Readers by the name of the item, or by the name of the handler that is recorded for it. A reader
// by the name of the item takes precedence, also over Cairn's own reader of the item.
struct FilesReaders {
  std::map<std::string, FilesReader> by_item = {};
  std::map<std::string, FilesReader> by_handler = {};
};
// The value that a reader has returned.
struct CustomItem {
  std::string handler;  // that is recorded; "" if none is
  std::any value;
};

// A restored item. Tree: also of a StandardItem and of an ArrayItem, which is a leaf.
using RestoredItem =
    std::variant<Tree, JsonItem, ProtoItem, JaxRandomKeyItem, NumpyRandomKeyItem, CustomItem>;
// Restored items by name.
using RestoredItems = std::map<std::string, RestoredItem>;

// How a tree is restored by the rules of StandardCheckpointHandler (StandardRestoreArgs).
struct StandardRestoreArgs {
  // The target. Its leaves are numbers, Array, ShardedArray or ShapeDtypeStruct. A number and an
  // Array give the type and the dtype, but no shape. A ShardedArray and a ShapeDtypeStruct with a
  // sharding also give the sharding and the shape. A ShapeDtypeStruct without one gets the stored
  // sharding or, if none is stored, becomes an Array. None: everything as it is stored.
  std::optional<Tree> item = {};
  // True: a ShardedArray of another shape is an error. False: it is truncated, or padded with
  // zeros, at the end of each dimension.
  bool strict = true;
  // The devices of the job. A stored sharding over other devices cannot be used. Empty: any device.
  std::vector<Device> devices = {};
  // In place of a stored sharding that cannot be used. None: that is an error.
  std::optional<Sharding> fallback_sharding = {};
};
// The arguments with which PyTreeCheckpointHandler::restore and its callers restore such a tree.
// `stored` is what the handler's metadata() returns. Throws invalid_argument for a leaf of another
// type, for a ShapeDtypeStruct without a sharding at a place where nothing is stored, and for a
// stored sharding that cannot be used and has no fallback.
PyTreeRestoreArgs standard_restore_args(const StandardRestoreArgs& args,
                                        const PyTreeMetadata& stored);

// How an item is restored. Those of StandardRestoreArgs must be trees.
using ItemRequest = std::variant<PyTreeRestoreArgs, StandardRestoreArgs>;
// The items to restore, with arguments for the trees among them.
using ItemRequests = std::map<std::string, ItemRequest>;

}  // namespace cairn::inline v0
#pragma GCC visibility pop
