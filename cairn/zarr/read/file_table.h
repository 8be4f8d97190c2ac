// file_table.h -- numbers the files of a plan and keeps a limited number of them open.
#pragma once

#include <cairn/io/file.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/storage/kvstore.h>
#include <cairn/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace cairn::inline v0::zarr {

// The number of a file in a FileTable.
using FileId = std::uint32_t;
inline constexpr FileId kNoFile = ~FileId{0};

// The files of a plan. Safe to use from many threads.
class FileTable {
 public:
  // Returns the number of the file that contains a value; equal paths have equal numbers.
  FileId id(const Location& location);
  // Returns the path of the file.
  [[nodiscard]] std::string path(FileId file);
  // Returns the open file; opens it if necessary. Throws data_loss if the file no longer exists.
  [[nodiscard]] std::shared_ptr<const File> handle(FileId file);

  // Reads from the file; opens it if necessary. Throws data_loss if the file no longer exists or
  // ends before the range: the store located a value there earlier.
  void read_into(FileId file, std::uint64_t offset, MutableByteView out);
  // Like read_into, for a range whose bytes go to several destinations in sequence.
  void read_scatter(FileId file, std::uint64_t offset, std::span<const MutableByteView> out);
  // The same for an open file.
  static void read_scatter(const File& file, std::uint64_t offset,
                           std::span<const MutableByteView> out);

 private:
  struct Slot {
    std::string path;
    FolderPtr folder;  // the directory handle for looking up the path; null: none is open
    std::shared_ptr<const File> handle;
  };
  std::shared_ptr<const File> open(FileId file);

  std::mutex mutex_;  // guards everything
  std::unordered_map<std::string, FileId> ids_;
  std::vector<Slot> slots_;
  // the last result of id(); most values lie in the same file as the value before
  FileId last_ = kNoFile;
  std::deque<FileId> open_;  // open files, first opened first
};

}  // namespace cairn::inline v0::zarr
