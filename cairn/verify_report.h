// verify_report.h -- what a check of stored bytes found.
#pragma once

#include <cstddef>
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

// An array with this much damage is lost; listing more helps nobody.
inline constexpr std::size_t kMostFindings = 1000;

// What was found of one array; of several processes each has looked at some of its chunks, one after the other.
struct CheckedArray {
  std::size_t tensor = 0;         // index into the checkpoint's tensors
  std::vector<Finding> findings;  // in the order of its chunks
  std::uint64_t chunks = 0, bytes = 0;
  bool unprotected = false;
  std::uint32_t crc = 0;  // of `crc_bytes` bytes, where the format has a checksum of the whole
  std::uint64_t crc_bytes = 0;
};
// What one process has found: of several the first checks what is around the arrays, each a share of the arrays.
struct VerifyPart {
  VerifyReport around;
  std::vector<CheckedArray> arrays;  // in their order; those of which it has checked something
};

}  // namespace cairn
