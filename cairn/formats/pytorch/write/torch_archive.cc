// torch_archive.cc -- Source of the rules: archives that torch 2.13 wrote, read byte for byte.
#include <cairn/formats/pytorch/write/torch_archive.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/zip/zip_format.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kLocalHeader = 30;         // bytes before the name
constexpr std::uint16_t kPaddingTag = 0x4246;      // "FB"
constexpr std::uint64_t kTag = 4;                  // a tag and its length
constexpr std::uint16_t kDescriptorFlag = 0x0008;  // size and checksum stand behind the content
constexpr std::uint16_t kVersion45 = 45;
constexpr std::uint16_t kMadeBy = 0x031e;
constexpr std::size_t kMostInEndRecord = 0xffff;
constexpr std::uint64_t kIdDigits = 40;

Bytes bytes_of(std::string_view text) {
  const ByteView bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

bool is_large(std::uint64_t value) { return value >= kIn64Bits; }

// The bytes of the zip64 record in the local header of a member.
std::uint64_t zip64_bytes(std::uint64_t header, std::uint64_t size) {
  if (!is_large(header) && !is_large(size)) return 0;
  return kTag + (is_large(size) ? 16U : 0U) + (is_large(header) ? 8U : 0U);
}

std::uint64_t descriptor_bytes(std::uint64_t header, std::uint64_t size) {
  if (size == 0) return 0;
  return zip64_bytes(header, size) > 0 ? 24 : 16;
}

// The zip64 record. `stored`: as it states the stored size.
void append_zip64(ByteWriter& out, std::uint64_t header, std::uint64_t size, std::uint64_t stored) {
  const std::uint64_t bytes = zip64_bytes(header, size);
  if (bytes == 0) return;
  out.u16(kZip64Tag).u16(static_cast<std::uint16_t>(bytes - kTag));
  if (is_large(size)) out.u64(size).u64(stored);
  if (is_large(header)) out.u64(header);
}

std::uint32_t in_32_bits(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kIn64Bits));
}

std::uint16_t name_length(const std::string& name) {
  return static_cast<std::uint16_t>(name.size());
}

