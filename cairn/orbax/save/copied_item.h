// copied_item.h -- items that are not pytrees (JSON, protocol buffers, files of other programs),
// copied byte for byte from another checkpoint.
#pragma once

#include <cairn/io/tree/folder_handle.h>
#include <cairn/kvstore/folders/output_folder.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// An item to be copied.
struct CopiedItem {
  std::string name;           // of the new item
  std::string path;           // folder of the source
  FolderPtr folder;           // an open handle to that folder or to one above it: the source
  bool follow_links = false;  // also symbolic links that lead out of the source
};
// A file of an item.
struct CopiedFile {
  std::string name;             // relative to the item's folder
  std::uint64_t size = 0;       // bytes
  std::uint64_t allocated = 0;  // bytes that the file system has stored
};

// Lists the files of an item, sorted, without the marker of its commit. Throws failed_precondition
// for an unfinished folder, for a folder that is reached twice, through a symbolic link, and for a
// link that leads out of the source, unless the item follows those.
std::vector<CopiedFile> list_files(const CopiedItem& item);
// Copies all files of the item to `target`. Does not sync them. Throws
// failed_precondition as list_files, and unavailable if the source was replaced meanwhile.
void copy_item(const CopiedItem& item, const OutputFolder& target);

}  // namespace cairn::inline v0::orbax
