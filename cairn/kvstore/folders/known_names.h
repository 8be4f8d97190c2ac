// known_names.h -- KnownNames, a store that cannot list its values, such as a web server, as one
// that lists the values that it was asked for.
#pragma once

#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/routing_store.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// For reading. Whoever knows the names that a checkpoint may have asks for them, and listings have
// those that exist. Each name is asked for once. Safe to use from many threads.
class KnownNames final : public RoutingStore {
 public:
  // What the caller needs of a value that exists.
  enum class Need : std::uint8_t {
    kContent,  // it will be read, and is small: the first answer is kept
    kSize,     // it may be large, or not be read at all
  };
  // More names than that are not asked for: each takes a request.
  static constexpr std::size_t kMostNames = 200'000;

  explicit KnownNames(StorePtr base);

  // Asks for these keys, many at the same time. Throws unimplemented if there are too many.
  void ask(const std::vector<std::string>& keys, Need need) const;
  // Whether one of the keys that were asked for exists.
  [[nodiscard]] bool has(const std::string& key) const;
  // True if keys that exist begin with `folder`, which ends in '/'.
  [[nodiscard]] bool has_folder(const std::string& folder) const;
  // The number of names that may still be asked for.
  [[nodiscard]] std::size_t names_left() const;
  // The value of any key. Asks for it if nobody has yet.
  [[nodiscard]] std::optional<StoredValue> look_up(const std::string& key) const;

  // The values that were found so far.
  std::vector<ListEntry> list(std::string_view prefix) const override;
  std::optional<std::uint64_t> size(std::string_view key) const override;
  std::shared_ptr<const RangeSource> open_listed(const StoredValue& value) const override;

 protected:
  [[nodiscard]] Target find(std::string_view key) const override;

 private:
  void ask_for(const std::string& key, Need need) const;
  [[nodiscard]] bool is_asked(const std::string& key) const;

  // The kept answers have at most so many bytes.
  static constexpr std::uint64_t kMostKept = std::uint64_t{64} << 20U;

  StorePtr base_;
  mutable std::mutex mutex_;  // guards the members below
  mutable std::map<std::string, std::optional<std::uint64_t>, std::less<>> asked_;  // key -> size
  mutable std::map<std::string, std::shared_ptr<const RangeSource>, std::less<>> opened_;
  mutable std::uint64_t kept_ = 0;  // bytes
};

}  // namespace cairn::inline v0
