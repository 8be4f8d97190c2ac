// store_location.h -- the key-value stores that specs name: folders, memory and OCDBT databases on
// top of them, and URLs for these.
#pragma once

#include <cairn/base/json.h>
#include <cairn/kvstore.h>
#include <cairn/ocdbt/write/writer.h>
#include <cairn/tensorstore_spec.h>
#include <cairn/zarr/write/write_array.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace cairn::tensorstore_spec {

// What a database is written with.
struct Database {
  StorePtr base;
  ocdbt::WriterOptions options;  // its config is that of a new database
  OcdbtVersion version;
};

// A store and a path in it, which is the key of a value or what the keys of an array start with.
// Nothing has been touched yet.
struct StoreLocation {
  std::string path;
  // The part of the store whose keys start with `prefix`, which is empty or ends in '/'.
  std::function<StorePtr(const std::string& prefix)> below;
  std::shared_ptr<const Database> database;  // set: the store is this one
  bool is_files = false;
};

// `pointer`: where `spec` is, for messages. Throws as open_array_spec does.
StoreLocation parse_store_location(const Json& spec, const std::string& pointer,
                                   const SpecContext& context);
// The rest of {"driver":"ocdbt"}.
StoreLocation parse_database(class Members& members, const SpecContext& context);
// What keys below a path start with: '/' is added where there is none.
std::string folder_prefix(std::string path);

// Part of a store, read and changed. Safe to use from many threads.
class KeyEditor {
 public:
  KeyEditor(StoreLocation location, std::string prefix);

  // What it holds; of a database, what it held when it was opened or last changed here.
  [[nodiscard]] StorePtr reader() const;
  // Changes, all or (outside of databases) one by one.
  void change(const std::function<void(zarr::ValueSink&)>& changes);
  // Writes a value if there is none; in a database, if there was none when it was last looked at.
  bool create(const std::string& key, ByteView value);
  // Replaces a value by what `edit` makes of the one that is there, nullptr for none.
  void edit(const std::string& key, const std::function<std::string(const Bytes* old)>& edit);
  // Removes everything.
  void clear();
  // invalid_argument or unimplemented if nothing can be written.
  void check_writable() const;

 private:
  void commit(const std::function<void(ocdbt::Writer::Stream&)>& changes);
  void reopen();

  StoreLocation place_;
  std::string prefix_;
  mutable std::mutex mutex_;
  StorePtr reader_;
};

}  // namespace cairn::tensorstore_spec
