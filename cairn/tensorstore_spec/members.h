// members.h -- the members of an object in a spec, taken one by one, so that what nobody has asked
// for can be refused by its location.
#pragma once

#include <cairn/base/json.h>
#include <cairn/error.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::tensorstore_spec {

// Throws "spec /kvstore/path: <why>".
[[noreturn]] void refuse(const std::string& pointer, const std::string& why,
                         Code code = Code::kInvalidArgument);

// The JSON of a spec; invalid_argument for text that is none.
Json parse_spec(std::string_view text);

// Borrows the object.
class Members {
 public:
  // `pointer`: where the object is in the spec. Throws invalid_argument if it is none.
  Members(const Json& value, std::string pointer);

  // nullptr: it is not there.
  const Json* take(std::string_view name);
  const Json& require(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least,
                                      std::int64_t most = std::numeric_limits<std::int64_t>::max());
  // Resources of TensorStore's, which Cairn does not have: names or settings of caches and thread
  // pools.
  void pass_over_resources(std::initializer_list<std::string_view> names);
  // Members that mean something to TensorStore, but that Cairn cannot do.
  void reject_unsupported(std::initializer_list<std::string_view> names);
  // Throws invalid_argument for the first member that has not been taken.
  void finish() const;

  [[nodiscard]] std::string pointer(std::string_view name) const;
  [[nodiscard]] const std::string& here() const { return pointer_; }

 private:
  const Json& object_;
  std::string pointer_;
  std::vector<std::string> taken_;
};

}  // namespace cairn::tensorstore_spec
