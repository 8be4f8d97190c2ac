// npz_fuzz.cc -- opens any bytes as an npz archive and reads each array, whole and in part; names
// the formats that Cairn does not read, two of which are zip files.
#include "fuzz/array_file_fuzz.h"

#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/npz/npy_header.h>
#include <cairn/npz.h>

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    (void)cairn::decode_npy_header(bytes);
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  (void)cairn::foreign_content(bytes, bytes.size());
  cairn::fuzz::open_and_read(cairn::open_npz, data, size);
  return 0;
}
