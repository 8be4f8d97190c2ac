// routing_store.h -- base of stores that present values of other stores, often under other keys.
#pragma once

#include <cairn/storage/kvstore.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {

// Passes each call to the store that find() names. A derived class adds find() and list().
class RoutingStore : public KvStore {
 public:
  std::optional<Bytes> read(std::string_view key, ByteRange range) const override;
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override;
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override;
  std::optional<SharedBytes> map(std::string_view key) const override;
  std::optional<std::uint64_t> size(std::string_view key) const override;
  std::optional<Location> locate(std::string_view key) const override;
  std::shared_ptr<const RangeSource> open(std::string_view key,
                                          std::string_view version) const override;
  std::shared_ptr<const RangeSource> open_listed(const StoredValue& value) const override;
  void write(std::string_view key, ByteView value) override;
  void remove(std::string_view key) override;
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override;
  std::unique_ptr<Appender> append(std::string_view key) override;
  std::string describe(std::string_view key) const override;

 protected:
  // Where the value of a key is.
  struct Target {
    KvStore* store = nullptr;  // null: the key is absent, and describe() must not ask for it
    std::string key = {};      // the key in that store
  };

  RoutingStore() = default;
  // For a store that must not change: writes throw unimplemented with this reason.
  explicit RoutingStore(std::string read_only) : read_only_(std::move(read_only)) {}

  // Throws invalid_argument for a key that the store cannot have.
  [[nodiscard]] virtual Target find(std::string_view key) const = 0;

 private:
  // Where to write a value. Throws if the store is read-only.
  [[nodiscard]] Target find_to_write(std::string_view key) const;

  std::string read_only_;  // "": writes are passed on
};

}  // namespace cairn::inline v0
