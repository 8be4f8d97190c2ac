// npz_fuzz.cc -- opens any bytes as an npz archive and reads each array, whole and in part; names
// the formats that Cairn does not read, two of which are zip files. Errors
// are allowed. If every array could be read whole, verification must find no damage.
#include <cairn/array/box.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/npz/npy_header.h>
#include <cairn/npz.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

// limit for one array: deflated bytes may expand a thousandfold
constexpr std::uint64_t kMostRead = std::uint64_t{1} << 20U;

// Returns whether the array could be read, whole and in part.
bool read_array(const cairn::Checkpoint& checkpoint, std::size_t index) {
  const cairn::TensorInfo& info = checkpoint.tensors()[index];
  if (!info.is_array() || info.nbytes > kMostRead) return false;
  try {
    cairn::Array array = cairn::Array::allocate(info.dtype, info.element_size, info.shape);
    const cairn::ReadRequest whole{index, cairn::Box::whole(info.shape), array.mutable_view()};
    checkpoint.read({&whole, 1}, {});
    cairn::Box half = whole.box;
    for (auto& n : half.shape) n -= n / 2;
    const cairn::ReadRequest part{index, half, cairn::subview(array.mutable_view(), half)};
    checkpoint.read({&part, 1}, {});
    return true;
  } catch (const cairn::Error&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    (void)cairn::decode_npy_header(bytes);
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  (void)cairn::foreign_content(bytes, bytes.size());
  const int fd = memfd_create("npz", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const auto checkpoint =
        cairn::open_npz("/proc/self/fd/" + std::to_string(fd), {.resources = {.threads = 1}});
    bool all = true;
    for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i)
      all = read_array(*checkpoint, i) && all;
    if (all && checkpoint->verify({}).damaged()) std::abort();
  } catch (const cairn::Error&) {
  }
  close(fd);
  return 0;
}
