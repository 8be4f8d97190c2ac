// stored_item.h -- what is stored of one item, as type handlers ask for it: arrays are opened when
// they are wanted.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/handlers.h>
#include <cairn/orbax/read/pytree_item.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::orbax {

class StoredItem : public ItemReader {
 public:
  // The item as open_pytree_structure leaves it. executor null: the process's.
  StoredItem(PytreeItem item, Executor* executor, std::uint64_t memory,
             MultiprocessingOptions processes = {});

  [[nodiscard]] const PytreeItem& item() const { return item_; }
  [[nodiscard]] std::vector<TensorInfo> arrays_under(
      std::span<const std::string_view> names, const std::string& metadata_key) const override;
  [[nodiscard]] std::optional<std::string> sharding(const std::string& name) const override;
  [[nodiscard]] std::string random_key_impl(const std::string& name) const override;
  void read(std::span<const Read> reads) const override;
  [[nodiscard]] std::string string(const std::string& name) const override;
  [[nodiscard]] MultiprocessingOptions processes() const override { return processes_; }

 private:
  [[nodiscard]] const zarr::ZarrArray& opened(std::string_view name) const;

  PytreeItem item_;
  // of item_.tensors, the first of each name
  std::unordered_map<std::string_view, std::size_t> by_name_;
  Executor* executor_;
  std::uint64_t memory_;
  MultiprocessingOptions processes_;
  mutable std::mutex mutex_;
  // never taken out: references stay valid
  mutable std::unordered_map<std::string, zarr::ZarrArray> opened_;
  mutable handlers::ValueStreams streams_;
};

}  // namespace cairn::orbax
