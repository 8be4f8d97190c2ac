// store_location.h -- the key-value stores that specs name: directories, memory, object stores,
// OCDBT databases on top of them, and URLs for these.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/ocdbt/write/writer.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tensorstore_spec/scope.h>
#include <cairn/zarr/write/write_array.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace cairn::inline v0::tensorstore_spec {

// The database of a spec and the options for writing to it.
struct Database {
  StorePtr base;
  ocdbt::WriterOptions options;  // options.config is used only for a new database
  OcdbtVersion version;
};
// The options of the next commit: an existing database keeps its own configuration.
ocdbt::WriterOptions commit_options(const Database& database);
// Throws invalid_argument if the spec names a version, which cannot change.
void check_no_version(const Database& database);

// A store and a path in it. The path is the key of a value, or the prefix of an array's keys.
// Parsing it does not access the store.
struct StoreLocation {
  std::string path;
  // Returns the part of the store whose keys start with `prefix`; `prefix` is empty or ends in '/'.
  std::function<StorePtr(const std::string& prefix)> below;
  std::shared_ptr<const Database> database;  // not null: the store is this database
  bool is_files = false;
  bool is_external = false;  // files and objects: never removed as a whole
};

// Parses a store. `pointer` is the location of `spec`, for messages. Throws what open_array_spec
// throws.
StoreLocation parse_store_location(const Json& spec, const std::string& pointer,
                                   const Scope& scope);
// Parses the remaining members of {"driver":"ocdbt"}.
StoreLocation parse_database(Members& members, const Scope& scope);
// Returns the prefix of keys below a path: appends '/' if the path does not end in one. An empty
// path stays empty.
std::string folder_prefix(std::string path);

// Reads and changes a part of a store. Safe to use from many threads.
class KeyEditor {
 public:
  // Opens the part of the store whose keys start with `prefix`.
  KeyEditor(StoreLocation location, std::string prefix);

  // Returns a store with the current values; for a database, the values at the time it was opened
  // or last changed here.
  [[nodiscard]] StorePtr reader() const;
  // Applies changes: in a database all at once, elsewhere one by one.
  void change(const std::function<void(ValueSink&)>& changes);
  // Writes a value if the key does not exist. Returns whether it has written the value.
  bool create(const std::string& key, ByteView value);
  // Replaces a value by the result of `edit`, which gets the old value, or null if there is none.
  // If another writer changes the value meanwhile, calls `edit` again.
  void edit(const std::string& key, const std::function<std::string(const Bytes* old)>& edit);
  // Removes all values.
  void clear();
  // Throws invalid_argument or unimplemented if the location cannot be written.
  void check_writable() const;

 private:
  void commit(const std::function<void(ocdbt::Writer::Stream&)>& changes);
  [[nodiscard]] bool replace_in_database(const std::string& key, std::optional<ByteView> expected,
                                         ByteView value) const;
  void reopen();

  StoreLocation place_;
  std::string prefix_;
  mutable std::mutex mutex_;
  StorePtr reader_;
};

}  // namespace cairn::inline v0::tensorstore_spec
