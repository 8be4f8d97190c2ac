// members.h -- reads the members of an object in a spec one by one, so that unknown members can be
// refused with their location.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/error.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::tensorstore_spec {

// Throws an error "spec /kvstore/path: <why>". `pointer` is a JSON pointer into the spec.
[[noreturn]] void refuse(const std::string& pointer, const std::string& why,
                         Code code = Code::kInvalidArgument);

// Parses a spec as JSON. Throws invalid_argument for text that is not JSON.
Json parse_spec(std::string_view text);

// Reads one object of a spec. Borrows the object, which must outlive this.
class Members {
 public:
  // `pointer` is the location of the object in the spec. Throws invalid_argument if `value` is not
  // an object.
  Members(const Json& value, std::string pointer);

  // Return the member and mark it as known. take() returns null, and the optionals are empty, if
  // the member is missing; require() throws invalid_argument. All typed functions throw
  // invalid_argument for a value of another type or range.
  const Json* take(std::string_view name);
  const Json& require(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least,
                                      std::int64_t most = std::numeric_limits<std::int64_t>::max());
  // Accepts and ignores resources that TensorStore has and Cairn does not: names or settings of
  // caches and thread pools.
  void pass_over_resources(std::initializer_list<std::string_view> names);
  // Throws unimplemented for members that TensorStore supports and Cairn does not.
  void reject_unsupported(std::initializer_list<std::string_view> names);
  // Throws invalid_argument for the first member that no call has taken.
  void finish() const;

  // Returns the location of a member, for messages.
  [[nodiscard]] std::string pointer(std::string_view name) const;
  [[nodiscard]] const std::string& here() const { return pointer_; }

 private:
  const Json& object_;
  std::string pointer_;
  std::vector<std::string> taken_;
};

}  // namespace cairn::inline v0::tensorstore_spec
