// pytorch_fuzz.cc -- opens any bytes as a file of torch.save, in its zip form and in its legacy
// form, and reads each array, whole and in part.
#include "fuzz/array_file_fuzz.h"

#include <cairn/pytorch.h>

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::fuzz::open_and_read(cairn::open_pytorch, data, size);
  return 0;
}
