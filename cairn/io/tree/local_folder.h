// local_folder.h -- LocalFolder, a folder of the local file system that is held open by its
// descriptor.
#pragma once

#include <cairn/io/tree/folder_handle.h>

#include <string>
#include <unordered_map>

namespace cairn::inline v0 {

// An open folder.
class LocalFolder final : public FolderHandle {
 public:
  // Opens a folder. Throws Error(kNotFound) if nothing exists at the path and Error(kIo) if it is
  // not a folder.
  static FolderPtr open(std::string path);
  // Opens the folder `name` in `above`, and lists each folder once: it remembers the entries. Only
  // one thread may use it. Throws Error(kNotFound) and Error(kIo) as open().
  static FolderPtr open_once(const Directory& above, const std::string& name);
  // The folder that is held open as a directory.
  static FolderPtr hold(const Directory& directory);
  // The folder as a local one. Null for a folder of a store.
  static const LocalFolder* of(const FolderHandle& folder) {
    return dynamic_cast<const LocalFolder*>(&folder);
  }
  LocalFolder(const LocalFolder&) = delete;
  LocalFolder& operator=(const LocalFolder&) = delete;
  ~LocalFolder() override;

  [[nodiscard]] int descriptor() const { return fd_; }

  // The following functions look up the rest of the path below the descriptor.
  [[nodiscard]] bool is_local() const override { return true; }
  [[nodiscard]] FolderPtr open_below(const std::string& path) const override;
  [[nodiscard]] std::optional<File> try_open(const std::string& path) const override;
  [[nodiscard]] File open_file(const std::string& path) const override;
  [[nodiscard]] bool exists(const std::string& path) const override;
  [[nodiscard]] bool is_folder(const std::string& path) const override;
  [[nodiscard]] std::string kind_at(const std::string& path) const override;
  [[nodiscard]] std::vector<FolderEntry> entries(const std::string& path) const override;
  [[nodiscard]] std::optional<FileIdentity> identity(const std::string& path) const override;
  [[nodiscard]] std::optional<std::uint64_t> file_size(const std::string& path) const override;
  void watch(std::span<const std::string_view> names) const override;
  [[nodiscard]] bool replaced() const override;

 private:
  LocalFolder(int fd, std::string path, bool remembers = false)
      : FolderHandle(std::move(path)), fd_(fd), remembers_(remembers) {}
  [[nodiscard]] std::vector<FolderEntry> read_entries(const std::string& path) const;
  // Of this folder, or else of the one above it.
  [[nodiscard]] std::optional<std::int64_t> watched_since_ns() const;
  void check_not_newer(const File& file) const;

  int fd_;
  bool remembers_;
  std::shared_ptr<const LocalFolder> above_;  // that open_below() was called for
  mutable std::vector<std::pair<std::string, std::optional<FileState>>> watched_;
  // Files of the checkpoint have no later time, in nanoseconds since 1970; nullopt: not watched.
  mutable std::optional<std::int64_t> watched_since_ns_;
  mutable std::unordered_map<std::string, std::vector<FolderEntry>> remembered_;
  // Set by the files that were opened here; they may live longer.
  std::shared_ptr<std::atomic<bool>> changed_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace cairn::inline v0