// FNV-1a of 64 bits.
class Digest {
 public:
  void add(ByteView bytes) {
    for (const std::byte byte : bytes)
      value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3U;
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

TorchArchive::TorchArchive(std::string top) : top_(std::move(top)) {}

TorchArchive::Member& TorchArchive::add_member(std::string_view name, std::uint64_t size) {
  Member& member = members_.emplace_back();
  member.name = fmt::format("{}/{}", top_, name);
  member.header = at_;
  member.size = size;
  const std::uint64_t unpadded =
      at_ + kLocalHeader + member.name.size() + zip64_bytes(at_, size) + kTag;
  member.begin = (unpadded + kAlignment - 1) / kAlignment * kAlignment;
  at_ = member.begin + size + descriptor_bytes(member.header, size);
  return member;
}

void TorchArchive::add(std::string_view name, Bytes content) {
  Member& member = add_member(name, content.size());
  member.crc = crc32(content);
  member.content = std::move(content);
}

std::uint64_t TorchArchive::add_storage(std::uint64_t size) {
  Member& member = add_member(fmt::format("data/{}", storages_.size()), size);
  member.storage = storages_.size();
  storages_.push_back(members_.size() - 1);
  return member.begin;
}

void TorchArchive::begin(Bytes pickle) {
  add("data.pkl", std::move(pickle));
  add(".format_version", bytes_of("1"));
  add(".storage_alignment", bytes_of(std::to_string(kAlignment)));
  add("byteorder", bytes_of("little"));
}

void TorchArchive::finish() {
  add("version", bytes_of("3\n"));
  // Only its length is known before the storages are.
  add(".data/serialization_id", bytes_of(std::string(kIdDigits, '0')));
  std::uint64_t directory = 0;
  for (const Member& member : members_)
    directory += 46 + member.name.size() + zip64_bytes(member.header, member.size);
  size_ = at_ + directory + 56 + 20 + 22;
}

Bytes TorchArchive::front(const Member& member) {
  ByteWriter out;
  const std::uint16_t flags =
      member.size > 0 ? std::uint16_t{kUtf8Name | kDescriptorFlag} : kUtf8Name;
  const std::uint64_t zip64 = zip64_bytes(member.header, member.size);
  const std::uint64_t padding =
      member.begin - member.header - kLocalHeader - member.name.size() - zip64 - kTag;
  out.text("PK\x03\x04").u16(0).u16(flags).u16(0).u16(0).u16(0).u32(0).u32(0).u32(0);
  out.u16(name_length(member.name)).u16(static_cast<std::uint16_t>(zip64 + kTag + padding));
  out.text(member.name);
  append_zip64(out, member.header, member.size, 0);
  out.u16(kPaddingTag).u16(static_cast<std::uint16_t>(padding)).text(std::string(padding, 'Z'));
  return std::move(out).take();
}

Bytes TorchArchive::descriptor(const Member& member, std::uint32_t crc) {
  ByteWriter out;
  if (member.size == 0) return {};
  out.text("PK\x07\x08").u32(crc);
  if (zip64_bytes(member.header, member.size) > 0)
    out.u64(member.size).u64(member.size);
  else
    out.u32(static_cast<std::uint32_t>(member.size)).u32(static_cast<std::uint32_t>(member.size));
  return std::move(out).take();
}

Bytes TorchArchive::between(std::size_t number, std::span<const std::uint32_t> checksums) const {
  ByteWriter out;
  std::size_t next = 0;
  if (number > 0) {
    const Member& before = members_[storages_[number - 1]];
    out.bytes(descriptor(before, checksums[number - 1]));
    next = storages_[number - 1] + 1;
  }
  const bool is_last = number == storages_.size();
  const std::size_t stop = is_last ? members_.size() - 1 : storages_[number];
  for (; next < stop; ++next)
    out.bytes(front(members_[next]))
        .bytes(members_[next].content)
        .bytes(descriptor(members_[next], members_[next].crc));
  out.bytes(is_last ? end(checksums) : front(members_[stop]));
  return std::move(out).take();
}

Bytes TorchArchive::end(std::span<const std::uint32_t> checksums) const {
  std::vector<std::uint32_t> crcs;
  Digest names, contents;
  for (const Member& member : members_) {
    crcs.push_back(member.storage ? checksums[*member.storage] : member.crc);
    if (&member == &members_.back()) break;
    names.add(as_bytes(member.name + "\n"));
    contents.add(ByteWriter().u64(member.size).u32(crcs.back()).view());
  }
  // PyTorch's id is also made of the names and the checksums. Nothing compares it.
  const Bytes id = bytes_of(fmt::format("{:020}{:020}", names.value(), contents.value()));
  crcs.back() = crc32(id);
  ByteWriter out;
  out.bytes(front(members_.back())).bytes(id).bytes(descriptor(members_.back(), crcs.back()));
  const std::size_t start = out.size();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const std::uint16_t flags =
        member.size > 0 ? std::uint16_t{kUtf8Name | kDescriptorFlag} : kUtf8Name;
    out.text("PK\x01\x02").u16(0).u16(0).u16(flags).u16(0).u16(0).u16(0).u32(crcs[i]);
    out.u32(in_32_bits(member.size)).u32(in_32_bits(member.size)).u16(name_length(member.name));
    out.u16(static_cast<std::uint16_t>(zip64_bytes(member.header, member.size)));
    out.u16(0).u16(0).u16(0).u32(0).u32(in_32_bits(member.header)).text(member.name);
    append_zip64(out, member.header, member.size, member.size);
  }
  const std::uint64_t directory = out.size() - start;
  out.text("PK\x06\x06").u64(44).u16(kMadeBy).u16(kVersion45).u32(0).u32(0);
  out.u64(members_.size()).u64(members_.size()).u64(directory).u64(at_);
  out.text(std::string_view("PK\x06\x07\0\0\0\0", 8)).u64(at_ + directory).u32(1);
  const auto count = static_cast<std::uint16_t>(std::min(members_.size(), kMostInEndRecord));
  out.text("PK\x05\x06").u16(0).u16(0).u16(count).u16(count);
  out.u32(in_32_bits(directory)).u32(in_32_bits(at_)).u16(0);
  return std::move(out).take();
}

}  // namespace cairn::inline v0::pytorch
