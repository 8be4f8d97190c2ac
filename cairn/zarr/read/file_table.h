// file_table.h -- numbers for the files of a plan, and their handles, of which only a few are open
// at a time.
#pragma once

#include <cairn/io/file.h>
#include <cairn/io/folder_handle.h>
#include <cairn/kvstore.h>
#include <cairn/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace cairn::zarr {

using FileId = std::uint32_t;
inline constexpr FileId kNoFile = ~FileId{0};

// Safe to use from many threads.
class FileTable {
 public:
  // The number of the file that a value lies in, the same for the same path.
  FileId id(const Location& location);
  [[nodiscard]] std::string path(FileId file);
  // The file, opened if need be. data_loss if it is gone.
  [[nodiscard]] std::shared_ptr<const File> handle(FileId file);

  // Reads from the file, opened if need be. data_loss for a file that is gone or ends before the
  // range: it was there, with a value in it, when the store was asked.
  void read_into(FileId file, std::uint64_t offset, MutableByteView out);
  // The same for a range that several destinations share, one after the other.
  void read_scatter(FileId file, std::uint64_t offset, std::span<const MutableByteView> out);

 private:
  struct Slot {
    std::string path;
    FolderPtr folder;  // that the path is looked up in; null: none is held open
    std::shared_ptr<const File> handle;
  };
  std::shared_ptr<const File> open(FileId file);

  std::mutex mutex_;  // guards everything
  std::unordered_map<std::string, FileId> ids_;
  std::vector<Slot> slots_;
  // what id() returned last; most values lie in the same file as the one before
  FileId last_ = kNoFile;
  std::deque<FileId> open_;  // in the order of opening
};

}  // namespace cairn::zarr
