// atomic_file.h -- writes a file that appears complete or not at all.
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/byte_target.h>
#include <cairn/io/temporaries.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cairn::inline v0 {

// Writes a file beside its final path as <path>.cairn-tmp-<random>. The file appears complete or
// not at all: write, sync, rename, sync the directory. After a crash before the rename, the old
// file remains, or no file. If the object is destroyed without commit(), it removes the temporary
// file.
class AtomicFile final : public ByteTarget {
 public:
  // Creates the temporary file for `path`.
  explicit AtomicFile(std::string path);
  // Opens the temporary file `temporary` that another process has created for `path`. This object
  // may write parts of it and finish it, but neither commits nor removes it.
  AtomicFile(std::string path, std::string temporary);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() override;

  // Appends bytes at the end of the file.
  void append(ByteView bytes) override;
  // Appends the parts in order, with as few system calls as possible.
  void append(std::span<const ByteView> parts) override;
  // Writes at an absolute position. Use it for headers that are known only at the end, and for
  // parallel writers: several threads may call it at once. Bytes that are never written read as
  // zero.
  void write_at(std::uint64_t offset, ByteView bytes) override;
  // Makes the file `size` bytes long, if it is shorter. The new bytes read as zeros and use no
  // space on the disk.
  void extend(std::uint64_t size);
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] bool takes_any_order() const override { return true; }
  // The descriptor for a DirectAppender, which continues where append() has ended. size() does not
  // count the bytes that it writes.
  [[nodiscard]] int descriptor() const { return fd_; }
  [[nodiscard]] const std::string& temporary_path() const { return temp_path_; }
  // Sets the modification time with nanosecond precision. The kernel's own clock for files advances
  // only a few times per hundredth of a second. Without the stamp, a new file that gets the inode
  // of an earlier version could be mistaken for that version.
  void stamp();
  // Makes the bytes durable under the temporary name; no writes are allowed after it. commit()
  // calls it too. If several files belong together, finish all of them before the first one is
  // committed.
  void finish(Durability durability = Durability::kSynced);
  // Gives the file its final name and replaces any existing file. Use it for Cairn's own files.
  void commit(Durability durability = Durability::kSynced);
  // As commit(), for a file that a user has named. Throws already_exists if the name is taken and
  // may not be replaced. Only a regular file may be replaced. With kFail, a file that has appeared
  // since the write began is not replaced either.
  void commit_output(IfExists if_exists, Durability durability = Durability::kSynced);
  // As commit_output(), under another name in the same folder.
  void commit_output_as(const std::string& path, IfExists if_exists,
                        Durability durability = Durability::kSynced);
  // True if the file has its final name.
  [[nodiscard]] bool committed() const { return temp_path_.empty(); }

 private:
  template <class Rename>
  void name_it(Durability durability, Rename rename_it);

  std::string path_;
  std::string temp_path_;
  std::optional<NotedTemporary> noted_;
  // false: another process owns the temporary file, and this object does not remove it
  bool ours_ = true;
  int fd_ = -1;
  std::atomic<std::uint64_t> size_{0};
};

// Writes a whole file of Cairn's own. Replaces an existing file.
void write_file_atomically(const std::string& path, ByteView bytes,
                           Durability durability = Durability::kSynced);

}  // namespace cairn::inline v0
