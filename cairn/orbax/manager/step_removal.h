// step_removal.h -- removes steps of a training run. A directory that holds anything besides a
// checkpoint stays as it is, unless ForeignFiles::kRemove is given.
#pragma once

#include <cairn/checkpoint_manager.h>
#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/orbax/commit/in_place.h>

#include <functional>
#include <string>

namespace cairn::inline v0::orbax {

// Throws already_exists unless the folder `name` holds a checkpoint and, with
// ForeignFiles::kRefuse, nothing else.
void check_step_removable(const Directory& root, const std::string& name,
                          ForeignFiles foreign = ForeignFiles::kRefuse);

// Removes the folder of a step. Throws as check_step_removable(), and unavailable if a save to the
// folder, or its removal, is in progress. Succeeds if nothing is there.
//
// The folder first gets the name <name>.orbax-checkpoint-tmp-removed, so that a kill cannot leave a
// step that looks whole and is not. The next removal or `cairn clean` removes such a leftover.
// With kCommitMarker the folder keeps its name, and loses its marker first.
void remove_step(const Directory& root, const std::string& name, CommitProtocol protocol,
                 ForeignFiles foreign = ForeignFiles::kRefuse);

// Moves the folder of a step to the folder `subfolder` of the root, where it takes the place of an
// older one. Throws as remove_step(), and io if `subfolder` is a symbolic link.
void set_step_aside(const Directory& root, const std::string& name, const std::string& subfolder,
                    ForeignFiles foreign = ForeignFiles::kRefuse);

// Removes the directories that interrupted saves and removals of steps have left. Calls `left` with
// the reason for each that stays: a save is in progress, or it holds foreign files. A checkpoint
// that was set aside during its replacement stays, too.
// With kCommitMarker also the directories of steps that a save or a removal has left unfinished;
// one without a marker that has a commit time stays.
void remove_leftovers(const Directory& root, const StepNameFormat& format, CommitRule rule,
                      const std::function<void(const Error&)>& left);

}  // namespace cairn::inline v0::orbax
