// Decodes B+tree nodes from untrusted bytes, both as a whole and as a body inside a valid envelope.
// A node that decodes must encode to bytes that decode to the same node, and a search must find
// every key in it.
#include <cairn/error.h>
#include <cairn/ocdbt/format/btree.h>
#include <cairn/ocdbt/format/envelope.h>

#include <cstdlib>

namespace {

void check(cairn::Bytes encoded) {
  using namespace cairn::ocdbt;
  try {
    const BtreeNode node = decode_btree_node(std::move(encoded));
    for (std::size_t i = 0; i < node.keys.size(); ++i)
      if (node.keys.lower_bound(node.keys[i]) != i || node.keys.upper_bound(node.keys[i]) != i + 1)
        std::abort();
    if (!(decode_btree_node(encode_btree_node(node, std::nullopt)) == node)) std::abort();
  } catch (const cairn::Error&) {  // most inputs should be rejected
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView input(reinterpret_cast<const std::byte*>(data), size);
  check({input.begin(), input.end()});
  check(cairn::ocdbt::seal_envelope(cairn::ocdbt::ObjectKind::kBtreeNode, input, std::nullopt));
  return 0;
}
