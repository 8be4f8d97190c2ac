// checkpoint_state_fuzz.cc -- parses any text as the file that names the latest checkpoint. A state
// that parses must round-trip.
#include <cairn/formats/tensorflow/index/checkpoint_state.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = cairn::parse_checkpoint_state({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) {
    if (parsed.error().code() != cairn::Code::kDataLoss) std::abort();
    return 0;
  }
  const cairn::CheckpointState& state = parsed.value();
  const std::string text = encode_checkpoint_state(state);
  const auto again = cairn::parse_checkpoint_state(text);
  if (!again.ok() || encode_checkpoint_state(again.value()) != text) std::abort();
  return 0;
}
