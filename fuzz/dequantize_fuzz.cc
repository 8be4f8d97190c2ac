// dequantize_fuzz.cc -- opens any bytes as a safetensors file and dequantises it: every weight is
// read whole and in small pieces, which must be the same. Bytes that begin with '{' are parsed as a
// config.json.
#include <cairn/convert.h>
#include <cairn/error.h>
#include <cairn/safetensors.h>
#include <cairn/tools/dequantize/model_config.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace {

using cairn::Array;
using cairn::Checkpoint;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20U;  // of a weight that is read

std::unique_ptr<Checkpoint> dequantized(const std::string& path, std::uint64_t memory) {
  const cairn::Resources resources{.threads = 1, .memory = memory};
  return cairn::dequantize(cairn::open_safetensors(path, {.resources = {.threads = 1}}),
                           {.resources = resources})
      .checkpoint;
}

void read_weights(const std::string& path) {
  const auto whole = dequantized(path, kMostBytes);
  const auto pieces = dequantized(path, 64);
  for (const cairn::TensorInfo& tensor : whole->tensors()) {
    if (!tensor.is_array() || !tensor.error.empty() || tensor.nbytes > kMostBytes) continue;
    const Array a = whole->read(tensor.full_name());
    const Array b = pieces->read(tensor.full_name());
    if (!(a == b)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    if (size > 0 && data[0] == '{') {
      (void)cairn::parse_model_config({reinterpret_cast<const char*>(data), size});
      return 0;
    }
  } catch (const cairn::Error&) {  // a rejected input is fine
    return 0;
  }
  const int fd = memfd_create("input", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    read_weights("/proc/self/fd/" + std::to_string(fd));
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  close(fd);
  return 0;
}
