// composite_args.h -- what a checkpoint is made of: trees and files.
#pragma once

#include <cairn/kvstore/folders/output_folder.h>
#include <cairn/orbax/checkpoint_items.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/save/step_format.h>
#include <cairn/types.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {

// A tree in a folder of the checkpoint.
struct CompositeTree {
  std::string folder;  // "": the checkpoint itself
  // Not owned if the caller's own: it must outlive the start of the save.
  std::shared_ptr<const PyTreeSaveArgs> args;
  bool without_database = false;                  // overrules use_ocdbt
  std::shared_ptr<const StepFormat> format = {};  // null: Orbax's
};

// Files in a folder of the checkpoint.
struct CompositeFiles {
  std::string folder;
  std::function<void(const OutputFolder& directory)> write;
};

// The parts of a checkpoint that PyTreeCheckpointHandler saves together.
struct CompositeArgs {
  std::vector<CompositeTree> trees = {};
  std::vector<CompositeFiles> files = {};
  // Pairs of item, or folder in an item, and handler ("": not recorded). Empty: the checkpoint is
  // one tree.
  std::vector<std::pair<std::string, std::string>> folders = {};
  std::string custom_metadata = {};  // a JSON object; "" for none
  IfExists if_exists = IfExists::kFail;
  bool v1 = false;              // as SaveOptions::v1
  std::string reuse_from = {};  // an earlier checkpoint of such items; "" for none
  ProgressFn progress = {};
  std::stop_token cancel = {};
};

// The arguments, which somebody else owns.
inline std::shared_ptr<const PyTreeSaveArgs> borrowed(const PyTreeSaveArgs& args) {
  return {std::shared_ptr<void>(), &args};
}

// Adds an item. Trees of `item` are not copied. Throws invalid_argument for an item that its type
// does not allow, data_loss for a text that is not JSON; the message names the item.
void add_item(const std::string& name, const CheckpointItem& item, CompositeArgs& args);
void add_tree(const std::string& name, const PyTreeSaveArgs& tree, CompositeArgs& args);
// Adds an item of one file.
void add_text(const std::string& name, std::string handler, std::string file, std::string text,
              CompositeArgs& args);

}  // namespace cairn::inline v0::orbax
