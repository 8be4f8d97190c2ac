// store_folder.h -- StoreFolder, the values below a prefix of a store, seen as a folder.
#pragma once

#include <cairn/io/tree/folder_handle.h>
#include <cairn/kvstore/folders/pinned_store.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// A snapshot: what was listed when the folder was opened stays what it shows, and each read asks
// for the version that was listed. Safe to use from many threads.
class StoreFolder final : public FolderHandle {
 public:
  // The whole store, under the name `path` (a URL). Throws not_found if it has no keys.
  static FolderPtr open(StorePtr store, std::string path);
  // The folder as one of a store. Null for a local folder.
  static const StoreFolder* of(const FolderHandle& folder) {
    return dynamic_cast<const StoreFolder*>(&folder);
  }

  [[nodiscard]] bool is_local() const override { return false; }
  [[nodiscard]] FolderPtr open_below(const std::string& path) const override;
  [[nodiscard]] std::optional<File> try_open(const std::string& path) const override;
  [[nodiscard]] File open_file(const std::string& path) const override;
  [[nodiscard]] bool exists(const std::string& path) const override;
  [[nodiscard]] bool is_folder(const std::string& path) const override;
  [[nodiscard]] std::string kind_at(const std::string& path) const override;
  [[nodiscard]] std::vector<FolderEntry> entries(const std::string& path) const override;
  [[nodiscard]] std::optional<FileIdentity> identity(const std::string& path) const override;
  [[nodiscard]] std::optional<std::uint64_t> file_size(const std::string& path) const override;
  void prefetch(const std::vector<std::string>& paths) const override;
  // Nothing to watch: reads are pinned.
  void watch(std::span<const std::string_view> /*names*/) const override {}
  [[nodiscard]] bool replaced() const override;

  // True if one listing has shown everything below: no name needs a request any more.
  [[nodiscard]] bool knows_all_names() const {
    return values_->snapshot().knows_all_below(folder_);
  }
  // The values in this folder as a store for reading.
  [[nodiscard]] StorePtr files() const;

 private:
  StoreFolder(PinnedValuesPtr values, std::string path, std::string folder)
      : FolderHandle(std::move(path)), values_(std::move(values)), folder_(std::move(folder)) {}
  [[nodiscard]] std::string key_of(const std::string& path) const;
  [[nodiscard]] std::string folder_at(const std::string& path) const;

  PinnedValuesPtr values_;
  std::string folder_;  // "" or with a final '/'
};

// The values in a folder as a store for reading, local or not.
StorePtr files_of(const FolderPtr& folder);

}  // namespace cairn::inline v0
