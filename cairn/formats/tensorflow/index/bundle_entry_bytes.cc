// bundle_entry_bytes.cc -- reads strings into memory, and checks an entry to its end as a stream.
#include <cairn/formats/tensorflow/index/bundle_entry_bytes.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/byte_order.h>
#include <cairn/base/checksum.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;

}  // namespace

void EntryStream::check(std::uint32_t crc) const {
  if (crc != crc_)
    throw Error(
        Code::kDataLoss,
        fmt::format("its bytes are damaged: their crc32c is {:08x}, stored is {:08x}", crc, crc_));
}

void EntryStream::read(const std::vector<File>& files, std::uint64_t offset,
                       MutableByteView out) const {
  const File& file = files[where_.file];
  const std::lock_guard lock(mutex_);
  if (offset != at_ || offset == 0) {  // not where the last read ended: start again from the front
    at_ = 0;
    begin(file);
  }
  Bytes skipped(std::min(kBlock, offset - at_));
  const std::uint64_t end_at = offset + out.size();
  while (at_ < end_at) {
    const MutableByteView piece =
        at_ >= offset
            ? out.subspan(at_ - offset, std::min(kBlock, end_at - at_))
            : MutableByteView(skipped).first(std::min<std::uint64_t>(skipped.size(), offset - at_));
    file.read_into(where_.offset + at_, piece);
    look(at_, piece);
    at_ += piece.size();
  }
  if (at_ == where_.length) end();
}

BundleStrings StringEntry::head(const File& file) const {
  return read_bundle_strings(count(), where().length, big_endian_,
                             [&](std::uint64_t offset, MutableByteView out) {
                               file.read_into(where().offset + offset, out);
                             });
}

void StringEntry::begin(const File& file) const {
  const BundleStrings strings = head(file);
  start_ = strings.start;
  running_ = strings.crc;
}

void StringEntry::look(std::uint64_t offset, ByteView bytes) const {
  const std::uint64_t of_head =
      std::min<std::uint64_t>(bytes.size(), start_ - std::min(start_, offset));
  running_ = crc32c_extend(running_, bytes.subspan(of_head));
}

std::vector<std::string> StringEntry::strings(const std::vector<File>& files) const {
  const File& file = files[where().file];
  const BundleStrings parts = head(file);
  std::vector<std::string> strings;
  strings.reserve(parts.lengths.size());
  std::uint32_t crc = parts.crc;
  std::uint64_t at = parts.start;
  Bytes block;
  std::uint64_t used = 0;
  // Short strings are copied from blocks; long ones are read directly into their place.
  for (const std::uint64_t length : parts.lengths) {
    std::string& text = strings.emplace_back(length, '\0');
    const MutableByteView out(reinterpret_cast<std::byte*>(text.data()), text.size());
    if (block.size() - used < length && length >= kBlock) {
      block.clear();
      used = 0;
      file.read_into(where().offset + at, out);
    } else {
      if (block.size() - used < length) {
        block.resize(std::min(kBlock, where().length - at));
        used = 0;
        file.read_into(where().offset + at, block);
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

void VariantEntry::begin(const File& /*file*/) const {
  part_ = Part::kLength;
  length_ = elements_ = 0;
  used_ = 0;
  running_ = 0;
}

void VariantEntry::look(std::uint64_t /*offset*/, ByteView bytes) const {
  while (!bytes.empty()) {
    if (part_ == Part::kMessage) {
      const ByteView piece = bytes.first(std::min<std::uint64_t>(bytes.size(), length_));
      running_ = crc32c_extend(running_, piece);
      length_ -= piece.size();
      bytes = bytes.subspan(piece.size());
      if (length_ == 0) part_ = Part::kChecksum;
      continue;
    }
    const std::byte next = bytes.front();
    bytes = bytes.subspan(1);
    if (part_ == Part::kLength) {
      if (used_ == 10)
        throw Error(Code::kDataLoss,
                    fmt::format("the length of element {} is too long", elements_));
      length_ |= std::to_integer<std::uint64_t>(next & std::byte{0x7f}) << 7 * used_++;
      if ((next & std::byte{0x80}) != std::byte{0}) continue;
      std::array<std::byte, 8> summed{};
      store_little_endian(length_, summed);
      running_ = crc32c_extend(running_, summed);
      part_ = length_ == 0 ? Part::kChecksum : Part::kMessage;
      used_ = 0;
      continue;
    }
    checksum_[used_++] = next;
    if (used_ < checksum_.size()) continue;
    if (ByteReader(checksum_).u32() != crc32c_masked(running_))
      throw Error(Code::kDataLoss, fmt::format("element {} is damaged", elements_));
    running_ = crc32c_extend(running_, checksum_);
    part_ = Part::kLength;
    length_ = 0;
    used_ = 0;
    ++elements_;
  }
}

void VariantEntry::end() const {
  if (elements_ != count() || part_ != Part::kLength || used_ != 0)
    throw Error(Code::kDataLoss, fmt::format("it has {} whole elements of {}", elements_, count()));
  check(running_);
}

}  // namespace cairn::inline v0
