// Decodes manifests from untrusted bytes, both as a whole and as a body inside a valid envelope. A
// manifest that decodes must encode to bytes that decode to the same manifest.
#include <cairn/error.h>
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/ocdbt/format/manifest.h>

#include <cstdlib>

namespace {

void check(cairn::Bytes encoded) {
  using namespace cairn::ocdbt;
  try {
    const Manifest manifest = decode_manifest(std::move(encoded));
    if (decode_manifest(encode_manifest(manifest)) != manifest) std::abort();
  } catch (const cairn::Error&) {  // most inputs should be rejected
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cairn::ByteView input(reinterpret_cast<const std::byte*>(data), size);
  check({input.begin(), input.end()});
  check(cairn::ocdbt::seal_envelope(cairn::ocdbt::ObjectKind::kManifest, input, std::nullopt));
  return 0;
}
