// array_file_fuzz.h -- opens any bytes as a file of arrays and reads each one, whole and in part.
// Errors are allowed. If every array could be read whole, verification must find no damage.
#pragma once

#include <cairn/array/box.h>
#include <cairn/checkpoint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace cairn::fuzz {

// limit for one array: deflated bytes may expand a thousandfold
constexpr std::uint64_t kMostRead = std::uint64_t{1} << 20U;

// Returns whether the array could be read, whole and in part.
inline bool read_array(const Checkpoint& checkpoint, std::size_t index) {
  const TensorInfo& info = checkpoint.tensors()[index];
  if (!info.is_array() || info.nbytes > kMostRead) return false;
  try {
    Array array = Array::allocate(info.dtype, info.element_size, info.shape);
    const ReadRequest whole{index, Box::whole(info.shape), array.mutable_view()};
    checkpoint.read({&whole, 1}, {});
    Box half = whole.box;
    for (auto& n : half.shape) n -= n / 2;
    const ReadRequest part{index, half, subview(array.mutable_view(), half)};
    checkpoint.read({&part, 1}, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

using Opener = std::unique_ptr<Checkpoint> (*)(const std::string& path, const OpenOptions& options);

inline void open_and_read(Opener open, const std::uint8_t* data, std::size_t size) {
  const int fd = memfd_create("input", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const auto checkpoint =
        open("/proc/self/fd/" + std::to_string(fd), {.resources = {.threads = 1}});
    bool all = true;
    for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i)
      all = read_array(*checkpoint, i) && all;
    if (all && checkpoint->verify({}).damaged()) std::abort();
  } catch (const Error&) {  // a rejected input is fine
  }
  close(fd);
}

}  // namespace cairn::fuzz
