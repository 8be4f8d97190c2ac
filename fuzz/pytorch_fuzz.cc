// pytorch_fuzz.cc -- opens any bytes as a file of torch.save, in its zip form and in its legacy
// form, and reads each array, whole and in part.
#include "fuzz/array_file_fuzz.h"

#include <cairn/pytorch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cairn {
namespace {

// Verification also finds damage in storages of which no tensor is read.
bool is_damage_of_tensor(const Finding& finding) {
  return finding.severity == Severity::kDamage && !finding.tensor.empty();
}

void open_and_read(const std::string& path) {
  const auto checkpoint = open_pytorch(path, {.resources = {.threads = 1}});
  bool all = true;
  for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i)
    all = fuzz::read_array(*checkpoint, i) && all;
  if (all && std::ranges::any_of(checkpoint->verify({}).findings, is_damage_of_tensor))
    std::abort();
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = memfd_create("input", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    cairn::open_and_read("/proc/self/fd/" + std::to_string(fd));
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  close(fd);
  return 0;
}
