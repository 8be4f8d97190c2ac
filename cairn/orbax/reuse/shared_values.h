// shared_values.h -- the values of an earlier item whose files get a second name in a new item. Two
// kinds: data files of databases and chunks that are files.
#pragma once

#include <cairn/io/tree/folder_handle.h>
#include <cairn/kvstore/reusable_values.h>
#include <cairn/ocdbt/write/database_sink.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {

// What a save has shared.
struct SharedCounts {
  std::int64_t values = 0;
  std::int64_t bytes = 0;    // as they are stored
  std::string refusal = {};  // why the file system would not link a file; "": it never refused
};

// A file is shared if at least half of its bytes are values of the new item, so that what nobody
// needs does not live on from step to step.
class SharedValues : public ReusableValues {
 public:
  // `earlier` is the folder of the earlier item, `folder` the path of the new one.
  SharedValues(FolderPtr earlier, std::string folder)
      : earlier_(std::move(earlier)), folder_(std::move(folder)) {}

  void keep(std::string_view key) final;
  void replace(std::string_view key) final;
  [[nodiscard]] bool has(std::string_view key) const final;
  // Takes back the second names of files that are not to be shared. Call it when all values are
  // kept or replaced, and before has().
  void settle();
  // Enters the shared values into the new item's database, if it has one.
  virtual void add_to(ocdbt::DatabaseSink& sink) const = 0;
  [[nodiscard]] SharedCounts counts() const;
  [[nodiscard]] std::vector<std::string> keys() const;  // of the shared values

 protected:
  // A file of the earlier item.
  struct LinkedFile {
    std::string earlier;                     // relative to the earlier item
    std::string name = {};                   // relative to the new item; "": cannot be shared
    std::uint64_t in_use = 0;                // bytes of the earlier item's values
    std::uint64_t unchanged = 0;             // bytes of values that are unchanged
    std::optional<std::uint64_t> size = {};  // once it is linked
    bool is_tried = false;
  };
  struct Value {
    std::size_t file = 0;  // position in files_
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool is_unchanged = false;
  };
  static bool is_mostly(std::uint64_t part, std::uint64_t whole) {
    return part >= whole - whole / 2;
  }
  // A value of this file is replaced. The lock is held.
  virtual void give_up_value(LinkedFile& file) = 0;
  // Gives a file of the earlier item the name `to` in the new one. Returns its size; nullopt if it
  // cannot be linked. Several threads may call it at once.
  [[nodiscard]] std::optional<std::uint64_t> link(const std::string& from, const std::string& to);

  FolderPtr earlier_;
  std::string folder_;
  mutable std::mutex mutex_;  // of files_ and values_
  std::vector<LinkedFile> files_;
  std::unordered_map<std::string, Value> values_;  // by key
  std::unordered_set<std::string> replaced_;       // keys

 private:
  [[nodiscard]] static bool is_shared(const LinkedFile& file);

  std::mutex refusal_mutex_;
  std::string refusal_;
};

}  // namespace cairn::inline v0::orbax
