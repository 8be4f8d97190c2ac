// Decodes version nodes from untrusted bytes, both as a whole and as a body inside a valid
// envelope. A node that decodes must encode to bytes that decode to the same node.
#include <cairn/error.h>
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/ocdbt/format/version_tree.h>

#include <cstdlib>

namespace {

void check(cairn::Bytes encoded) {
  using namespace cairn::ocdbt;
  try {
    const VersionNode node = decode_version_node(std::move(encoded));
    if (decode_version_node(encode_version_node(node, std::nullopt)) != node) std::abort();
  } catch (const cairn::Error&) {  // most inputs should be rejected
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView input(reinterpret_cast<const std::byte*>(data), size);
  check({input.begin(), input.end()});
  check(cairn::ocdbt::seal_envelope(cairn::ocdbt::ObjectKind::kVersionNode, input, std::nullopt));
  return 0;
}
