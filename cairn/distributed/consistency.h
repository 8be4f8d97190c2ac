// consistency.h -- checks that all processes have the same values. Processes compare one digest.
// Only if digests differ, two processes exchange more, so that an error can name the first
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
  explicit ConsistencyCheck(std::string verb = "has") : verb_(std::move(verb)) {}

  // Adds a value. An error begins with its name.
  void add(std::string name, std::string value) {
    values_.emplace_back(std::move(name), std::move(value));
  }
  // Returns the digest of all values added so far, to be gathered in the step in which all
  // processes add theirs.
  [[nodiscard]] std::uint64_t digest() const;
  // Returns a message for check() that holds nothing but the digest.
  [[nodiscard]] Bytes message() const;
  // `messages` holds one message per process, with the digest as a u64 at byte `at`. If the digests
  // differ, meets the other processes in two steps called `step`, and throws invalid_argument that
  // names the first value in which a process differs from the primary one.
  void check(std::span<const Bytes> messages, const ProcessGroup& group, std::string_view step,
             std::size_t at = 0) const;

 private:
  using NamedValue = std::pair<std::string, std::string>;
  // Returns the digest of one value, chained to the digest of the values before it.
  static std::uint64_t digest_of(const NamedValue& value, std::uint64_t before);

  std::string verb_;
  std::vector<NamedValue> values_;
};

}  // namespace cairn::inline v0::distributed
