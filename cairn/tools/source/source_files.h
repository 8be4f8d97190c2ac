// source_files.h -- finds out which files a checkpoint is read from, so that a tool never
// overwrites its own input.
#pragma once

#include <cairn/checkpoint.h>

#include <cstdint>
#include <string>

namespace cairn::inline v0 {

// The relation between a file and a checkpoint.
enum class FileRole : std::uint8_t {
  kNone,   // not one of the checkpoint's files, or it does not exist
  kWhole,  // the whole checkpoint
  kPart,   // one of several files, or a file in the checkpoint's directory
};
// Returns the relation; follows links, because two names may be one file. URLs are compared as
// texts.
FileRole role_of_file(const Checkpoint& checkpoint, const std::string& path);

// Throws invalid_argument if a new file or folder `path` would lie in the checkpoint's directory,
// where it would be taken for a part of the checkpoint. Beside the steps of a root is not inside.
// kPath: only `path` is written, so one that exists is left to check_not_source. kFilesBeside:
// files with names that begin with it are written, too. kFolder: a folder, or what it replaces.
enum class Written : std::uint8_t { kPath, kFilesBeside, kFolder };
void check_outside_source(const Checkpoint& checkpoint, const std::string& path, Written written);
// The same for a URL `path`, of a file or of a TensorFlow prefix: throws invalid_argument if it
// lies in the checkpoint, and already_exists if the files that are written would replace those that
// are read, before all is read. A single file is replaced at the end, so it may be the whole
// checkpoint. URLs are compared as texts.
void check_apart_in_store(const Checkpoint& checkpoint, const std::string& path, Written written);
// Throws invalid_argument if the checkpoint, or a part of it that is behind a link, lies in the
// folder `path`, which is to be removed before the checkpoint is read.
void check_not_in(const Checkpoint& checkpoint, const std::string& path);
// Throws invalid_argument if the checkpoint and what is written to `path` overlap: one is the
// other, or lies in it. `path` of a TensorFlow checkpoint: its prefix.
void check_no_overlap(const Checkpoint& checkpoint, const std::string& path, Written written);
// Throws already_exists, naming the path, if it is one of the checkpoint's files.
void check_not_source(const Checkpoint& checkpoint, const std::string& path);

}  // namespace cairn::inline v0
