// shared_database.h -- shares the data files of an earlier database.
#pragma once

#include <cairn/io/folder_handle.h>
#include <cairn/orbax/reuse/shared_values.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace cairn::inline v0::orbax {

// A data file keeps its name, whatever folder of the earlier item it is in: <new item>/d/<32 hex
// digits>. It is shared if at least half of its bytes are values of the new item, so that what
// nobody needs does not live on from step to step.
class SharedDatabase : public SharedValues {
 public:
  // `earlier` is the folder of the earlier item, `folder` the path of the new one. Reads all nodes
  // of the database's newest version.
  SharedDatabase(FolderPtr earlier, std::string folder, std::size_t threads);

  [[nodiscard]] std::optional<Bytes> read(std::string_view key) const override;
  [[nodiscard]] std::optional<Location> take(std::string_view key) override;
  void decide(std::string_view key, bool is_unchanged) override;
  [[nodiscard]] bool has(std::string_view key) const override;
  void settle() override;
  void add_to(ocdbt::DatabaseSink& sink) const override;
  [[nodiscard]] SharedCounts counts() const override;

 private:
  struct DataFile {
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
  void read_tree(std::size_t threads);
  // Gives the file its second name. Returns its size; nullopt if it cannot be shared.
  std::optional<std::uint64_t> link(DataFile& file);

  FolderPtr earlier_;
  std::string folder_;
  StorePtr values_;  // the earlier database
  mutable std::mutex mutex_;
  std::vector<DataFile> files_;
  std::unordered_map<std::string, Value> shared_;
  std::string refusal_;
};

}  // namespace cairn::inline v0::orbax
