// earlier_item.h -- finds the item of an earlier checkpoint with which a new item shares values.
#pragma once

#include <cairn/io/tree/folder_handle.h>
#include <cairn/orbax/reuse/shared_database.h>
#include <cairn/orbax/reuse/shared_values.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

// How the new item is stored. The earlier one must be stored in the same way.
struct ItemStorage {
  std::string path;         // of the item
  bool is_database = true;  // false: each chunk is a file
  std::size_t threads = 0;  // as in Resources
};

// The item of the earlier checkpoint that has the name of the new one, or else its only tree. It is
// opened at the first use, and once. If it cannot be opened, each use throws the same not_found,
// failed_precondition or data_loss, with a message that says why nothing can be shared. One thread
// uses it at a time.
class EarlierItem {
 public:
  // `from` is the earlier checkpoint or item; "": there is none, and nothing may be used.
  EarlierItem(std::string from, ItemStorage storage)
      : from_(std::move(from)), storage_(std::move(storage)) {}

  [[nodiscard]] const std::string& from() const { return from_; }
  // Reads a small value; nullopt if there is none.
  [[nodiscard]] std::optional<Bytes> read(std::string_view key);
  // Its values, to be shared with the files in `folder`: the new item, or the database of one
  // process in it.
  [[nodiscard]] std::unique_ptr<SharedValues> share_with(const std::string& folder);

 private:
  void open();
  void open_now();

  std::string from_;
  ItemStorage storage_;
  bool is_tried_ = false;
  std::optional<Error> failure_;  // why it cannot be opened
  FolderPtr folder_;
  std::shared_ptr<const SharedDatabase::Content> content_;  // null: each chunk is a file
};

}  // namespace cairn::inline v0::orbax
