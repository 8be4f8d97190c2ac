// output_lock.cc -- leftovers are looked for under the lock: no live save has any then.
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/output_lock.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>

namespace cairn {

OutputLock::OutputLock(const std::string& file) : lock_(save_lock_path(file)) {
  const std::string lock = save_lock_path(file);
  const std::string name = lock.substr(lock.rfind('/') + 1);
  const Directory folder = Directory::open(bundle_folder(lock));
  for (const DirectoryEntry& entry : folder.list()) {
    if (entry.kind != EntryKind::kFile || !is_temporary_name(entry.name) ||
        folder.path_of(entry.name) == SaveLock::file_for(folder.path_of(name)))
      continue;
    if (save_lock_path(std::string_view(entry.name).substr(0, entry.name.rfind(".cairn-tmp-"))) ==
        name)
      (void)remove_unless_locked(folder.path_of(entry.name));
  }
}

}  // namespace cairn
