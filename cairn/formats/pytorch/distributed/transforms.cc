#include <cairn/formats/pytorch/distributed/transforms.h>

#include <cairn/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::string_view kZstd = "stream.zstd";
// Each takes the memory of a decoder.
constexpr std::size_t kMostTransforms = 4;

// PyTorch, too, looks only at the first number of the version.
bool is_zstd_1(std::string_view descriptor) {
  const std::size_t slash = descriptor.find('/');
  if (slash == std::string_view::npos || descriptor.substr(0, slash) != kZstd) return false;
  const std::string_view version = descriptor.substr(slash + 1);
  return version.substr(0, version.find('.')) == "1";
}

}  // namespace

std::string transforms_text(const Transforms& transforms) {
  return fmt::format("{}", fmt::join(transforms, ", "));
}

void check_transforms(const Transforms& transforms) {
  if (!std::ranges::all_of(transforms, is_zstd_1))
    throw Error(Code::kUnimplemented,
                fmt::format("its bytes are transformed ({}); Cairn reads stream.zstd/1",
                            transforms_text(transforms)));
  if (transforms.size() > kMostTransforms)
    throw Error(Code::kUnimplemented,
                fmt::format("its bytes went through {} transforms; Cairn undoes up to {}",
                            transforms.size(), kMostTransforms));
}

std::vector<std::shared_ptr<ByteStream>> undo_transforms(const Transforms& transforms,
                                                         ByteSource source,
                                                         std::uint64_t encoded_size) {
  check_transforms(transforms);
  std::vector<std::shared_ptr<ByteStream>> streams;
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    std::shared_ptr<ByteStream> stream =
        open_decompressor(Codec::kZstd, std::move(source), encoded_size);
    if (!stream)
      throw Error(Code::kUnimplemented, "its zstd frame has a window of more than 128 MiB");
    source = [stream](MutableByteView out) { return stream->read(out); };
    encoded_size = kUnknownSize;
    streams.push_back(std::move(stream));
  }
  return streams;
}

}  // namespace cairn::inline v0::pytorch
