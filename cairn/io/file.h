// file.h -- files of the local file system: positioned reads, mappings, atomic replacement. Errors
// name the path and the system's reason; a missing file is Error(kNotFound), something else in its
// place (a directory, a pipe, links that lead nowhere) Error(kDataLoss), no permission and
// everything else Error(kIo).
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/temporaries.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

// A file opened for reading. Move-only; the destructor closes. Reads are positioned (pread), so
// many threads may share it.
class File {
 public:
  static File open(const std::string& path);
  // nullopt where no file can be read: nothing there, a directory, or a path that leads through a
  // file.
  static std::optional<File> try_open(const std::string& path);
  // The same for a name below the folder that is open as `folder`; `path` is for messages.
  static std::optional<File> try_open_at(int folder, const std::string& name,
                                         const std::string& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const;
  // Bytes of it that the file system says it keeps; less than size() if the file has holes, or is
  // stored compressed.
  [[nodiscard]] std::uint64_t allocated() const;
  // The first run of bytes at or behind `offset` that is not a hole, as [begin, end); nullopt if
  // there is none. Where the file system knows nothing of holes, all bytes are such.
  [[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> data_from(
      std::uint64_t offset) const;
  // When its bytes were changed last: nanoseconds since 1970, as precise as the file system keeps
  // them.
  [[nodiscard]] std::int64_t modified_ns() const;
  // True once the file has no name left: it was deleted or replaced since it was opened.
  [[nodiscard]] bool unlinked() const;
  // Fills all of `out` from `offset`; out_of_range if the file ends before.
  void read_into(std::uint64_t offset, MutableByteView out) const;
  // Scatters one contiguous file range over several destinations (preadv); out_of_range if the file
  // ends before.
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const;
  // Tells the kernel that this range will be wanted soon.
  void will_need(std::uint64_t offset, std::uint64_t length) const;

 private:
  friend class MappedFile;
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
};

// A read-only mapping of a whole regular file. Beware: a file truncated while mapped kills the
// process on access (SIGBUS). Cairn itself never reads through a mapping what it can read with
// pread: mappings are for views that a program asks for.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  // Of a file that is open already: that very file, whatever its path has come to name meanwhile.
  static std::shared_ptr<const MappedFile> of(const File& file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  [[nodiscard]] ByteView bytes() const { return bytes_; }

 private:
  explicit MappedFile(ByteView bytes) : bytes_(bytes) {}
  ByteView bytes_;
};

// True for the name of a file that an AtomicFile is writing, or has left behind in a crash.
bool is_temporary_name(std::string_view name);
// The same for one file: `final_name` is the name that it was to get.
bool is_temporary_of(std::string_view name, std::string_view final_name);

// Writes a file beside its final path (<path>.cairn-tmp-<random>), and makes it appear whole or not
// at all: write, sync, rename, sync the directory. A crash before the rename leaves the old file,
// or none. Destroyed without commit(): the temporary is removed.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  // Another process's, `temporary` being its temporary path: to be written at some places and
  // finished; it is neither committed nor removed from here.
  AtomicFile(std::string path, std::string temporary);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void append(ByteView bytes);
  // one behind the other, as few calls as the kernel allows
  void append(std::span<const ByteView> parts);
  // Writes at an absolute position: for headers known only at the end and, from several threads at
  // once, for parallel writers. Bytes never written read as zero.
  void write_at(std::uint64_t offset, ByteView bytes);
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // For a DirectAppender, which goes on where append() has ended; size() does not count its bytes.
  [[nodiscard]] int descriptor() const { return fd_; }
  [[nodiscard]] const std::string& temporary_path() const { return temp_path_; }
  // Sets the modification time to the very nanosecond. The kernel's own clock for files ticks a few
  // times in a hundredth of a second: a file that got the inode of the one before last could pass
  // for it.
  void stamp();
  // Makes the bytes durable under the temporary name; nothing can be written after it. Commit does
  // it, too: of several files that belong together, all are better finished before the first
  // appears.
  void finish(Durability durability = Durability::kSynced);
  // Gives it the final name, whatever has it: for files that are Cairn's own.
  void commit(Durability durability = Durability::kSynced);
  // The same for a file that a user has named. already_exists if something has the name and may not
  // be replaced: never anything but a regular file, and with kFail not even one that has appeared
  // since the file was begun.
  void commit_output(IfExists if_exists, Durability durability = Durability::kSynced);
  // The same under another name of the same folder.
  void commit_output_as(const std::string& path, IfExists if_exists,
                        Durability durability = Durability::kSynced);
  // Whether the file has its final name.
  [[nodiscard]] bool committed() const { return temp_path_.empty(); }

 private:
  template <class Rename>
  void name_it(Durability durability, Rename rename_it);

  std::string path_;
  std::string temp_path_;
  std::optional<NotedTemporary> noted_;
  bool ours_ = true;  // to be removed if it is not committed
  int fd_ = -1;
  std::atomic<std::uint64_t> size_{0};
};

// The whole file. Files larger than max_size are refused with data_loss before anything is
// allocated.
Bytes read_file(const std::string& path, std::uint64_t max_size = std::uint64_t{1} << 30U);
// The same for text, which has no NUL byte. A large file is read in blocks up to the first NUL
// byte, which is data_loss: holes, which read as zeros, take no memory, however large the file
// claims to be.
Bytes read_text(const File& file, std::uint64_t max_size);
Bytes read_text_file(const std::string& path, std::uint64_t max_size);
// Whether anything is at that path; a link counts even if it leads nowhere. Throws io where the
// system does not say, as below a folder without permission: "nothing is there" would be a wrong
// answer, and could let a save overwrite it.
bool file_exists(const std::string& path);
// A directory, or a link to one. Throws as file_exists.
bool directory_exists(const std::string& path);
// Makes what is there at this moment survive a loss of power: a file's bytes, the names in a
// folder. Links are followed. Fine where a network file system has no such thing for folders and
// says so.
void sync_path(const std::string& path);
// Behind a change of what is at `path`: the same for the folder that it is in, so that the new name
// survives.
void sync_parent(const std::string& path);
// Makes the directory and the missing ones above it, each synced into its parent unless that is
// asked not to be. Fine if it is there already.
void make_directories(const std::string& path, Durability durability = Durability::kSynced);

}  // namespace cairn
