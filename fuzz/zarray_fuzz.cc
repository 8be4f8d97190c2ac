// zarray_fuzz.cc -- parses Zarr v2 metadata. If an array parses, the target also reads and verifies
// it, numbers or strings, with the rest of the input as its first chunk.
#include <fuzz/zarr_fuzz.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return cairn::zarr::fuzz_metadata(".zarray", data, size);
}
