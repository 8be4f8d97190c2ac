// pytorch_fuzz.cc -- opens any bytes as a file of torch.save in one of its forms, and reads each
// array, whole and in part.
#include "fuzz/pytorch_file_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::fuzz::open_and_read_pytorch({reinterpret_cast<const char*>(data), size});
  return 0;
}
