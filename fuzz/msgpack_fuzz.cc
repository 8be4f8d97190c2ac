// msgpack_fuzz.cc -- decodes any bytes as msgpack. Every leaf must lie inside the input and hold as
// many bytes as its shape requires. A restored tree must round-trip.
#include <cairn/error.h>
#include <cairn/msgpack.h>
#include <cairn/tree/msgpack/array_specs.h>
#include <cairn/tree/msgpack/msgpack.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

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

// The folders that T5X's specs name lie below the checkpoint.
void check_specs(cairn::ByteView bytes) {
  cairn::Tree parsed = cairn::parse_msgpack(bytes);
  try {
    for (const auto& array : cairn::take_array_specs(parsed))
      if (array.folder.empty() || array.folder.starts_with('/') || array.folder == ".." ||
          array.folder.starts_with("../") || array.folder.find("/../") != std::string::npos)
        std::abort();
  } catch (const cairn::Error&) {  // a rejected spec is fine
  }
}

// Compares bytes: a second restore of the same tree must write identical bytes.
void check_round_trip(cairn::ByteView bytes) {
  const cairn::MsgpackOptions options{.dialect = cairn::MsgpackDialect::kOrbax,
                                      .order = cairn::DictOrder::kBuilt};
  const cairn::Tree tree = cairn::msgpack_restore(bytes);
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
  check_specs(bytes);
  try {
    check_round_trip(bytes);
  } catch (const cairn::Error& e) {  // arrays of types that only a listing can show
    if (e.code() != cairn::Code::kUnimplemented) throw;
  }
  return 0;
}
