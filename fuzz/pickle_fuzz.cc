// pickle_fuzz.cc -- parses any bytes as a file with pickles, and prints what it finds. Neither may
// take more than a bound of memory.
#include <cairn/error.h>
#include <cairn/formats/pytorch/file/pickled_file.h>
#include <cairn/tools/inspect/pickle_json.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const cairn::PickledFile found =
        cairn::read_pickles(size, [&](std::uint64_t at, cairn::MutableByteView out) {
          if (at > size || out.size() > size - at) std::abort();
          std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
        });
    for (const cairn::FoundPickle& one : found.pickles) {
      if (one.pickle.root() >= one.pickle.size()) std::abort();
      (void)cairn::to_text(cairn::pickle_json(one.pickle));
    }
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
