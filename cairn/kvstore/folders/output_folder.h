// output_folder.h -- OutputFolder, a folder that a save fills: of this machine, or the keys below a
// prefix of a store.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {

// Where files are written. A copy writes to the same place.
class OutputFolder {
 public:
  // A folder of this machine. Makes nothing.
  explicit OutputFolder(std::string path) : path_(std::move(path)) {}
  // The values of a store. `url` names it in messages, without a final '/'.
  OutputFolder(StorePtr store, std::string url) : path_(std::move(url)), store_(std::move(store)) {}
  // The folder that a normal_path() names: absolute, if it is of this machine. Throws unimplemented
  // for a store that cannot be written.
  static OutputFolder at(std::string path, const StoreOptions& options);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_local() const { return store_ == nullptr; }
  // A folder below this one; "": this folder.
  [[nodiscard]] OutputFolder child(std::string_view name) const;
  // Makes the folder, and those above it. A store has nothing to make.
  void make(Durability durability = Durability::kDeferredSync) const;
  // Writes a small file, whole or not at all. The file is not synced.
  void write(std::string_view name, std::string_view text) const;
  // The files as a store. A store's values are durable at once.
  [[nodiscard]] StorePtr files(Durability durability) const;
  // What is in the folder now, for reading. Null if the folder does not exist.
  [[nodiscard]] FolderPtr try_open() const;

 private:
  std::string path_;
  StorePtr store_;  // null: a folder of this machine
};

// Calls write(i) for i in [0, count), each of which writes a small file of the folder that needs no
// order: one after the other on this machine, at once in a store, where each waits for an answer.
void write_each(const OutputFolder& folder, Executor& executor, std::size_t count,
                const std::function<void(std::size_t)>& write);

}  // namespace cairn::inline v0
