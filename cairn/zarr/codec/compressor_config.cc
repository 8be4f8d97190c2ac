// compressor_config.cc -- parses the options of the compressors, such as levels and shuffles.

#include <cairn/zarr/codec/compressor_config.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

namespace cairn::inline v0::zarr {
namespace {

int integer_or(const Json& config, std::string_view member, int otherwise) {
  const Json* value = config.find(member);
  const auto number = value ? value->as_int64(true) : std::nullopt;
  constexpr std::int64_t kLargest = std::int64_t{1} << 30U;
  return number && *number <= kLargest && *number >= -kLargest ? static_cast<int>(*number)
                                                               : otherwise;
}

CompressStep levelled(Codec codec, const Json& config) {
  const Json* checksum = config.find("checksum");
  const bool* flag = checksum ? checksum->as_bool() : nullptr;
  return {
      .codec = codec,
      .options = {.level = integer_or(config, "level", 1), .checksum = flag != nullptr && *flag}};
}

// v2 stores the shuffle as a number, v3 as a name.
BloscShuffle parse_shuffle(const Json& config) {
  constexpr std::string_view kNames[] = {"noshuffle", "shuffle", "bitshuffle"};
  constexpr BloscShuffle kShuffles[] = {BloscShuffle::kNone, BloscShuffle::kBytes,
                                        BloscShuffle::kBits};
  const Json* value = config.find("shuffle");
  const std::string* name = value ? value->as_string() : nullptr;
  const auto number = value ? value->as_int64(true) : std::nullopt;
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if ((name && *name == kNames[i]) || number == static_cast<std::int64_t>(i)) return kShuffles[i];
  return BloscShuffle::kAuto;
}

CompressStep parse_blosc(const Json& config) {
  const Json* cname = config.find("cname");
  const auto inner =
      cname && cname->as_string() ? blosc_inner_from_name(*cname->as_string()) : std::nullopt;
  const auto size = [&](std::string_view member) {
    return static_cast<std::size_t>(std::max(integer_or(config, member, 0), 0));
  };
  const BloscOptions blosc{.inner = inner.value_or(BloscInner::kLz4),
                           .shuffle = parse_shuffle(config),
                           .type_size = size("typesize"),
                           .block_size = size("blocksize")};
  return {.codec = Codec::kBlosc,
          .options = {.level = integer_or(config, "clevel", 5), .checksum = false, .blosc = blosc}};
}

}  // namespace

std::optional<CompressStep> parse_compressor(std::string_view id, const Json& config) {
  if (id == "zstd") return levelled(Codec::kZstd, config);
  if (id == "blosc") return parse_blosc(config);
  if (id == "gzip") return levelled(Codec::kGzip, config);
  if (id == "zlib") return levelled(Codec::kZlib, config);
  if (id == "bz2") return levelled(Codec::kBz2, config);
  if (id == "lz4")
    return CompressStep{.codec = Codec::kLz4,
                        .options = {.level = integer_or(config, "acceleration", 1)}};
  return std::nullopt;
}

}  // namespace cairn::inline v0::zarr
