// metadata_files.h -- the metadata in the folder of a Distributed Checkpoint: `.metadata`, or one
// file of each process, `__<rank>.metadata`, if they saved without talking to each other.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::pytorch {

using FolderNames = std::set<std::string, std::less<>>;

// Whether the folder has the metadata of a Distributed Checkpoint.
bool has_distributed_metadata(const FileTree& tree, const std::string& folder,
                              const FolderNames& names);
// Whether a file has the name of a data file.
bool is_distributed_data(std::string_view name);

struct FolderMetadata {
  DistributedMetadata metadata;
  std::vector<File> files;           // that it was read from
  std::vector<MissingPart> missing;  // of ranks between others, whose file is not there
  std::size_t ranks = 0;             // files of processes; 0: one file for all
};

// Reads the metadata. Throws failed_precondition for a folder whose save has not ended, and for one
// with the metadata of two saves; else as parse_distributed_metadata().
FolderMetadata read_folder_metadata(const FileTree& tree, const std::string& folder,
                                    const FolderNames& names);

}  // namespace cairn::inline v0::pytorch
