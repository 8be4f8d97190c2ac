// stored_item.h -- gives type handlers access to the stored data of one item. Each array is opened
// when a handler first requests it.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/distributed.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>
#include <cairn/orbax/read/pytree_item.h>
#include <cairn/tree/name_table.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::inline v0::orbax {

// The ItemReader of one opened pytree item.
class StoredItem : public ItemReader {
 public:
  // `item` is the result of open_pytree_structure. If `executor` is null, the default executor of
  // the process is used. `memory` is the limit of working memory in bytes.
  StoredItem(PytreeItem item, Executor* executor, std::uint64_t memory,
             MultiprocessingOptions processes = {});

  [[nodiscard]] const PytreeItem& item() const { return item_; }
  // The bytes of the elements that were read so far.
  [[nodiscard]] std::int64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] std::vector<TensorInfo> arrays_under(
      std::span<const std::string_view> names, const std::string& metadata_key) const override;
  [[nodiscard]] std::optional<std::string> sharding(const std::string& name) const override;
  [[nodiscard]] std::string random_key_impl(const std::string& name) const override;
  [[nodiscard]] std::optional<ZarrMetadata> zarr_metadata(const std::string& name) const override;
  void read(std::span<const Read> reads) const override;
  [[nodiscard]] std::string string_in(const std::string& file,
                                      const std::string& name) const override;
  [[nodiscard]] MultiprocessingOptions processes() const override { return processes_; }
  [[nodiscard]] Executor& executor() const override {
    return executor_ != nullptr ? *executor_ : default_executor();
  }

 private:
  // Returns the string, if the file in the item's folder exists and has it.
  [[nodiscard]] std::optional<std::string> string_of_file(const std::string& file,
                                                          const std::string& name) const;
  // Returns the array `name`; opens it on first use.
  [[nodiscard]] const zarr::ZarrArray& opened(std::string_view name) const;

  PytreeItem item_;
  NameTable names_;  // of item_.tensors
  Executor* executor_;
  std::uint64_t memory_;
  MultiprocessingOptions processes_;
  mutable std::mutex mutex_;
  // Entries are never removed, so that references stay valid.
  mutable std::unordered_map<std::string, zarr::ZarrArray> opened_;
  mutable handlers::ValueStreams streams_;
  mutable std::atomic<std::int64_t> bytes_read_{0};
  using Strings = std::unordered_map<std::string, std::string>;
  mutable std::unordered_map<std::string, Strings> strings_;  // by file name
};

}  // namespace cairn::inline v0::orbax
