// consistency.h -- what all processes must mean alike, in one number, because there is much of it;
// only where they do not, two of them say more, so that the first difference can be named.
#pragma once

#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::distributed {

class Consent {
 public:
  // `verb`: what a process does with what is added, for messages.
  explicit Consent(std::string verb = "means") : verb_(std::move(verb)) {}

  void add(std::string name, std::string meaning) {
    meant_.emplace_back(std::move(name), std::move(meaning));
  }
  // For the step in which all have added theirs.
  [[nodiscard]] std::uint64_t digest() const;
  // `digests`: of all processes. If they differ, meets the others again, in two steps `name`, and
  // throws invalid_argument, naming what a process means otherwise than process 0.
  void check(std::span<const std::uint64_t> digests, const ProcessGroup& group,
             std::string_view name) const;

 private:
  using Meant = std::pair<std::string, std::string>;
  static std::uint64_t digest_of(const Meant& meant, std::uint64_t before);

  std::string verb_;
  std::vector<Meant> meant_;
};

}  // namespace cairn::distributed
