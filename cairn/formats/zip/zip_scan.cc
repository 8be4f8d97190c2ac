#include <cairn/formats/zip/zip_scan.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/zip/deflated_bytes.h>
#include <cairn/formats/zip/zip_format.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kHeader = 30, kSignature = 4, kWindow = std::uint64_t{1} << 20U;
constexpr std::string_view kLocal("PK\3\4", 4), kCentral("PK\1\2", 4), kDescriptor("PK\7\10", 4);
constexpr std::uint16_t kFlagEncrypted = 1, kFlagSizesBehind = 8, kFlagNeedsMore = 0x60;
constexpr std::uint64_t kDescriptor32 = 16, kDescriptor64 = 24;

struct LocalHeader {
  ZipMember member;
  bool has_sizes_behind = false;
};

class ZipScan {
 public:
  ZipScan(std::uint64_t size, const ReadAtFn& read) : size_(size), read_(read) {}

  ScannedZip run() {
    std::uint64_t at = 0;
    while (at < size_ && !begins_with(at, kCentral)) {
      const auto header = try_call([&] { return read_header(at); });
      const auto next = header ? add(header.value()) : std::nullopt;
      if (next) {
        at = *next;
        continue;
      }
      const std::uint64_t found = find_member(at + 1);
      out_.notes.push_back(
          fmt::format("bytes {} to {} of the archive belong to no whole member", at, found));
      at = found;
    }
    drop_doubles();
    return std::move(out_);
  }

 private:
  Bytes bytes_at(std::uint64_t offset, std::uint64_t length) const {
    Bytes bytes(std::min(length, size_ - std::min(offset, size_)));
    if (!bytes.empty()) read_(offset, bytes);
    return bytes;
  }
  bool begins_with(std::uint64_t at, std::string_view signature) const {
    return as_text(bytes_at(at, kSignature)) == signature;
  }

  // Throws data_loss if there is none.
  LocalHeader read_header(std::uint64_t at) const {
    const Bytes fixed = bytes_at(at, kHeader);
    ByteReader in(fixed);
    if (in.text(kSignature) != kLocal) ByteReader::fail("no local header", at);
    LocalHeader header;
    ZipMember& member = header.member;
    member.header = at;
    member.version = in.u8();
    in.take(1);
    const std::uint16_t flags = in.u16();
    member.encrypted = (flags & kFlagEncrypted) != 0;
    member.needs_more = (flags & kFlagNeedsMore) != 0;
    member.method = in.u16();
    in.take(4);
    member.crc = in.u32();
    member.stored = in.u32();
    member.size = in.u32();
    const std::uint16_t name = in.u16(), extra = in.u16();
    const Bytes rest = bytes_at(at + kHeader, std::uint64_t{name} + extra);
    ByteReader tail(rest);
    member.name = tail.text(name);
    ByteReader fields(tail.take(extra));
    if (member.name.empty() || flaw_of_zip_name(member.name) != nullptr)
      ByteReader::fail("a local header without a valid name", at);
    while (fields.remaining() >= 4) {
      const std::uint16_t tag = fields.u16(), length = fields.u16();
      ByteReader wide(fields.take(std::min<std::size_t>(length, fields.remaining())));
      if (tag != kZip64Tag) continue;
      if (member.size == kIn64Bits) member.size = wide.u64();
      if (member.stored == kIn64Bits) member.stored = wide.u64();
    }
    member.offset = at + kHeader + name + extra;
    member.directory = size_;
    header.has_sizes_behind =
        (flags & kFlagSizesBehind) != 0 && member.stored == 0 && member.crc == 0;
    return header;
  }

  // Adds the member, and returns where the next one may begin. nullopt: its end cannot be found.
  std::optional<std::uint64_t> add(LocalHeader header) {
    ZipMember& member = header.member;
    std::uint64_t end = 0;
    if (header.has_sizes_behind) {
      const auto found = find_descriptor(member);
      if (!found) {
        lose(member, "the end of the member is not there");
        return std::nullopt;
      }
      end = *found;
    } else if (member.offset > size_ || member.stored > size_ - member.offset) {
      lose(member, fmt::format("the file ends at byte {}, before the member does", size_));
      return std::nullopt;
    } else {
      end = member.offset + member.stored;
      if (begins_with(end, kDescriptor)) end = after_descriptor(end);
    }
    if (member.method == ZipMember::kStored && member.stored != member.size) {
      lose(member, "its local header contradicts itself");
      return std::nullopt;
    }
    // Otherwise the next header is damaged, or this one, which then says a wrong size.
    const bool is_followed = end >= size_ || begins_with(end, kLocal) || begins_with(end, kCentral);
    if (!is_followed && !is_intact(member)) {
      lose(member, "its local header or its content is damaged");
      return std::nullopt;
    }
    // The checksum of an empty content says nothing about where it ends.
    const std::uint64_t next = member.stored > 0 ? end : member.header + 1;
    out_.members.push_back(std::move(member));
    return is_followed ? end : find_member(next);
  }

