// verify_report.h -- the result of a check of stored bytes.
#pragma once

#include <cairn/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Severity of a finding.
enum class Severity : std::uint8_t {
  // Noteworthy, without loss of a value: an unreferenced file, a sharding without its array.
  kNote,
  // The bytes may be intact: Cairn does not know the type or codec, or the system does not allow a
  // read.
  kNotChecked,
  kDamage,  // bytes are missing or cannot be trusted
};
// Severity of an error that prevents a check. All checks use this function.
constexpr Severity severity_of(Code code) {
  switch (code) {
    case Code::kUnimplemented:  // an unknown codec, type or handler
    case Code::kIo:             // no permission, too many open files, a failing device
    case Code::kUnavailable:    // may succeed later
    case Code::kCancelled:
    case Code::kDeadlineExceeded:
    case Code::kFailedPrecondition:  // the caller must choose first, or the save is unfinished
      return Severity::kNotChecked;
    default:
      return Severity::kDamage;
  }
}

// One result of a check.
struct Finding {
  Severity severity = Severity::kDamage;
  std::string tensor;        // parameter name; "" if it concerns no single tensor
  std::string file;          // path; "" if it concerns no single file
  std::uint64_t offset = 0;  // byte offset in that file
  std::string message;       // text for people
};
// Summary of the findings. It determines the exit status of `cairn verify`.
enum class Verdict : std::uint8_t {
  kGood,
  kNotChecked,  // no damage found, but not everything could be checked
  kDamaged,     // takes precedence over kNotChecked
};

// The result of verifying one checkpoint.
struct VerifyReport {
  // Path of the checkpoint; for a step root, the folder of the checked step.
  std::string path;
  // Step number, if a step root was opened; always set for TensorFlow prefixes.
  std::optional<std::int64_t> step;
  std::vector<Finding> findings;
  std::uint64_t tensors = 0;  // number of tensors checked
  std::uint64_t chunks = 0;   // number of chunks decoded
  std::uint64_t bytes = 0;    // bytes read
  double seconds = 0;         // duration of the check
  // names of tensors with at least one chunk that no checksum covers
  std::vector<std::string> unprotected;

  // Whether there is a finding of this severity.
  [[nodiscard]] bool has(Severity severity) const {
    for (const Finding& finding : findings)
      if (finding.severity == severity) return true;
    return false;
  }
  [[nodiscard]] bool damaged() const { return has(Severity::kDamage); }
  // `strict`: a note counts as damage.
  [[nodiscard]] Verdict verdict(bool strict = false) const {
    if (damaged() || (strict && has(Severity::kNote))) return Verdict::kDamaged;
    return has(Severity::kNotChecked) ? Verdict::kNotChecked : Verdict::kGood;
  }
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
