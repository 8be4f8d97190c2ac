#include <cairn/formats/pytorch/distributed/entry_decoder.h>

#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::size_t kSkippedPiece = std::size_t{64} << 10U;
constexpr std::uint64_t kMostIdleMemory = std::uint64_t{256} << 20U;

}  // namespace

EntryDecoder::EntryDecoder(const File& file, const Entry& entry)
    : input_(std::make_shared<ForwardInput>(
          [&file](std::uint64_t offset, MutableByteView out) { file.read_into(offset, out); },
          entry.offset, entry.offset + entry.length,
          file.is_local() ? InputAccess::kAsNeeded : InputAccess::kInPieces)),
      streams_(undo_transforms(
          entry.transforms, [input = input_](MutableByteView out) { return input->next(out); },
          entry.length)) {}

std::size_t EntryDecoder::read(MutableByteView out) {
  const std::size_t n = streams_.back()->read(out);
  crc_ = crc32_extend(crc_, out.first(n));
  position_ += n;
  return n;
}

void EntryDecoder::read_all(MutableByteView out) {
  if (read(out) < out.size())
    data_loss(fmt::format("its bytes end after {}, although they were longer before", position_));
}

void EntryDecoder::skip_to(std::uint64_t position) {
  Bytes skipped(std::min<std::uint64_t>(kSkippedPiece, position - position_));
  while (position_ < position)
    read_all(MutableByteView(skipped).first(
        std::min<std::uint64_t>(skipped.size(), position - position_)));
}

std::uint64_t EntryDecoder::memory() const {
  std::uint64_t sum = 0;
  for (const auto& stream : streams_) sum += stream->memory();
  return sum;
}

std::unique_ptr<EntryDecoder> DecoderPool::take(const void* owner, std::uint64_t position) {
  const std::scoped_lock lock(mutex_);
  auto best = idle_.end();
  for (auto at = idle_.begin(); at != idle_.end(); ++at)
    if (at->first == owner && at->second->position() <= position &&
        (best == idle_.end() || at->second->position() > best->second->position()))
      best = at;
  if (best == idle_.end()) return nullptr;
  auto decoder = std::move(best->second);
  memory_ -= decoder->memory();
  idle_.erase(best);
  return decoder;
}

void DecoderPool::give(const void* owner, std::unique_ptr<EntryDecoder> decoder) {
  decoder->pause();
  const std::scoped_lock lock(mutex_);
  memory_ += decoder->memory();
  idle_.emplace_back(owner, std::move(decoder));
  while (memory_ > kMostIdleMemory && !idle_.empty()) {
    memory_ -= idle_.front().second->memory();
    idle_.pop_front();
  }
}

void DecoderPool::forget(const void* owner) {
  const std::scoped_lock lock(mutex_);
  for (auto at = idle_.begin(); at != idle_.end();) {
    if (at->first == owner) {
      memory_ -= at->second->memory();
      at = idle_.erase(at);
    } else {
      ++at;
    }
  }
}

}  // namespace cairn::inline v0::pytorch
