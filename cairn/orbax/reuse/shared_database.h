// shared_database.h -- shares the data files of an earlier database.
#pragma once

#include <cairn/orbax/reuse/shared_values.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::inline v0::orbax {

// A data file keeps its name, whatever folder of the earlier item it is in: <new item>/d/<32 hex
// digits>.
class SharedDatabase : public SharedValues {
 public:
  // The newest version of a database. Several new databases may share with it.
  class Content {
   public:
    // Reads the manifest and all nodes.
    Content(const FolderPtr& earlier, std::size_t threads);
    // As ReusableValues::read().
    [[nodiscard]] std::optional<Bytes> read(std::string_view key) const;

   private:
    friend class SharedDatabase;
    StorePtr base_;                                  // the files of the earlier item
    std::unordered_map<std::string, Bytes> inline_;  // values that are in a node
    std::vector<LinkedFile> files_;
    std::unordered_map<std::string, Value> values_;  // by key
  };

  // `content` is that of the database in `earlier`.
  SharedDatabase(FolderPtr earlier, std::string folder, std::shared_ptr<const Content> content);

  [[nodiscard]] std::optional<Bytes> read(std::string_view key) const override;
  [[nodiscard]] std::optional<Location> take(std::string_view key) override;
  void add_to(ocdbt::DatabaseSink& sink) const override;

 private:
  // Links the file at the first call. Returns its size; nullopt if it cannot be shared.
  [[nodiscard]] std::optional<std::uint64_t> size_of(LinkedFile& file);
  void give_up_value(LinkedFile& /*file*/) override {}  // the file has other values

  std::shared_ptr<const Content> content_;
};

}  // namespace cairn::inline v0::orbax
