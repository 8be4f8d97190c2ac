// file_set.h -- data files and the index that names them get their names so that the index in place
// is that of a whole set at every moment, old or new.
//
// Where the data files take names that the index in place may refer to, they get interim names
// first:
//
//   data -> interim names        the old set is whole
//   index of the interim names   replaces the old index: the new set is whole
//   data -> final names          in place of the old set's; both names are of one file
//   index of the final names     replaces the other index
//   interim names                removed
#pragma once

#include <cairn/io/file.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cairn {

struct FileSet {
  std::vector<std::string> paths;    // of the data files
  std::vector<std::string> interim;  // free names for them in the same folder, in that order
  std::string index;                 // path
  // Gives data file number `i` this path: an interim or a final one. It may sync later.
  std::function<void(std::size_t i, const std::string& path)> place;
  // Writes an index that names the data files by the final or by the interim paths.
  std::function<void(AtomicFile& file, bool interim)> write_index;
};

// The `place` of data files that are finished and lack only their names.
std::function<void(std::size_t i, const std::string& path)> commit_each(
    std::span<AtomicFile* const> files, IfExists if_exists);

// Makes `path` another name of the file `from`, in place of what has that name, under the SaveLock.
// A copy, where the file system has no hard links.
void name_also(const std::string& from, const std::string& path);

// Puts it into place, durably; the caller has the SaveLock. Throws already_exists as check_output,
// also for what has appeared meanwhile. If the new index cannot get its name, the data files that
// have theirs are removed, and the old set is as it was; an error after that says "in place".
void place_set(const FileSet& set, IfExists if_exists);

}  // namespace cairn
