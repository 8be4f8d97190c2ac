// shared_values.h -- the values of an earlier item whose files get a second name in a new item. Two
// implementations: for data files of databases and for chunks that are files.
#pragma once

#include <cairn/kvstore/reusable_values.h>
#include <cairn/ocdbt/write/database_sink.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

// What a save has shared.
struct SharedCounts {
  std::int64_t values = 0;
  std::int64_t bytes = 0;    // as they are stored
  std::string refusal = {};  // why the file system would not link a file; "": it never refused
};

class SharedValues : public ReusableValues {
 public:
  // Call it after the last decision: takes back the second names of files that are not to be shared.
  virtual void settle() = 0;
  // Enters the shared values into the new item's database.
  virtual void add_to(ocdbt::DatabaseSink& sink) const = 0;
  [[nodiscard]] virtual SharedCounts counts() const = 0;
};

// Opens the earlier checkpoint at `from`, and there the item with the name of `folder`, the new
// item's, or else the only tree. `is_database` tells how the new item is stored; the earlier one
// must be stored in the same way. Throws not_found, failed_precondition, data_loss: with a message
// that says why nothing can be shared.
std::unique_ptr<SharedValues> open_shared_values(const std::string& from, const std::string& folder,
                                                 bool is_database, std::size_t threads);

}  // namespace cairn::inline v0::orbax