  // Whether the content has the checksum that its header states.
  [[nodiscard]] bool is_intact(const ZipMember& member) const {
    const auto intact = try_call([&] {
      if (member.method == ZipMember::kDeflated) {
        DeflatedReader(member, read_).skip_to(member.size);
        return true;
      }
      std::uint32_t crc = crc32({});
      for (std::uint64_t at = 0; at < member.stored; at += kWindow)
        crc =
            crc32_extend(crc, bytes_at(member.offset + at, std::min(kWindow, member.stored - at)));
      return crc == member.crc;
    });
    return intact && intact.value();
  }

  void lose(const ZipMember& member, std::string why) {
    out_.lost.emplace_back(member.name, std::move(why));
  }

  // Calls visit(position, bytes from there on) for each "PK" from `begin` on, until it returns
  // true.
  template <class F>
  void for_each_mark(std::uint64_t begin, F visit) const {
    constexpr std::uint64_t kOverlap = kDescriptor64;
    for (std::uint64_t at = begin; at < size_; at += kWindow) {
      const Bytes window = bytes_at(at, kWindow + kOverlap);
      const std::string_view text = as_text(window);
      // npos is larger than any position.
      for (std::size_t p = text.find("PK"); p < kWindow; p = text.find("PK", p + 1))
        if (visit(at + p, ByteView(window).subspan(p))) return;
    }
  }

  // The next local header, or the directory, or the end of the archive.
  std::uint64_t find_member(std::uint64_t begin) const {
    std::uint64_t found = size_;
    for_each_mark(begin, [&](std::uint64_t at, ByteView bytes) {
      const std::string_view mark = as_text(bytes.first(std::min(bytes.size(), kSignature)));
      const bool is_member =
          mark == kCentral || (mark == kLocal && try_call([&] { return read_header(at); }).ok());
      if (is_member) found = at;
      return is_member;
    });
    return found;
  }

  // The end of the descriptor whose size is the distance from the member's first byte. Sets the
  // member's checksum and sizes.
  std::optional<std::uint64_t> find_descriptor(ZipMember& member) const {
    std::optional<std::uint64_t> end;
    for_each_mark(member.offset, [&](std::uint64_t at, ByteView bytes) {
      if (!as_text(bytes).starts_with(kDescriptor)) return false;
      const std::uint64_t length = at - member.offset;
      for (const std::uint64_t record : {kDescriptor64, kDescriptor32}) {
        if (bytes.size() < record) continue;
        ByteReader in(bytes.subspan(kSignature));
        const std::uint32_t crc = in.u32();
        const bool is_wide = record == kDescriptor64;
        const std::uint64_t stored = is_wide ? in.u64() : in.u32();
        const std::uint64_t size = is_wide ? in.u64() : in.u32();
        if (stored != length || (member.method == ZipMember::kStored && size != stored)) continue;
        member.crc = crc;
        member.stored = stored;
        member.size = size;
        end = at + record;
        return true;
      }
      return false;
    });
    return end;
  }

  std::uint64_t after_descriptor(std::uint64_t at) const {
    for (const std::uint64_t record : {kDescriptor64, kDescriptor32})
      if (begins_with(at + record, kLocal) || begins_with(at + record, kCentral))
        return at + record;
    return at;
  }

  void drop_doubles() {
    std::map<std::string_view, std::size_t> count;
    for (const ZipMember& member : out_.members) ++count[member.name];
    std::vector<std::string> doubled;
    for (const auto& [name, n] : count)
      if (n > 1) doubled.emplace_back(name);
    for (const std::string& name : doubled) {
      std::erase_if(out_.members, [&](const ZipMember& member) { return member.name == name; });
      out_.lost.emplace_back(name, "several members have this name");
    }
  }

  std::uint64_t size_;
  const ReadAtFn& read_;
  ScannedZip out_;
};

}  // namespace

ScannedZip scan_zip(std::uint64_t archive_size, const ReadAtFn& read) {
  return ZipScan(archive_size, read).run();
}

}  // namespace cairn::inline v0
