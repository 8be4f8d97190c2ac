// consistency.h -- checks that all processes agree on their arguments. Processes compare one
// digest. Only if digests differ, two processes exchange more, so that an error can name the first
// difference.
#pragma once

#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::distributed {

// A list of named values that must be equal in all processes.
class ConsistencyCheck {
 public:
  // `verb` says what a process does with the values; it appears in messages.
  explicit ConsistencyCheck(std::string verb = "means") : verb_(std::move(verb)) {}

  // Adds a value under a name.
  void add(std::string name, std::string meaning) {
    meant_.emplace_back(std::move(name), std::move(meaning));
  }
  // Returns the digest of all values added so far. The caller gathers it in the step in which all
  // processes have added theirs.
  [[nodiscard]] std::uint64_t digest() const;
  // `digests` holds one digest per process. If they differ, meets the other processes in two steps
  // called `name`, and throws invalid_argument that names the value in which a process differs from
  // process 0.
  void check(std::span<const std::uint64_t> digests, const ProcessGroup& group,
             std::string_view name) const;

 private:
  // The name and the value.
  using Meant = std::pair<std::string, std::string>;
  // Returns the digest of one value, chained to the digest of the values before it.
  static std::uint64_t digest_of(const Meant& meant, std::uint64_t before);

  std::string verb_;
  std::vector<Meant> meant_;
};

}  // namespace cairn::inline v0::distributed
