// pytorch_file_fuzz.h -- opens any bytes as a file of torch.save, and reads each array, whole and
// in part.
#pragma once

#include "fuzz/array_file_fuzz.h"

#include <cairn/pytorch.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace cairn::fuzz {

// Verification also finds damage in storages of which no tensor is read.
inline bool is_damage_of_tensor(const Finding& finding) {
  return finding.severity == Severity::kDamage && !finding.tensor.empty();
}

inline void open_and_read_pytorch(std::string_view bytes) {
  const int fd = memfd_create("input", MFD_CLOEXEC);
  if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  try {
    const auto checkpoint =
        open_pytorch("/proc/self/fd/" + std::to_string(fd), {.resources = {.threads = 1}});
    bool all = true;
    for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i)
      all = read_array(*checkpoint, i) && all;
    if (all && std::ranges::any_of(checkpoint->verify({}).findings, is_damage_of_tensor))
      std::abort();
  } catch (const Error&) {  // a rejected input is fine
  }
  close(fd);
}

}  // namespace cairn::fuzz
