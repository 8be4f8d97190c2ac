// msgpack_fuzz.cc -- any bytes are refused as msgpack, or every leaf lies inside them and holds as many bytes as it says.
#include <cairn/error.h>
#include <cairn/tree/msgpack.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const auto& leaf : cairn::decode_msgpack(bytes)) {
      for (const auto piece : leaf.pieces)
        if (!piece.empty() && (piece.data() < bytes.data() || piece.data() + piece.size() > bytes.data() + size)) std::abort();
      const bool array = leaf.kind == cairn::MsgpackKind::kArray || leaf.kind == cairn::MsgpackKind::kNumpyScalar;
      if (array && leaf.nbytes() != static_cast<std::uint64_t>(cairn::element_count(leaf.shape)) * leaf.element_size) std::abort();
    }
    cairn::msgpack_tree(bytes, nullptr);
  } catch (const cairn::Error&) {  // refused: fine
  }
  return 0;
}
