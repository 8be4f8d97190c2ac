// pytorch_tar_fuzz.cc -- opens any bytes as the members of a file in the tar form of torch.save.
// The headers around them are right: no mutation finds their checksums.
//
//   u16 bytes of `pickle`, u16 bytes of `tensors`, then `pickle`, `tensors` and `storages`
#include "fuzz/pytorch_file_fuzz.h"
#include "tests/support/tar.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  if (size < 4) return 0;
  const auto next = [&](std::size_t wanted) {
    const std::string_view part = rest.substr(0, wanted);
    rest.remove_prefix(part.size());
    return std::string(part);
  };
  const auto length = [&](std::size_t at) { return std::size_t{data[at]} | data[at + 1] << 8U; };
  next(4);
  std::string archive = cairn::testing::tar_member("pickle", next(length(0)));
  archive += cairn::testing::tar_member("tensors", next(length(2)));
  archive += cairn::testing::tar_member("storages", rest) + cairn::testing::tar_end();
  cairn::fuzz::open_and_read_pytorch(archive);
  return 0;
}
