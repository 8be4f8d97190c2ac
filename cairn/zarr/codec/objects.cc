// objects.cc -- decodes chunks of strings and byte strings.
#include <cairn/zarr/codec/objects.h>

#include <cairn/array/box.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/git_lfs.h>
#include <cairn/base/utf8.h>
#include <cairn/error.h>

#include <algorithm>
#include <string>

namespace cairn::inline v0::zarr {
namespace {

// limit for the decoded bytes; a larger working memory raises it
constexpr std::uint64_t kMostObjects = std::uint64_t{1} << 30U;

// limit for the stored bytes of a chunk
constexpr std::uint64_t kMostEncodedObjects = std::uint64_t{1} << 27U;

}  // namespace

void for_each_object(ObjectCodec codec, std::int64_t count, ByteView bytes, const ObjectFn& visit) {
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
    visit(element);
  }
  in.finish();
}

std::uint64_t most_object_bytes(std::uint64_t memory) { return std::max(memory, kMostObjects); }

void check_objects_size(std::uint64_t length) {
  if (length <= kMostEncodedObjects) return;
  throw Error(Code::kUnimplemented,
              std::to_string(length) + " bytes of strings or objects are too many for one chunk");
}

bool decode_objects(const CodecChain& chain, ByteView stored, std::uint64_t most,
                    const ObjectFn& visit) {
  return explain_lfs_pointer(stored, [&] {
    Bytes owned;
    const DecodedBytes objects = decode_unsized(chain.steps, stored, most, owned);
    for_each_object(chain.objects, element_count(chain.shape), objects.bytes, visit);
    return objects.checksummed;
  });
}

}  // namespace cairn::inline v0::zarr
