// verify_report.h -- what a check of stored bytes found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

enum class Severity : std::uint8_t {
  kNote,    // worth knowing: carries no checksum, orphaned file
  kDamage,  // bytes that cannot be trusted or are not there
};
struct Finding {
  Severity severity = Severity::kDamage;
  std::string tensor;        // parameter name; "" if it belongs to none
  std::string file;          // path; "" if not tied to one
  std::uint64_t offset = 0;  // in that file
  std::string message;
};
struct VerifyReport {
  std::vector<Finding> findings;
  std::uint64_t tensors = 0;             // looked at
  std::uint64_t chunks = 0;              // decoded
  std::uint64_t bytes = 0;               // read
  std::vector<std::string> unprotected;  // tensors with at least one chunk that no checksum covers

  [[nodiscard]] bool damaged() const {
    for (const auto& f : findings)
      if (f.severity == Severity::kDamage) return true;
    return false;
  }
};

}  // namespace cairn
