// output_lock.cc -- searches for leftovers under the lock, because then no live save has temporary
// files.
#include <cairn/formats/files/output_lock.h>

#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>

namespace cairn::inline v0 {

OutputLock::OutputLock(const std::string& file) : lock_(save_lock_path(file)) {
  const std::string lock = save_lock_path(file);
  const std::string name(name_of(lock));
  const Directory folder = Directory::open(parent_of(lock));
  for (const DirectoryEntry& entry : folder.list()) {
    if (entry.kind != EntryKind::kFile || !is_temporary_name(entry.name) ||
        folder.path_of(entry.name) == SaveLock::file_for(folder.path_of(name)))
      continue;
    if (save_lock_path(temporary_target(entry.name)) == name)
      (void)remove_unless_locked(folder.path_of(entry.name));
  }
}

}  // namespace cairn::inline v0
