// sharding_fuzz.cc -- parses any bytes as a stored sharding. A sharding that parses must round-trip
// and place boxes inside the array.
#include <cairn/array/box.h>
#include <cairn/orbax/sharding.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

void place(const cairn::Sharding& sharding) {
  const cairn::Shape shape = {8, 0, 24, 3};
  for (std::size_t rank = 0; rank <= shape.size(); ++rank) {
    const std::span<const std::int64_t> extents(shape.data(), rank);
    try {
      for (const cairn::DeviceBox& held : cairn::device_boxes(sharding, extents))
        cairn::check_inside(held.box, extents);
    } catch (const cairn::Error& e) {
      if (e.code() == cairn::Code::kOutOfRange) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const cairn::Sharding sharding =
        cairn::parse_sharding({reinterpret_cast<const char*>(data), size});
    if (cairn::parse_sharding(cairn::sharding_json(sharding).value()) != sharding) std::abort();
    (void)cairn::sharding_text(sharding);
    (void)cairn::usable_sharding(sharding, {});
    // Every device has a box, so a hundred bytes of text can request a million boxes. Cairn would
    // make them all, but that takes too long to repeat in each run.
    const auto* named = std::get_if<cairn::NamedSharding>(&sharding);
    std::int64_t devices = 1;
    if (named != nullptr)
      for (const std::int64_t n : named->mesh.shape) devices *= n;
    if (devices <= 256) place(sharding);
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
