// shared_folder.h -- shares the chunks of an earlier item that stores each chunk in a file of its own.
#pragma once

#include <cairn/io/folder_handle.h>
#include <cairn/orbax/reuse/shared_values.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace cairn::inline v0::orbax {

// A chunk keeps its name below the item.
class SharedFolder : public SharedValues {
 public:
  // `earlier` is the folder of the earlier item, `folder` the path of the new one.
  SharedFolder(FolderPtr earlier, std::string folder)
      : earlier_(std::move(earlier)), folder_(std::move(folder)) {}

  [[nodiscard]] std::optional<Bytes> read(std::string_view key) const override;
  [[nodiscard]] std::optional<Location> take(std::string_view key) override;
  void decide(std::string_view key, bool is_unchanged) override;
  [[nodiscard]] bool has(std::string_view key) const override;
  void settle() override {}
  void add_to(ocdbt::DatabaseSink& /*sink*/) const override {}
  [[nodiscard]] SharedCounts counts() const override;

 private:
  [[nodiscard]] std::optional<Location> link(std::string_view key);

  FolderPtr earlier_;
  std::string folder_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::uint64_t> shared_;  // sizes by key
  std::string refusal_;
};

}  // namespace cairn::inline v0::orbax
