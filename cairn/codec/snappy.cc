// snappy.cc -- snappy: blocks that begin with the decoded size.
#include <cairn/codec/codecs.h>
#include <snappy.h>

#include <string>

namespace cairn::inline v0 {
namespace {

// Three bytes copy at most 64, so a larger claimed expansion is damage.
constexpr std::uint64_t kMostPerByte = 22;

[[noreturn]] void fail(const std::string& what) {
  throw Error(Code::kDataLoss, "snappy data: " + what);
}

}  // namespace

std::string codec::snappy_version() {
  return std::to_string(SNAPPY_MAJOR) + "." + std::to_string(SNAPPY_MINOR) + "." +
         std::to_string(SNAPPY_PATCHLEVEL);
}

Bytes decompress_snappy(ByteView in, std::uint64_t max_size) {
  const auto* data = reinterpret_cast<const char*>(in.data());
  std::size_t size = 0;
  if (!snappy::GetUncompressedLength(data, in.size(), &size)) fail("has no size");
  if (size > max_size)
    fail("decodes to more than the expected " + std::to_string(max_size) + " bytes");
  if (size > kMostPerByte * in.size())
    fail(std::to_string(in.size()) + " bytes cannot decode to the " + std::to_string(size) +
         " they claim");
  Bytes out(size);
  if (!snappy::RawUncompress(data, in.size(), reinterpret_cast<char*>(out.data())))
    fail("is damaged");
  return out;
}

}  // namespace cairn::inline v0
