// deflated_bytes.cc -- keeps decoders that stand where the next read is likely to begin.
#include <cairn/formats/zip/deflated_bytes.h>

#include <cairn/base/checksum.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

// per array: enough for two threads that read it in parts at the same time
constexpr std::size_t kMostIdle = 2;
constexpr std::size_t kSkipped = std::size_t{64} << 10U;

}  // namespace

DeflatedReader::DeflatedReader(const ZipMember& member, ReadAtFn read, InputAccess access)
    : size_(member.size),
      wanted_crc_(member.crc),
      input_(std::make_shared<ForwardInput>(std::move(read), member.offset,
                                            member.offset + member.stored, access)),
      stream_([input = input_](MutableByteView out) { return input->next(out); }) {}

void DeflatedReader::pause() { input_->pause(); }

void DeflatedReader::read(MutableByteView out) {
  const std::size_t n = stream_.read(out);
  crc_ = crc32_extend(crc_, out.first(n));
  position_ += n;
  if (n < out.size())
    throw Error(Code::kDataLoss,
                fmt::format("deflated data: ends after {} of {} bytes", position_, size_));
  if (position_ != size_) return;
  std::byte more{};
  if (stream_.read({&more, 1}) != 0)
    throw Error(Code::kDataLoss,
                fmt::format("deflated data: decodes to more than {} bytes", size_));
  if (crc_ != wanted_crc_)
    throw Error(Code::kDataLoss,
                fmt::format("its bytes are damaged: their CRC-32 is {:08x}, stored is {:08x}", crc_,
                            wanted_crc_));
}

void DeflatedReader::skip_to(std::uint64_t position) {
  Bytes skipped(std::min<std::uint64_t>(kSkipped, position - position_));
  while (position_ < position)
    read(MutableByteView(skipped).first(
        std::min<std::uint64_t>(skipped.size(), position - position_)));
}

std::unique_ptr<DeflatedReader> DeflatedBytes::from_the_front(
    const std::vector<File>& files) const {
  return std::make_unique<DeflatedReader>(
      member_,
      [file = files.data()](std::uint64_t offset, MutableByteView out) {
        file->read_into(offset, out);
      },
      files.front().is_local() ? InputAccess::kAsNeeded : InputAccess::kInPieces);
}

std::unique_ptr<DeflatedReader> DeflatedBytes::take(const std::vector<File>& files,
                                                    std::uint64_t position) const {
  const std::lock_guard lock(mutex_);
  auto best = idle_.end();
  for (auto at = idle_.begin(); at != idle_.end(); ++at)
    if ((*at)->position() <= position &&
        (best == idle_.end() || (*at)->position() > (*best)->position()))
      best = at;
  if (best == idle_.end()) return from_the_front(files);
  auto reader = std::move(*best);
  idle_.erase(best);
  return reader;
}

void DeflatedBytes::read(const std::vector<File>& files, std::uint64_t offset,
                         MutableByteView out) const {
  const std::uint64_t position = array_offset_ + offset;
  auto reader = take(files, position);
  reader->skip_to(position);
  reader->read(out);
  if (reader->position() == member_.size) {
    checksum_ok_ = true;
    return;
  }
  reader->pause();
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(reader));
  if (idle_.size() > kMostIdle) idle_.erase(idle_.begin());
}

void DeflatedBytes::check_whole(const std::vector<File>& files) const {
  if (checksum_ok_) return;
  const auto reader = from_the_front(files);
  reader->skip_to(member_.size);
  checksum_ok_ = true;
}

}  // namespace cairn::inline v0
