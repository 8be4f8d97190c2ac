// zarr_json_fuzz.cc -- Zarr v3 metadata; an array that parses is also read and verified against a
// few odd chunks.
#include <fuzz/zarr_fuzz.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return cairn::zarr::fuzz_metadata("zarr.json", data, size);
}
