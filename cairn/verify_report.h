// verify_report.h -- what a check of stored bytes found.
#pragma once

#include <cairn/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

enum class Severity : std::uint8_t {
  // worth knowing: a file that nothing refers to, a sharding of no array. No value is lost
  kNote,
  // may be whole: Cairn does not know its type or codec, or the system does not let it be read
  kNotChecked,
  kDamage,  // bytes that cannot be trusted or are not there
};
// What an error in the way of a check says about the bytes. The one place that decides it.
constexpr Severity severity_of(Code code) {
  switch (code) {
    case Code::kUnimplemented:       // an unknown codec, type or handler
    case Code::kIo:                  // no permission, too many open files, a device that fails
    case Code::kUnavailable:         // may work later
    case Code::kFailedPrecondition:  // the caller has to choose first, or the save is not finished
      return Severity::kNotChecked;
    default:
      return Severity::kDamage;
  }
}

struct Finding {
  Severity severity = Severity::kDamage;
  std::string tensor;        // parameter name; "" if it belongs to none
  std::string file;          // path; "" if not tied to one
  std::uint64_t offset = 0;  // in that file
  std::string message;
};
// What the findings say together. Exit statuses of `cairn verify` follow from it.
enum class Verdict : std::uint8_t {
  kGood,
  kNotChecked,  // nothing is known to be damaged, but not everything could be checked
  kDamaged,     // wins over kNotChecked
};

struct VerifyReport {
  // of the checkpoint: of a step root, the folder of the step that was checked
  std::string path;
  // the step's number, if a root was opened; TensorFlow's prefixes always have one
  std::optional<std::int64_t> step;
  std::vector<Finding> findings;
  std::uint64_t tensors = 0;             // looked at
  std::uint64_t chunks = 0;              // decoded
  std::uint64_t bytes = 0;               // read
  std::vector<std::string> unprotected;  // tensors with at least one chunk that no checksum covers

  [[nodiscard]] bool has(Severity severity) const {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& f) { return f.severity == severity; });
  }
  [[nodiscard]] bool damaged() const { return has(Severity::kDamage); }
  // `strict`: a note counts as damage.
  [[nodiscard]] Verdict verdict(bool strict = false) const {
    if (damaged() || (strict && has(Severity::kNote))) return Verdict::kDamaged;
    return has(Severity::kNotChecked) ? Verdict::kNotChecked : Verdict::kGood;
  }
};

// An array with this much damage is lost; listing more helps nobody.
inline constexpr std::size_t kMostFindings = 1000;

// What was found of one array; of several processes each has looked at some of its chunks, one
// after the other.
struct CheckedArray {
  std::size_t tensor = 0;         // index into the checkpoint's tensors
  std::vector<Finding> findings;  // in the order of its chunks
  std::uint64_t chunks = 0, bytes = 0;
  bool unprotected = false;
  std::uint32_t crc = 0;  // of `crc_bytes` bytes, where the format has a checksum of the whole
  std::uint64_t crc_bytes = 0;
};
// What one process has found: of several the first checks what is around the arrays, each a share
// of the arrays.
struct VerifyPart {
  VerifyReport around;
  std::vector<CheckedArray> arrays;  // in their order; those of which it has checked something
};

}  // namespace cairn
