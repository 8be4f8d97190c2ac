// file_set.h -- puts data files and the index that names them into place. At every moment the index
// in place describes a complete set, the old one or the new one.
//
// If the old index may refer to the names that the data files take, the data files get interim
// names first:
//
//   data -> interim names        the old set is complete
//   index of the interim names   replaces the old index: the new set is complete
//   data -> final names          replace the old set's files; each file now has both names
//   index of the final names     replaces the interim index
//   interim names                removed
#pragma once

#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The files of one set, and the callbacks that put them into place.
struct FileSet {
  std::vector<std::string> paths;    // the final paths of the data files
  std::vector<std::string> interim;  // unused paths in the same folder, in the same order
  std::string index;                 // the path of the index
  // Gives data file number `i` this path, which is an interim or a final one. The callback need not
  // sync it.
  std::function<void(std::size_t i, const std::string& path)> place;
  // Writes an index that names the data files by their interim paths or by their final ones.
  std::function<void(AtomicFile& file, bool interim)> write_index;
};

// Returns a `place` callback for data files that are already written and only need their names.
std::function<void(std::size_t i, const std::string& path)> commit_each(
    std::span<AtomicFile* const> files, IfExists if_exists);

// Makes `path` a hard link to the file `from` and replaces any file of that name. Copies the file
// if the file system has no hard links. The caller holds the SaveLock.
void name_also(const std::string& from, const std::string& path);

// Puts the set into place, durably. The caller holds the SaveLock. Throws already_exists as
// check_output does, also for a file that has appeared meanwhile. If the new index cannot get its
// name, the data files already placed are removed and the old set stays as it was. The message of
// an error after that point says "in place".
void place_set(const FileSet& set, IfExists if_exists);
// The last steps of place_set: the data files have their interim names, and the index in place names
// those. Repeating steps that were already taken does no harm. The caller holds the SaveLock.
void move_to_final_names(const FileSet& set);

}  // namespace cairn::inline v0
