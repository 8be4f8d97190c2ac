// kvstore.h -- a flat map from key to bytes: a folder, memory, or an OCDBT database on top of
// another store.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

class FolderHandle;

// Bytes [offset, offset + length) of a value; no length = up to its end.
struct ByteRange {
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  bool operator==(const ByteRange&) const = default;
};

// One key of a listing and the size of its value in bytes.
struct ListEntry {
  std::string key;
  std::uint64_t size = 0;
  bool operator==(const ListEntry&) const = default;
};

// Where a value's bytes physically lie, so that readers can sort, coalesce and map: byte range of a
// file of the local file system. Values that are inline in a B+tree node or in memory have no
// location.
struct Location {
  std::string file;  // path that open(2) takes
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  // Set: the folder above the file, held open. The file is to be opened through it, because `file`
  // may name another one by then.
  std::shared_ptr<const FolderHandle> folder = nullptr;
  bool operator==(const Location&) const = default;
};

// Bytes that stay valid as long as `owner` lives; perhaps a mapped file, perhaps memory.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  ByteView bytes;
};

// Keys that are not less than `first` and less than `last`; no last = all up to the end.
struct KeyRange {
  std::string first;
  std::optional<std::string> last;
  bool operator==(const KeyRange&) const = default;

  // The keys that start with `prefix`.
  static KeyRange with_prefix(std::string_view prefix);
  [[nodiscard]] bool contains(std::string_view key) const {
    return key >= first && (!last || key < *last);
  }
};

// A value that is written from front to back, because it is too large or too slow in coming to be
// in memory at once. For one thread at a time. Destroyed without commit(): as if it had never been.
class Appender {
 public:
  Appender() = default;
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;
  virtual ~Appender() = default;

  // All parts, one behind the other; they need not live on.
  virtual void append(std::span<const ByteView> parts) = 0;
  // Bytes appended so far.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Makes the value appear under its key, whole; a value that was there is replaced. Nothing can be
  // appended after it.
  virtual void commit() = 0;
};

// Safe to call from many threads. Keys are non-empty byte strings, '/' has no meaning but in file
// stores, where a key is a relative path. All reads throw out_of_range if the range does not lie in
// the value, io if the system refuses, and data_loss if the store knows its bytes to be damaged.
class KvStore {
 public:
  virtual ~KvStore() = default;

  // Absent key: nullopt.
  [[nodiscard]] virtual std::optional<Bytes> read(std::string_view key, ByteRange range) const = 0;
  // The whole value, which the caller knows to have at most `most` bytes: data_loss if it is
  // larger, before memory is taken for it. All of it is of one write. Absent key: nullopt.
  [[nodiscard]] virtual std::optional<Bytes> read_at_most(std::string_view key,
                                                          std::uint64_t most) const = 0;
  // Fills all of `out` from `offset` on, without a copy in between where the store can. Absent key:
  // false.
  virtual bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const = 0;
  // The whole value with as little copying as the store can: mapped, shared or read. For views of
  // bulk data: a mapped file that another program cuts short kills the process that looks at it.
  // Absent key: nullopt.
  [[nodiscard]] virtual std::optional<SharedBytes> map(std::string_view key) const = 0;
  // Size of the value. Absent key: nullopt.
  [[nodiscard]] virtual std::optional<std::uint64_t> size(std::string_view key) const = 0;
  // Where the value lies in a local file; nullopt if the key is absent or its bytes are not in a
  // file of their own.
  [[nodiscard]] virtual std::optional<Location> locate(std::string_view key) const = 0;
  // All keys that start with `prefix`, sorted bytewise.
  [[nodiscard]] virtual std::vector<ListEntry> list(std::string_view prefix) const = 0;
  // Replaces the value atomically: a reader sees the old bytes or the new ones. Throws
  // unimplemented if read-only.
  virtual void write(std::string_view key, ByteView value) = 0;
  // Absent key: nothing to do. Throws unimplemented if read-only.
  virtual void remove(std::string_view key) = 0;
  // Writes `value` only if what is stored now is exactly `expected` (nullopt: nothing), with no
  // other writer in between; false: it is not, and nothing has changed. In a local folder this
  // agrees with TensorStore's lock files, so that both may write one key. Throws unimplemented if
  // the store has no such power.
  virtual bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value);
  // A value to be appended to. Throws unimplemented, here or at its commit, if read-only.
  [[nodiscard]] virtual std::unique_ptr<Appender> append(std::string_view key);
  // The key as a person would look for it, for messages: a path, or "key of database".
  [[nodiscard]] virtual std::string describe(std::string_view key) const = 0;
};

using StorePtr = std::shared_ptr<KvStore>;

// An empty store in memory.
StorePtr make_memory_store();
// The folder at `path` (it need not exist for reading nothing); keys are relative paths inside it.
// Keys with empty, "." or ".." components, NUL, or ending in "/" are refused with invalid_argument.
// Listings leave out files that are being written.
StorePtr open_file_store(std::string path, Durability durability = Durability::kSynced);
// The folder that is held open, whatever its path has come to name; for reading.
StorePtr open_file_store(std::shared_ptr<const FolderHandle> folder);
// "file:///path", a plain path, or "memory://". Throws unimplemented for other schemes.
StorePtr open_store(std::string_view url);
// The part of `base` below `prefix`; keys lose the prefix.
StorePtr prefix_store(StorePtr base, std::string prefix);
// Removes the keys of a range, one after the other.
void remove_range(KvStore& store, const KeyRange& range);

// Which version of an OCDBT database: the newest unless one is named.
struct OcdbtVersion {
  std::optional<std::uint64_t> generation;  // exactly this generation
  // the newest version committed at or before, nanoseconds since 1970
  std::optional<std::uint64_t> commit_time_ns;
};
// The OCDBT database whose files are the keys of `base` (manifest.ocdbt, d/...), as a read-only
// store. No manifest = an empty database, except when a version is named: not_found. Throws
// data_loss for a damaged manifest.
StorePtr open_ocdbt(StorePtr base, OcdbtVersion version = {});

}  // namespace cairn
