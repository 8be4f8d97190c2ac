// file.h -- files of the local file system: positioned reads, memory mappings, syncing. Errors name
// the path and the system's reason. A missing file is Error(kNotFound). If something else is in its
// place (a directory, a pipe, a cycle of links), the error is Error(kDataLoss). A missing
// permission and every other failure is Error(kIo). If another program writes to a file after it
// was opened, reads of it are Error(kUnavailable).
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/tree/range_source.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace cairn::inline v0 {

// What tells a file from another, and from itself before somebody wrote to it.
struct FileState {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t size = 0;        // bytes
  std::int64_t modified_ns = 0;  // nanoseconds since 1970, with the precision of the file system
  bool operator==(const FileState&) const = default;
  friend bool operator<(const FileState& a, const FileState& b) {
    return std::tie(a.device, a.inode, a.size, a.modified_ns) <
           std::tie(b.device, b.inode, b.size, b.modified_ns);
  }
};

// A file opened for reading. Move-only; the destructor closes the file. Reads are positioned
// (pread), so many threads may share one File.
//
// It may also be a value of a store (a RangeSource). Such a file has no holes, never changes, and
// cannot be mapped or stamped.
class File {
 public:
  // Opens the file. Throws as described above.
  static File open(const std::string& path);
  // As open(), but returns nullopt if no file can be read there: nothing exists at the path, it is
  // a directory, or the path leads through a file.
  static std::optional<File> try_open(const std::string& path);
  // As try_open(), for a name below the folder with the open descriptor `folder`. `path` is for
  // messages.
  static std::optional<File> try_open_at(int folder, const std::string& name,
                                         const std::string& path);
  // A value of a store. `path` is its URL.
  File(std::string path, std::shared_ptr<const RangeSource> source);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_local() const { return source_ == nullptr; }
  // The current size in bytes.
  [[nodiscard]] std::uint64_t size() const;
  // The number of bytes that the file system has allocated for the file. It is less than size() if
  // the file has holes or is stored compressed.
  [[nodiscard]] std::uint64_t allocated() const;
  // Returns the first run of data (bytes that are not a hole) at or after `offset`, as [begin,
  // end), or nullopt if there is none. If the file system does not report holes, all bytes count as
  // data.
  [[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> data_from(
      std::uint64_t offset) const;
  // The time of the last modification in nanoseconds since 1970, with the precision of the file
  // system.
  [[nodiscard]] std::int64_t modified_ns() const;
  [[nodiscard]] FileState state() const;
  // Sets the time of the last modification to now, in nanoseconds. The kernel's own clock for files
  // advances in steps of milliseconds; after a stamp every later write to the file changes the
  // time. Returns false if the file system has rounded the time, so that this is not certain.
  [[nodiscard]] bool stamp() const;
  // True if the file has no name left, because it was deleted or replaced after it was opened.
  [[nodiscard]] bool unlinked() const;
  // Fills all of `out` with the bytes from `offset`. Throws out_of_range if the file ends before
  // that, and unavailable as check_unchanged() does.
  void read_into(std::uint64_t offset, MutableByteView out) const;
  // Reads one contiguous file range into several buffers (preadv). Throws as read_into does.
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const;
  // The size and the time of the last modification when the file was opened.
  [[nodiscard]] const FileState& opened_state() const { return opened_; }
  // True if the size or the time of the last modification is another one than when the file was
  // opened, unless accept_changes() was called. The bytes then may be a mixture of the old ones and
  // the new ones.
  [[nodiscard]] bool changed() const;
  // Throws unavailable if the file has changed.
  void check_unchanged() const;
  // Throws unavailable if the file has changed, or if its path now names another file or none.
  void check_current() const;
  // From now on the file may change: for files that others touch or extend as a sign of life.
  void accept_changes() { accepts_changes_ = true; }
  // Sets `flag` to true when check_unchanged(), or a read, finds that the file has changed.
  void report_changes_to(std::shared_ptr<std::atomic<bool>> flag) { flag_ = std::move(flag); }
  // Advises the kernel that this range is needed soon.
  void will_need(std::uint64_t offset, std::uint64_t length) const;

 private:
  friend class MappedFile;
  File(int fd, std::string path, FileState opened)
      : fd_(fd), path_(std::move(path)), opened_(opened) {}
  int fd_ = -1;
  std::string path_;
  FileState opened_;
  bool accepts_changes_ = false;
  std::shared_ptr<std::atomic<bool>> flag_;    // null: nobody asks
  std::shared_ptr<const RangeSource> source_;  // null: a local file
};

// Throws the error for a name below the folder with the open descriptor `folder`, at which there is
// no file to open: a directory, a link that leads nowhere, or nothing. `path` is for messages.
[[noreturn]] void fail_no_file(int folder, const std::string& name, const std::string& path);

// A read-only memory mapping of a whole regular file. If a file is truncated while it is mapped,
// access to the mapping kills the process (SIGBUS). Cairn itself always uses pread where it can:
// mappings are for views that a program requests.
class MappedFile {
 public:
  // Opens and maps the file.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  // Maps a local file that is already open. The mapping is of that file even if its path now names
  // another file. Throws unimplemented for a value of a store.
  static std::shared_ptr<const MappedFile> of(const File& file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  [[nodiscard]] ByteView bytes() const { return bytes_; }

 private:
  explicit MappedFile(ByteView bytes) : bytes_(bytes) {}
  ByteView bytes_;
};

// Reads the whole file. Throws data_loss if the file is larger than max_size, before any memory is
// allocated.
Bytes read_file(const std::string& path, std::uint64_t max_size = std::uint64_t{1} << 30U);
Bytes read_file(const File& file, std::uint64_t max_size);
// As read_file, for text, which has no NUL byte. A large file is read in blocks up to the first NUL
// byte; a NUL byte is data_loss. Holes read as zeros, so a file with holes uses little memory,
// whatever its size.
Buffer read_text(const File& file, std::uint64_t max_size);
// As read_text, for the file at `path`.
Buffer read_text_file(const std::string& path, std::uint64_t max_size);
// Returns the state of the file or folder at the path; nullopt if the system finds nothing there.
// Follows links.
std::optional<FileState> try_state(const std::string& path);
// As above, for a name below the folder with the open descriptor `folder`.
std::optional<FileState> try_state_at(int folder, const std::string& name);
// Returns true if anything exists at the path, including a link that leads nowhere. Throws io if
// the system cannot tell, for example below a folder without permission. In that case the answer
// "nothing exists" would be wrong and could let a save overwrite data.
bool file_exists(const std::string& path);
// Returns what is at the path, as words for messages: "a file", "a directory", "a pipe", "a
// socket", "a device"; "a symbolic link" if it leads nowhere; "nothing". Follows other links.
std::string kind_at(const std::string& path);
// Returns true if a pipe, a socket or a device is at the path. Follows links.
bool is_special_file(const std::string& path);
// Returns true if the path is a directory or a link to a directory. Throws as file_exists does.
bool directory_exists(const std::string& path);
// Syncs the file's bytes or the folder's names, so that their present state survives a power loss.
// Follows links. Succeeds if a network file system reports that it does not support syncing
// folders.
void sync_path(const std::string& path);
// Syncs the folder that contains `path`, so that a new name survives a power loss. Call it after a
// change at `path`.
void sync_parent(const std::string& path);
// Creates the directory and its missing parents. Syncs each into its parent unless `durability`
// says otherwise. Succeeds if the directory already exists.
void make_directories(const std::string& path, Durability durability = Durability::kSynced);

}  // namespace cairn::inline v0
