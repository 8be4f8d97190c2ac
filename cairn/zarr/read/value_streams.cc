// value_streams.cc -- opens, keeps and reuses the decoders of large values.
#include <cairn/zarr/read/value_streams.h>

#include <cairn/error.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kMostKept = 4;       // decoders: each holds a window of some megabytes
constexpr std::size_t kMostVerified = 64;  // values whose checksum was verified

}  // namespace

EncodedValue value_in_file(const StreamedValue& value, std::shared_ptr<const File> file) {
  std::uint64_t at = value.offset;
  const std::uint64_t end = value.offset + value.length;
  return {.source =
              [file = std::move(file), at, end](MutableByteView piece) mutable {
                const auto n =
                    static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), end - at));
                if (n > 0) file->read_into(at, piece.first(n));
                at += n;
                return n;
              },
          .size = value.length};
}

std::unique_ptr<ChainStream> ValueStreams::find(const StreamedValue& value, std::uint64_t begin) {
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

std::unique_ptr<ChainStream> ValueStreams::take(const StreamedValue& value,
                                                std::span<const ByteStep> steps,
                                                const OpenFileFn& open, std::uint64_t begin,
                                                IfChecksum policy, std::uint64_t most) {
  const auto begun = [&] {
    std::string why;
    return ChainStream::open(steps, value_in_file(value, open()), value.nbytes, most, why);
  };
  auto stream = find(value, begin);
  if (!stream) {
    stream = begun();
    if (stream && stream->has_checksum()) {
      if (policy == IfChecksum::kRefuse) return nullptr;
      if (!is_verified(value)) {
        stream->skip(value.nbytes);
        note_verified(value);
        stream = begun();
      }
    }
  }
  if (stream) stream->skip(begin - stream->position());
  return stream;
}

bool ValueStreams::is_verified(const StreamedValue& value) {
  const std::lock_guard lock(mutex_);
  return std::find(verified_.begin(), verified_.end(), value) != verified_.end();
}

void ValueStreams::note_verified(const StreamedValue& value) {
  const std::lock_guard lock(mutex_);
  if (verified_.size() == kMostVerified) verified_.pop_front();
  verified_.push_back(value);
}

void ValueStreams::keep(const StreamedValue& value, std::unique_ptr<ChainStream> stream) {
  if (stream->position() == value.nbytes) return;
  const std::lock_guard lock(mutex_);
  if (kept_.size() == kMostKept) kept_.pop_front();
  kept_.push_back({value, std::move(stream)});
}

}  // namespace cairn::inline v0::zarr
