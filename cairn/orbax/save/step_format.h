// step_format.h -- StepFormat, how a manager stores the trees of its steps if not as Orbax does.
// Only the files of the tree differ. Names, records, commits and removals of steps are those of
// Orbax's steps.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed/process_group.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/kvstore/folders/output_folder.h>
#include <cairn/orbax/pytree_args.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <memory>
#include <string>

namespace cairn::inline v0 {

// The tree of a step that is being saved.
class StepWrite {
 public:
  StepWrite() = default;
  StepWrite(const StepWrite&) = delete;
  StepWrite& operator=(const StepWrite&) = delete;
  virtual ~StepWrite() = default;
  // Writes the part of this process. Call it once, in any thread.
  virtual void write() = 0;
  // Completes the step. Call it in the primary process, after all processes have written.
  virtual void finalize() = 0;
};

// Where and how a step is saved.
struct StepTarget {
  OutputFolder folder;  // of the step; it exists
  const PyTreeCheckpointHandlerOptions& options;
  const distributed::ProcessGroup& group;
  bool copies = false;  // true: the caller may change the arrays as soon as start() has returned
  ProgressFn progress = {};
};

// An implementation is safe to use from many threads.
class StepFormat {
 public:
  StepFormat() = default;
  StepFormat(const StepFormat&) = delete;
  StepFormat& operator=(const StepFormat&) = delete;
  virtual ~StepFormat() = default;

  // Throws invalid_argument for options of a manager that steps of this format do not have.
  virtual void check_options(const PyTreeCheckpointHandlerOptions& options) const = 0;
  // All processes call it. Borrows the arrays unless `target.copies`. What the target borrows must
  // outlive the result.
  [[nodiscard]] virtual std::shared_ptr<StepWrite> start(const PyTreeSaveArgs& tree,
                                                         const StepTarget& target) const = 0;
  // Returns why the folder is not a complete step; "" if it is. Reads no array. Throws as
  // orbax::find_missing().
  [[nodiscard]] virtual std::string why_incomplete(const FolderPtr& folder) const = 0;
  // Returns the tree of a step. Throws invalid_argument for arguments that the format does not
  // have.
  [[nodiscard]] virtual Tree restore(const std::string& folder, const PyTreeRestoreArgs& args,
                                     const PyTreeCheckpointHandlerOptions& options) const = 0;
};

}  // namespace cairn::inline v0
