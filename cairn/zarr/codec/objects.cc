// objects.cc -- verifies the structure of chunks of strings and byte strings.
#include <cairn/zarr/codec/objects.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/utf8.h>
#include <cairn/error.h>

#include <string>

namespace cairn::inline v0::zarr {

void check_object_bytes(ObjectCodec codec, std::int64_t count, ByteView bytes) {
  if (codec == ObjectCodec::kNone || codec == ObjectCodec::kOther) return;
  ByteReader in(bytes);
  const std::uint32_t stored = in.u32();
  if (stored != count)
    throw Error(Code::kDataLoss, "chunk holds " + std::to_string(stored) + " elements, expected " +
                                     std::to_string(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const ByteView element = in.take(in.u32());
    if (codec == ObjectCodec::kVlenUtf8 && !valid_utf8(as_text(element)))
      throw Error(Code::kDataLoss, "element " + std::to_string(i) + " is not UTF-8");
  }
  in.finish();
}

}  // namespace cairn::inline v0::zarr
