// value_streams.cc -- opens, keeps and reuses the decoders of large values.
#include <cairn/zarr/read/value_streams.h>

#include <cairn/error.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kMostKept = 4;  // decoders: each holds a window of some megabytes

}  // namespace

bool can_stream(const CodecChain& chain) {
  return !chain.shard && chain.steps.size() == 1 && is_zstd(chain.steps[0]);
}

bool too_large(const CodecChain& chain, const ByteBudget* budget) {
  return budget != nullptr && chain.nbytes > budget->limit() / 2;
}

std::unique_ptr<ZstdStream> open_value_stream(const StreamedValue& value,
                                              std::shared_ptr<const File> file) {
  std::uint64_t at = value.offset;
  const std::uint64_t end = value.offset + value.length;
  return ZstdStream::open(
      [file = std::move(file), at, end](MutableByteView piece) mutable {
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), end - at));
        file->read_into(at, piece.first(n));
        at += n;
        return n;
      },
      value.length, value.nbytes);
}

std::unique_ptr<ZstdStream> ValueStreams::find(const StreamedValue& value, std::uint64_t begin) {
  const std::lock_guard lock(mutex_);
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (!(it->value == value) || it->stream->position() > begin) continue;
    if (best == kept_.end() || best->stream->position() < it->stream->position()) best = it;
  }
  if (best == kept_.end()) return nullptr;
  auto stream = std::move(best->stream);
  kept_.erase(best);
  return stream;
}

std::unique_ptr<ZstdStream> ValueStreams::take(const StreamedValue& value, const OpenFileFn& open,
                                               std::uint64_t begin, IfChecksum policy) {
  auto stream = find(value, begin);
  if (!stream) {
    stream = open_value_stream(value, open());
    if (stream && stream->has_checksum()) {
      if (policy == IfChecksum::kRefuse) return nullptr;
      stream->skip(value.nbytes);
      stream = open_value_stream(value, open());
    }
  }
  if (stream) stream->skip(begin - stream->position());
  return stream;
}

void ValueStreams::keep(const StreamedValue& value, std::unique_ptr<ZstdStream> stream) {
  if (stream->position() == value.nbytes) return;
  const std::lock_guard lock(mutex_);
  if (kept_.size() == kMostKept) kept_.pop_front();
  kept_.push_back({value, std::move(stream)});
}

}  // namespace cairn::inline v0::zarr
