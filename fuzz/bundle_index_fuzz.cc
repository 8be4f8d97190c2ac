// bundle_index_fuzz.cc -- parses any bytes as the header or as an entry of a TensorFlow index. A
// message that parses must round-trip, and an index with it must describe only slices inside their
// tensors. The first byte chooses between header and entry.
#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "tests/formats/raw/raw_table.h"

namespace {

using cairn::ByteView;

template <class Message>
void check_same(const Message& message, Message (*parse)(ByteView),
                cairn::Bytes (*encode)(const Message&)) {
  if (parse(encode(message)) != message) std::abort();
}

void check_index(const cairn::Bytes& table) {
  for (const cairn::BundleTensor& tensor :
       cairn::read_bundle_index(table.size(), cairn::testing::reader_of(table)).tensors)
    for (const cairn::BundlePart& part : tensor.parts)
      cairn::check_inside(part.box, tensor.entry.shape);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ByteView bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  cairn::Bytes header = cairn::encode_bundle_header({.shards = 2, .producer = 1});
  try {
    if (data[0] % 2 == 0) {
      check_same(cairn::parse_bundle_header(bytes), cairn::parse_bundle_header,
                 cairn::encode_bundle_header);
      header.assign(bytes.begin(), bytes.end());
      check_index(cairn::testing::table_of({{"", header}}));
    } else {
      const cairn::BundleEntry entry = cairn::parse_bundle_entry(bytes);
      check_same(entry, cairn::parse_bundle_entry, cairn::encode_bundle_entry);
      check_index(cairn::testing::table_of(
          {{"", header}, {"k", cairn::Bytes(bytes.begin(), bytes.end())}}));
    }
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
