// compression_text.cc -- parses a method of compression as people write it.
#include <cairn/compression.h>
#include <cairn/error.h>

#include <charconv>

namespace cairn::inline v0 {
namespace {

constexpr int kMostZstd = 19;
constexpr int kMostBlosc = 9;

std::optional<int> level_in(std::string_view digits, int least, int most) {
  int level = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, level);
  if (parsed.ec != std::errc() || parsed.ptr != end || level < least || level > most)
    return std::nullopt;
  return level;
}

}  // namespace

Compression compression_from_text(std::string_view text) {
  if (text == "auto") return Compression::kAuto;
  if (text == "reproducible") return Compression::kReproducible;
  if (text == "smallest") return Compression::kSmallest;
  if (text == "none") return Compression::kNone;
  if (text == "zstd") return Compression::zstd(1);
  if (text == "blosc") return Compression::blosc();
  constexpr std::string_view kZstd = "zstd:";
  constexpr std::string_view kBlosc = "blosc:";
  if (text.starts_with(kZstd))
    if (const auto level = level_in(text.substr(kZstd.size()), 1, kMostZstd))
      return Compression::zstd(*level);
  if (text.starts_with(kBlosc))
    if (const auto level = level_in(text.substr(kBlosc.size()), 0, kMostBlosc))
      return Compression::blosc(*level);
  throw Error(Code::kInvalidArgument,
              "'" + std::string(text) +
                  "' is not one of auto, reproducible, smallest, none, zstd, zstd:1 to zstd:19, "
                  "blosc, and blosc:0 to blosc:9");
}

}  // namespace cairn::inline v0
