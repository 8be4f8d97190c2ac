// reusable_values.h -- the interface to the values of an earlier save, which a new save may share
// instead of writing them again.
#pragma once

#include <cairn/bytes.h>
#include <cairn/storage/kvstore.h>

#include <optional>
#include <string_view>

namespace cairn::inline v0 {

// The values of an earlier save. First each value is taken, and then kept or replaced. When that
// has ended, has() answers. Several threads may call it at once.
class ReusableValues {
 public:
  virtual ~ReusableValues() = default;
  // Reads a small value; nullopt if there is none.
  [[nodiscard]] virtual std::optional<Bytes> read(std::string_view key) const = 0;
  // Makes the value a part of the new save and returns its location there. Whatever happens to the
  // earlier save, the file at that location stays. Returns nullopt if there is no such value or if
  // it cannot be shared. Call it once for each key.
  [[nodiscard]] virtual std::optional<Location> take(std::string_view key) = 0;
  // A value that was taken is the one that would be written: the new save may share it.
  virtual void keep(std::string_view key) = 0;
  // The caller now writes another value under the key, whether or not one was taken.
  virtual void replace(std::string_view key) = 0;
  // Returns whether the new save shares the value or has replaced it, so that it must not be
  // written.
  [[nodiscard]] virtual bool has(std::string_view key) const = 0;
};

}  // namespace cairn::inline v0
