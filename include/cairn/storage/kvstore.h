// kvstore.h -- KvStore, a flat map from key to bytes: a folder, memory, or an OCDBT database on top
// of another store.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>
#include <cairn/storage/store_options.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

class FolderHandle;  // a folder held open; internal to the library
class RangeSource;   // one version of a value, opened for reading; internal to the library

// Bytes [offset, offset + length) of a value; without a length, up to its end.
struct ByteRange {
  std::uint64_t offset = 0;                  // bytes
  std::optional<std::uint64_t> length = {};  // bytes
  bool operator==(const ByteRange&) const = default;
};

// One key of a listing, and the size of its value in bytes.
struct ListEntry {
  std::string key;
  std::uint64_t size = 0;
  bool operator==(const ListEntry&) const = default;
};

// One key of a listing that also says which version it holds.
struct StoredValue {
  std::string key;
  std::uint64_t size = 0;        // bytes
  std::string version = {};      // an ETag, a generation; "" if the store has none
  std::int64_t modified_ns = 0;  // nanoseconds since 1970; 0 if the store does not say
  bool operator==(const StoredValue&) const = default;
};

// Some keys of a store, sorted bytewise.
struct StoreListing {
  std::vector<StoredValue> values;
  std::vector<std::string> folders;  // of list_level: "a/" for keys that begin with it
  bool is_whole = true;              // false: there are more values
};

// Physical location of a value: a byte range of a local file. Readers use it to sort, coalesce and
// map reads. Values that are inline in a B+tree node or in memory have no location.
struct Location {
  std::string file;          // path as open(2) takes it
  std::uint64_t offset = 0;  // bytes
  std::uint64_t length = 0;  // bytes
  // If set: the folder above the file, held open. Open the file through this handle, because `file`
  // may name another file by then.
  std::shared_ptr<const FolderHandle> folder = nullptr;
  bool operator==(const Location&) const = default;
};

// Bytes that stay valid while `owner` lives: a mapped file or memory.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  ByteView bytes;
};

// The keys k with first <= k < last, compared bytewise; without `last`, all keys from `first` on.
struct KeyRange {
  std::string first = {};
  std::optional<std::string> last = {};
  bool operator==(const KeyRange&) const = default;

  // The keys that start with `prefix`.
  static KeyRange with_prefix(std::string_view prefix);
  [[nodiscard]] bool contains(std::string_view key) const {
    return key >= first && (!last || key < *last);
  }
};

// A value written from front to back, for values too large or produced too slowly to hold in
// memory. Not safe for concurrent use. Destruction without commit() discards the value.
class Appender {
 public:
  Appender() = default;
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;
  virtual ~Appender() = default;

  // Appends all parts in order. The parts need not outlive the call.
  virtual void append(std::span<const ByteView> parts) = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;  // bytes appended so far
  // Stores the value under its key atomically, replacing an existing value. Call it once, last.
  virtual void commit() = 0;
};

// A flat map from key to value. Safe to call from many threads. Keys are non-empty byte strings;
// '/' has a meaning in file stores only, where a key is a relative path. All reads throw
// out_of_range if the range lies outside the value, io if the operating system refuses, and
// data_loss if the store knows that its bytes are damaged.
class KvStore {
 public:
  virtual ~KvStore() = default;

