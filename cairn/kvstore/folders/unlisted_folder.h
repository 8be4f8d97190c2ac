// unlisted_folder.h -- UnlistedFolder, the values of a store that cannot list them, such as a web
// server.
#pragma once

#include <cairn/io/tree/folder_handle.h>
#include <cairn/storage/kvstore.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Opens files by their names. Each name is asked for once: later answers are of the version that
// was found then, or absence. Safe to use from many threads.
class UnlistedFolder final : public FolderHandle {
 public:
  // The whole store, under the name `path` (a URL). Sends no request.
  static FolderPtr open(StorePtr store, std::string path);

  [[nodiscard]] bool is_local() const override { return false; }
  // Nobody knows which folders there are.
  [[nodiscard]] FolderPtr open_below(const std::string& path) const override;
  [[nodiscard]] std::optional<File> try_open(const std::string& path) const override;
  [[nodiscard]] File open_file(const std::string& path) const override;
  [[nodiscard]] bool exists(const std::string& path) const override;
  [[nodiscard]] bool is_folder(const std::string& path) const override;
  [[nodiscard]] std::string kind_at(const std::string& path) const override;
  // Throws unimplemented.
  [[nodiscard]] std::vector<FolderEntry> entries(const std::string& path) const override;
  [[nodiscard]] std::optional<FileIdentity> identity(const std::string& path) const override;
  [[nodiscard]] std::optional<std::uint64_t> file_size(const std::string& path) const override;
  void watch(std::span<const std::string_view> /*names*/) const override {}
  [[nodiscard]] bool replaced() const override { return false; }  // reads are pinned

 private:
  using SourcePtr = std::shared_ptr<const RangeSource>;

  UnlistedFolder(StorePtr store, std::string path)
      : FolderHandle(std::move(path)), store_(std::move(store)) {}
  [[nodiscard]] SourcePtr find(const std::string& path) const;  // null: absent
  [[noreturn]] void fail_to_list(const std::string& path) const;

  StorePtr store_;
  mutable std::mutex mutex_;  // also held while the store is asked
  mutable std::map<std::string, SourcePtr> asked_;
};

}  // namespace cairn::inline v0
