// verifiable_checkpoint.cc -- merges the findings of all processes.
#include <cairn/tree/verifiable_checkpoint.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace cairn::inline v0 {

VerifyReport VerifiableCheckpoint::verify(const ProgressFn& progress) const {
  std::vector<VerifyPart> parts;
  parts.push_back(verify_part({}, progress));
  return join_verified(std::move(parts));
}

VerifyReport VerifiableCheckpoint::join_verified(std::vector<VerifyPart> parts) const {
  VerifyReport report = std::move(parts.front().around);
  std::vector<CheckedArray> arrays;  // each once
  for (VerifyPart& part : parts)
    for (CheckedArray& array : part.arrays) {
      if (arrays.empty() || arrays.back().tensor != array.tensor) {
        arrays.push_back(std::move(array));
        continue;
      }
      std::move(array.findings.begin(), array.findings.end(),
                std::back_inserter(arrays.back().findings));
      arrays.back().chunks += array.chunks;
      arrays.back().bytes += array.bytes;
      arrays.back().unprotected = arrays.back().unprotected || array.unprotected;
    }
  for (CheckedArray& array : arrays) {
    const std::size_t listed = std::min(array.findings.size(), kMostFindings);
    std::move(array.findings.begin(), array.findings.begin() + static_cast<std::ptrdiff_t>(listed),
              std::back_inserter(report.findings));
    report.chunks += array.chunks;
    report.bytes += array.bytes;
    if (array.unprotected) report.unprotected.push_back(tensors()[array.tensor].full_name());
  }
  return report;
}

}  // namespace cairn::inline v0
