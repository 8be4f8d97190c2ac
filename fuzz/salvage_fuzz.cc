// salvage_fuzz.cc -- reads any bytes as what is left of a damaged file. The first byte chooses: 'z'
// a zip archive without its directory, 's' the header of a safetensors file, 't' an index of a
// TensorFlow checkpoint, else msgpack. What is found must lie inside the bytes, or the tensor.
#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/formats/tensorflow/index/bundle_remains.h>
#include <cairn/formats/zip/zip_scan.h>
#include <cairn/tree/msgpack/msgpack.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

void scan_archive(cairn::ByteView bytes) {
  const auto read = [&](std::uint64_t offset, cairn::MutableByteView out) {
    if (offset > bytes.size() || out.size() > bytes.size() - offset) std::abort();
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
  };
  for (const cairn::ZipMember& member : cairn::scan_zip(bytes.size(), read).members)
    if (member.offset > bytes.size() || member.stored > bytes.size() - member.offset) std::abort();
}

void read_header(cairn::ByteView bytes) {
  // The end of the file is missing: it was twice as long.
  for (const std::uint64_t size : {bytes.size(), 2 * bytes.size()})
    for (const auto& tensor : cairn::decode_safetensors_remains(bytes, size).header.tensors)
      if (tensor.begin > tensor.end) std::abort();
}

void read_bundle(cairn::ByteView bytes) {
  const auto read = [&](std::uint64_t offset, cairn::MutableByteView out) {
    if (offset > bytes.size() || out.size() > bytes.size() - offset) std::abort();
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
  };
  cairn::BundleRemains remains = cairn::read_bundle_remains(bytes.size(), read);
  const cairn::BundleHeader header = remains.header.value_or(cairn::BundleHeader{.shards = 2});
  const auto index = cairn::check_bundle_remains(header, std::move(remains));
  for (std::size_t i = 0; i < index.tensors.size(); ++i) {
    const cairn::BundleTensor& tensor = index.tensors[i];
    if (i > 0 && tensor.name <= index.tensors[i - 1].name) std::abort();
    for (const cairn::BundlePart& part : tensor.parts)
      cairn::check_inside(part.box, tensor.entry.shape);
    for (const cairn::Box& box : tensor.lost_slices) cairn::check_inside(box, tensor.entry.shape);
  }
}

void read_msgpack(cairn::ByteView bytes) {
  cairn::MsgpackInput input;
  input.lost = [](const cairn::KeyPath&, const std::string& why) {
    if (why.empty()) std::abort();
  };
  const auto parsed = cairn::parse_msgpack(bytes, input);
  cairn::list_msgpack_leaves(parsed, bytes.size(), [&](const cairn::MsgpackLeaf& leaf) {
    for (const auto piece : leaf.pieces)
      if (!piece.empty() && (piece.data() < bytes.data() ||
                             piece.data() + piece.size() > bytes.data() + bytes.size()))
        std::abort();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  try {
    if (data[0] == 'z')
      scan_archive(bytes);
    else if (data[0] == 's')
      read_header(bytes);
    else if (data[0] == 't')
      read_bundle(bytes);
    else
      read_msgpack(bytes);
  } catch (const cairn::Error&) {  // nothing is left
  }
  return 0;
}
