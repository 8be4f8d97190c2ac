// msgpack_fuzz.cc -- decodes any bytes as msgpack. Every leaf must lie inside the input and hold as
// many bytes as its shape requires. A restored tree must round-trip.
#include <cairn/error.h>
#include <cairn/msgpack.h>
#include <cairn/tree/msgpack/msgpack.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

void check_leaves(cairn::ByteView bytes) {
  for (const auto& leaf : cairn::decode_msgpack(bytes)) {
    for (const auto piece : leaf.pieces)
      if (!piece.empty() && (piece.data() < bytes.data() ||
                             piece.data() + piece.size() > bytes.data() + bytes.size()))
        std::abort();
    const bool array =
        leaf.kind == cairn::MsgpackKind::kArray || leaf.kind == cairn::MsgpackKind::kNumpyScalar;
    if (array && leaf.nbytes() != static_cast<std::uint64_t>(cairn::element_count(leaf.shape)) *
                                      leaf.element_size)
      std::abort();
  }
}

// Types that Cairn does not interpret lose their names when read, so Cairn can read but not write
// them.
bool holds_opaque(const cairn::Tree& tree) {
  const auto leaves = cairn::flatten(tree);
  return std::any_of(leaves.begin(), leaves.end(), [](const auto& leaf) {
    const cairn::Array* array = leaf.value.array();
    return array != nullptr && array->dtype() == cairn::DType::kOpaque;
  });
}

// Compares bytes: a second restore of the same tree must write identical bytes.
void check_round_trip(cairn::ByteView bytes) {
  const cairn::MsgpackOptions options{.dialect = cairn::MsgpackDialect::kOrbax,
                                      .order = cairn::DictOrder::kBuilt};
  const cairn::Tree tree = cairn::msgpack_restore(bytes);
  if (holds_opaque(tree)) return;
  const cairn::Bytes written = cairn::msgpack_serialize(tree, options);
  if (cairn::msgpack_serialize(cairn::msgpack_restore(written), options) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    check_leaves(bytes);
  } catch (const cairn::Error&) {  // a rejected input is fine
    return 0;
  }
  check_round_trip(bytes);
  return 0;
}