  // Reads part of the value. Absent key: nullopt.
  [[nodiscard]] virtual std::optional<Bytes> read(std::string_view key, ByteRange range) const = 0;
  // Reads the whole value, which may have at most `most` bytes. Throws data_loss if it is larger,
  // before it allocates memory for it. The result comes from a single write, never from a mix of
  // two. Absent key: nullopt.
  [[nodiscard]] virtual std::optional<Bytes> read_at_most(std::string_view key,
                                                          std::uint64_t most) const = 0;
  // Fills all of `out` from `offset` on, without an intermediate copy where the store can. Absent
  // key: false.
  virtual bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const = 0;
  // The whole value with as little copying as the store can: mapped, shared or read. Meant for
  // views of bulk data. If another program truncates a mapped file, an access to the lost bytes
  // kills the process. Absent key: nullopt.
  [[nodiscard]] virtual std::optional<SharedBytes> map(std::string_view key) const = 0;
  // Size of the value in bytes. Absent key: nullopt.
  [[nodiscard]] virtual std::optional<std::uint64_t> size(std::string_view key) const = 0;
  // Location of the value in a local file. nullopt if the key is absent or its bytes are not in a
  // file.
  [[nodiscard]] virtual std::optional<Location> locate(std::string_view key) const = 0;
  // All keys that start with `prefix`, sorted bytewise.
  [[nodiscard]] virtual std::vector<ListEntry> list(std::string_view prefix) const = 0;
  // The keys that start with `prefix` and have no further '/', and the folders of those that have
  // one: up to and with that '/'.
  [[nodiscard]] virtual StoreListing list_level(std::string_view prefix) const;
  // The first `most` keys that start with `prefix`, with their versions.
  [[nodiscard]] virtual StoreListing list_values(std::string_view prefix, std::size_t most) const;
  // Opens the value in this version ("": the one that is stored now). Null if the key is absent.
  // Throws unavailable if another version is stored; so do reads of the result.
  [[nodiscard]] virtual std::shared_ptr<const RangeSource> open(std::string_view key,
                                                                std::string_view version) const;
  // As open(), for a value of a listing. If the listing names its version, no request is needed: a
  // value that has been replaced or removed since is found when it is read.
  [[nodiscard]] virtual std::shared_ptr<const RangeSource> open_listed(
      const StoredValue& value) const;
  // Replaces the value atomically: a reader sees the old bytes or the new bytes. Throws
  // unimplemented if the store is read-only.
  virtual void write(std::string_view key, ByteView value) = 0;
  // Removes the key; does nothing if it is absent. Throws unimplemented if the store is read-only.
  virtual void remove(std::string_view key) = 0;
  // Removes the keys, with as few requests as the store can. The order is not defined.
  virtual void remove_all(const std::vector<std::string>& keys);
  // Copies a value inside the store. Returns false if the store cannot, or the key is absent.
  virtual bool copy(std::string_view from, std::string_view to);
  // Compare and swap: writes `value` only if the stored value equals `expected` (nullopt: absent),
  // with no other writer in between. Returns false, without a change, if it does not. In a local
  // folder this uses TensorStore's lock files, so that both libraries may write one key. Throws
  // unimplemented if the store does not support it.
  virtual bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value);
  // Starts a value to be appended to. Throws unimplemented, here or at commit(), if the store is
  // read-only.
  [[nodiscard]] virtual std::unique_ptr<Appender> append(std::string_view key);
  // The key for messages, as a person would look for it: a path, or "key of database".
  [[nodiscard]] virtual std::string describe(std::string_view key) const = 0;
};

// Shared ownership of a store.
using StorePtr = std::shared_ptr<KvStore>;

// An empty store in memory.
StorePtr make_memory_store();
// The folder at `path`; keys are relative paths inside it. A missing folder reads as empty. Throws
// invalid_argument for keys with empty, "." or ".." components, with NUL, or ending in "/".
// Listings omit files that are being written.
StorePtr open_file_store(std::string path, Durability durability = Durability::kSynced);
// The folder that is held open, whatever its path names now. For reading only.
StorePtr open_file_store(std::shared_ptr<const FolderHandle> folder);
// Opens the folder that a plain path or a URL names; keys are what follows it and a '/':
//   /path, file:///path     a folder of this machine
//   s3://bucket/prefix, gs://bucket/prefix
//   http(s)://host/path, hf://owner/name[@revision]/path     read-only
//   memory://NAME/prefix    a store of this process: the same name gives the same values, until the
//                           process ends
//   memory://               a new empty store
// Opening a store sends no request. Throws unimplemented for other schemes.
StorePtr open_store(std::string_view url, const StoreOptions& options = {});
// The part of `base` below `prefix`; keys lose the prefix.
StorePtr prefix_store(StorePtr base, std::string prefix);
// Removes all keys of a range, one at a time (not atomically).
void remove_range(KvStore& store, const KeyRange& range);

// Opens the OCDBT database whose files are the keys of `base` (manifest.ocdbt, d/...), as a
// read-only store. Without a manifest the database is empty; if a version is named, throws
// not_found. Throws data_loss for a damaged manifest. `threads` as in Resources: how many nodes of
// the tree a listing reads at once.
StorePtr open_ocdbt(StorePtr base, OcdbtVersion version = {}, std::size_t threads = 0);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
