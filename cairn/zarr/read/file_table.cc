// file_table.cc -- opens the files of a plan on demand, and closes the file that was opened first.
#include <cairn/zarr/read/file_table.h>

#include <cairn/error.h>

#include <utility>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kMaxOpen = 64;

// Runs f, which reads a file. Turns a missing or too short file into data_loss.
template <class F>
void as_damage(F f) {
  try {
    f();
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound && error.code() != Code::kOutOfRange) throw;
    throw Error(Code::kDataLoss, error.message());
  }
}

}  // namespace

FileId FileTable::id(const Location& location) {
  const std::lock_guard lock(mutex_);
  if (last_ != kNoFile && slots_[last_].path == location.file) return last_;
  const auto [found, added] = ids_.emplace(location.file, static_cast<FileId>(slots_.size()));
  if (added)
    slots_.push_back({.path = location.file, .folder = location.folder, .handle = nullptr});
  return last_ = found->second;
}

std::string FileTable::path(FileId file) {
  const std::lock_guard lock(mutex_);
  return slots_[file].path;
}

std::shared_ptr<const File> FileTable::open(FileId file) {
  std::string path;
  FolderPtr folder;
  {
    const std::lock_guard lock(mutex_);
    if (slots_[file].handle) return slots_[file].handle;
    path = slots_[file].path;
    folder = slots_[file].folder;
  }
  // Opens outside the lock: on a network file system, opening takes a while. Two threads may both
  // open the file; one handle is kept.
  auto handle = std::make_shared<const File>(folder ? folder->open_file(path) : File::open(path));
  const std::lock_guard lock(mutex_);
  if (slots_[file].handle) return slots_[file].handle;
  if (open_.size() == kMaxOpen) {
    slots_[open_.front()].handle.reset();
    open_.pop_front();
  }
  open_.push_back(file);
  return slots_[file].handle = std::move(handle);
}

std::shared_ptr<const File> FileTable::handle(FileId file) {
  std::shared_ptr<const File> opened;
  as_damage([&] { opened = open(file); });
  return opened;
}

void FileTable::read_into(FileId file, std::uint64_t offset, MutableByteView out) {
  as_damage([&] { open(file)->read_into(offset, out); });
}

void FileTable::read_scatter(const File& file, std::uint64_t offset,
                             std::span<const MutableByteView> out) {
  as_damage([&] { file.read_scatter(offset, out); });
}

void FileTable::read_scatter(FileId file, std::uint64_t offset,
                             std::span<const MutableByteView> out) {
  as_damage([&] { open(file)->read_scatter(offset, out); });
}

}  // namespace cairn::inline v0::zarr
