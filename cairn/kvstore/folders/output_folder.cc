// output_folder.cc -- writes to a folder or to a store.
#include <cairn/kvstore/folders/output_folder.h>

#include <cairn/error.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/kvstore/folders/open_claims.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/kvstore/folders/store_folder.h>

namespace cairn::inline v0 {

OutputFolder OutputFolder::at(std::string path, const StoreOptions& options) {
  if (!is_store_url(path)) return OutputFolder(std::move(path));
  check_can_write(path);
  StorePtr store = OpenClaims::of_process().find(path);
  if (!store) store = open_store(path, options);
  return {std::move(store), std::move(path)};
}

OutputFolder OutputFolder::child(std::string_view name) const {
  if (name.empty()) return *this;
  std::string path = path_ + "/" + std::string(name);
  if (is_local()) return OutputFolder(std::move(path));
  return {prefix_store(store_, std::string(name) + "/"), std::move(path)};
}

void OutputFolder::make(Durability durability) const {
  if (is_local()) make_directories(path_, durability);
}

void OutputFolder::write(std::string_view name, std::string_view text) const {
  if (!is_local()) return store_->write(name, as_bytes(text));
  write_file_atomically(path_ + "/" + std::string(name), as_bytes(text), Durability::kUnsynced);
}

StorePtr OutputFolder::files(Durability durability) const {
  return is_local() ? open_file_store(path_, durability) : store_;
}

FolderPtr OutputFolder::try_open() const {
  if (is_local()) return directory_exists(path_) ? LocalFolder::open(path_) : nullptr;
  try {
    return StoreFolder::open(store_, path_);
  } catch (const Error& e) {
    if (e.code() != Code::kNotFound) throw;
    return nullptr;
  }
}

void write_each(const OutputFolder& folder, Executor& executor, std::size_t count,
                const std::function<void(std::size_t)>& write) {
  if (folder.is_local()) {
    for (std::size_t i = 0; i < count; ++i) write(i);
    return;
  }
  executor.for_each(count, [&](std::size_t i) {
    expect_waiting(count);
    write(i);
  });
}

}  // namespace cairn::inline v0
