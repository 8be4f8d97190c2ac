// torch_checkpointing_fuzz.cc -- parses any bytes as the metadata of torch_checkpointing, and finds
// the parts of all ranks.
#include <cairn/error.h>
#include <cairn/formats/pytorch/torch_checkpointing/metadata.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

namespace checkpointing = cairn::pytorch::torch_checkpointing;

void check_inside(const cairn::Box& box, const cairn::Shape& shape) {
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (box.origin[d] < 0 || box.shape[d] < 0 || box.origin[d] > shape[d] ||
        box.shape[d] > shape[d] - box.origin[d])
      std::abort();
}

// The parts of each rank lie inside the tensor.
void check(const checkpointing::Division& division) {
  for (const std::uint64_t rank : division.mesh_ranks)
    check_inside(checkpointing::box_of_rank(division, rank), division.shape);
  if (!division.parts) return;
  for (const checkpointing::LocalPart& part : *division.parts) {
    if (part.local.size() != division.shape.size()) std::abort();
    check_inside(part.box, division.shape);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* first = reinterpret_cast<const std::byte*>(data);
  try {
    const auto metadata = checkpointing::parse_metadata(
        cairn::pickle::parse_pickle(cairn::Bytes(first, first + size)));
    for (const checkpointing::Item& item : metadata.items)
      for (const checkpointing::DividedTensor& tensor : item.tensors)
        for (const checkpointing::Division& division : tensor.divisions) check(division);
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
