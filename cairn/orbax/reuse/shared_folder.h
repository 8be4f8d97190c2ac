// shared_folder.h -- shares the chunks of an earlier item that stores each chunk in a file of its
// own.
#pragma once

#include <cairn/orbax/reuse/shared_values.h>

#include <optional>
#include <string_view>

namespace cairn::inline v0::orbax {

// A chunk keeps its name below the item.
class SharedFolder : public SharedValues {
 public:
  using SharedValues::SharedValues;

  [[nodiscard]] std::optional<Bytes> read(std::string_view key) const override;
  [[nodiscard]] std::optional<Location> take(std::string_view key) override;
  void add_to(ocdbt::DatabaseSink& /*sink*/) const override {}

 private:
  void give_up_value(LinkedFile& file) override;  // frees the name for the value that is written
};

}  // namespace cairn::inline v0::orbax
