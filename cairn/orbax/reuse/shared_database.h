// shared_database.h -- shares the data files of an earlier database.
#pragma once

#include <cairn/orbax/reuse/shared_values.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace cairn::inline v0::orbax {

// A data file keeps its name, whatever folder of the earlier item it is in: <new item>/d/<32 hex
// digits>.
class SharedDatabase : public SharedValues {
 public:
  // Reads the manifest and all nodes of the database's newest version.
  SharedDatabase(FolderPtr earlier, std::string folder, std::size_t threads);

  [[nodiscard]] std::optional<Bytes> read(std::string_view key) const override;
  [[nodiscard]] std::optional<Location> take(std::string_view key) override;
  void add_to(ocdbt::DatabaseSink& sink) const override;

 private:
  // Links the file at the first call. Returns its size; nullopt if it cannot be shared.
  [[nodiscard]] std::optional<std::uint64_t> size_of(LinkedFile& file);
  void give_up_value(LinkedFile& /*file*/) override {}  // the file has other values

  StorePtr base_;                                  // the files of the earlier item
  std::unordered_map<std::string, Bytes> inline_;  // values that are in a node
};

}  // namespace cairn::inline v0::orbax
