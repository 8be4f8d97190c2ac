// bundle_string_bytes.cc -- strings in memory, or their entry as a stream that is checked at its end.
#include <cairn/base/checksum.h>
#include <cairn/formats/bundle_string_bytes.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn {
namespace {

constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;

}  // namespace

BundleStrings StringEntry::head(const File& file) const {
  return read_bundle_strings(count_, where_.length, big_endian_,
                             [&](std::uint64_t offset, MutableByteView out) { file.read_into(where_.offset + offset, out); });
}

void StringEntry::check(std::uint32_t crc) const {
  if (crc != crc_) throw Error(Code::kDataLoss, fmt::format("its bytes are damaged: their crc32c is {:08x}, stored is {:08x}", crc, crc_));
}

void StringEntry::read(const std::vector<File>& files, std::uint64_t offset, MutableByteView out) const {
  const File& file = files[where_.file];
  const std::lock_guard lock(mutex_);
  if (offset != at_ || offset == 0) {  // from the front
    at_ = 0;
    const BundleStrings strings = head(file);
    start_ = strings.start;
    running_ = strings.crc;
  }
  Bytes block(std::min(kBlock, where_.length));
  const std::uint64_t end = offset + out.size();
  while (at_ < end) {
    const bool wanted = at_ >= offset;
    const MutableByteView piece = wanted ? out.subspan(at_ - offset, std::min(kBlock, end - at_))
                                         : MutableByteView(block).first(std::min<std::uint64_t>(block.size(), offset - at_));
    file.read_into(where_.offset + at_, piece);
    const std::uint64_t head_bytes = std::min<std::uint64_t>(piece.size(), start_ - std::min(start_, at_));
    running_ = crc32c_extend(running_, ByteView(piece).subspan(head_bytes));
    at_ += piece.size();
  }
  if (at_ == where_.length) check(running_);
}

std::vector<std::string> StringEntry::strings(const std::vector<File>& files) const {
  const File& file = files[where_.file];
  const BundleStrings parts = head(file);
  std::vector<std::string> strings;
  strings.reserve(parts.lengths.size());
  std::uint32_t crc = parts.crc;
  std::uint64_t at = parts.start;
  Bytes block;
  std::uint64_t used = 0;
  // Short strings out of blocks, long ones straight to where they go.
  for (const std::uint64_t length : parts.lengths) {
    std::string& text = strings.emplace_back(length, '\0');
    const MutableByteView out(reinterpret_cast<std::byte*>(text.data()), text.size());
    if (block.size() - used < length && length >= kBlock) {
      block.clear();
      used = 0;
      file.read_into(where_.offset + at, out);
    } else {
      if (block.size() - used < length) {
        block.resize(std::min(kBlock, where_.length - at));
        used = 0;
        file.read_into(where_.offset + at, block);
      }
      std::copy_n(block.begin() + static_cast<std::ptrdiff_t>(used), length, out.begin());
      used += length;
    }
    at += length;
    crc = crc32c_extend(crc, out);
  }
  check(crc);
  return strings;
}

}  // namespace cairn
