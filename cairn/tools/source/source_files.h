// source_files.h -- which files a checkpoint is read from, so that none of them is overwritten by
// what is read.
#pragma once

#include <cairn/checkpoint.h>

#include <cstdint>
#include <string>

namespace cairn {

// How a file is related to a checkpoint.
enum class FileRole : std::uint8_t {
  kNone,   // it is not one of the checkpoint's files, or nothing is there
  kWhole,  // it is all of the checkpoint
  kPart,   // it is one of several files, or lies in the checkpoint's directory
};
FileRole role_of_file(const Checkpoint& checkpoint, const std::string& path);

// Throws already_exists, naming the path, if it is one of the checkpoint's files.
void check_not_source(const Checkpoint& checkpoint, const std::string& path);

}  // namespace cairn
