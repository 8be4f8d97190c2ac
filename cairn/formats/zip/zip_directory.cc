// zip_directory.cc -- parses end records, the central directory and local headers.
#include <cairn/formats/zip/zip_directory.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/zip/zip_format.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kEndRecord = 22, kLocator = 20, kEndRecord64 = 56, kCentralHeader = 46,
                        kLocalHeader = 30;
constexpr std::uint64_t kMaxComment = 65535;
constexpr std::uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50,
                        kCentralMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::uint16_t kIn64Bits16 = 0xffff;
constexpr std::uint16_t kEncrypted = 1, kSizesBehind = 8, kPatched = 0x20, kStrongEncryption = 0x40;
// The largest expansion factor of a deflated stream.
constexpr std::uint64_t kMostInflation = 1032;

[[noreturn]] void damaged_zip(const std::string& what) {
  throw Error(Code::kDataLoss, "zip archive: " + what);
}

Bytes read_bytes(const ReadAtFn& read, std::uint64_t offset, std::uint64_t size) {
  Bytes bytes(size);
  read(offset, bytes);
  return bytes;
}

struct CentralDirectory {
  std::uint64_t start = 0, size = 0, count = 0;
};

// Finds the end record: the last one whose comment ends at the end of the file.
std::uint64_t find_end_record(std::uint64_t archive_size, const ReadAtFn& read) {
  const std::uint64_t look = std::min(archive_size, kEndRecord + kMaxComment);
  const Bytes tail = read_bytes(read, archive_size - look, look);
  for (std::uint64_t back = kEndRecord; back <= look; ++back) {
    ByteReader in(ByteView(tail).last(back));
    if (in.u32() != kEndMark) continue;
    in.take(16);
    if (in.u16() == back - kEndRecord) return archive_size - back;
  }
  damaged_zip("the end record is missing; the file is truncated, or is not a zip archive");
}

// Reads the zip64 end record, if the end record's locator points to one that ends directly before
// the locator.
std::optional<CentralDirectory> read_end_record64(std::uint64_t end, std::uint64_t& directory_end,
                                                  const ReadAtFn& read) {
  if (end < kLocator) return std::nullopt;
  const Bytes locator = read_bytes(read, end - kLocator, kLocator);
  ByteReader in(locator);
  if (in.u32() != kLocatorMark) return std::nullopt;
  const std::uint32_t disk = in.u32();
  const std::uint64_t at = in.u64();
  if (disk != 0 || in.u32() > 1) damaged_zip("it is one part of a multi-part archive");
  if (end - kLocator < kEndRecord64 || at > end - kLocator - kEndRecord64)
    damaged_zip(
        fmt::format("the zip64 end record cannot be at byte {}: it does not fit there", at));
  const Bytes record = read_bytes(read, at, kEndRecord64);
  ByteReader fields(record);
  if (fields.u32() != kEnd64Mark)
    damaged_zip(fmt::format("there is no zip64 end record at byte {}", at));
  const std::uint64_t length = fields.u64();
  if (length != end - kLocator - at - 12)
    damaged_zip(fmt::format("the zip64 end record has a wrong length field: {} bytes", length));
  fields.take(4);
  if (fields.u32() != 0 || fields.u32() != 0) damaged_zip("it is one part of a multi-part archive");
  const std::uint64_t here = fields.u64();
  CentralDirectory directory;
  directory.count = fields.u64();
  if (here != directory.count) damaged_zip("it is one part of a multi-part archive");
  directory.size = fields.u64();
  directory.start = fields.u64();
  directory_end = at;
  return directory;
}

CentralDirectory find_directory(std::uint64_t archive_size, const ReadAtFn& read) {
  const std::uint64_t end = find_end_record(archive_size, read);
  const Bytes record = read_bytes(read, end, kEndRecord);
  ByteReader in(record);
  in.take(4);
  const std::uint16_t disk = in.u16(), first_disk = in.u16(), here = in.u16(), count = in.u16();
  CentralDirectory directory;
  directory.count = count;
  directory.size = in.u32();
  directory.start = in.u32();
  std::uint64_t directory_end = end;
  if (const auto large = read_end_record64(end, directory_end, read)) {
    const auto differs = [](std::uint64_t small, std::uint64_t unset, std::uint64_t wide) {
      return small != unset && small != wide;
    };
    if (differs(directory.count, kIn64Bits16, large->count) ||
        differs(directory.size, kIn64Bits, large->size) ||
        differs(directory.start, kIn64Bits, large->start))
      damaged_zip("its two end records disagree");
    directory = *large;
  } else if (disk != 0 || first_disk != 0 || here != count) {
    damaged_zip("it is one part of a multi-part archive");
  }
  if (directory.start > directory_end || directory.size != directory_end - directory.start)
    damaged_zip(fmt::format(
        "a directory of {} bytes at byte {} does not end where the end record is, at byte {}",
        directory.size, directory.start, directory_end));
  if (directory.count > directory.size / kCentralHeader)
    damaged_zip(fmt::format("{} members do not fit in a directory of {} bytes", directory.count,
                            directory.size));
  return directory;
}

// The zip64 field in a list of extra fields; empty if it has none.
ByteView zip64_field(ByteView extra) {
  ByteReader in(extra);
  while (in.remaining() >= 4) {
    const std::uint16_t tag = in.u16(), size = in.u16();
    const ByteView field = in.take(size);
    if (tag == kZip64Tag) return field;
  }
  return {};
}

ZipMember read_central_header(ByteReader& in) {
  if (in.u32() != kCentralMark) ByteReader::fail("missing member header", in.offset() - 4);
  ZipMember member;
  in.take(2);
  member.version = in.u8();
  in.take(1);
  const std::uint16_t flags = in.u16();
  member.encrypted = (flags & kEncrypted) != 0;
  member.needs_more = (flags & (kPatched | kStrongEncryption)) != 0;
  member.method = in.u16();
  in.take(4);
  member.crc = in.u32();
  member.stored = in.u32();
  member.size = in.u32();
  const std::uint16_t name = in.u16(), extra = in.u16(), comment = in.u16(), disk = in.u16();
  in.take(6);
  member.header = in.u32();
  member.name = in.text(name);
  ByteReader wide(zip64_field(in.take(extra)));
  if (member.size == kIn64Bits) member.size = wide.u64();
  if (member.stored == kIn64Bits) member.stored = wide.u64();
  if (member.header == kIn64Bits) member.header = wide.u64();
  in.take(comment);
  if (disk != 0 && disk != kIn64Bits16) damaged_zip("it is one part of a multi-part archive");
  const bool ascii = std::all_of(member.name.begin(), member.name.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (!ascii && (flags & kUtf8Name) == 0)
    damaged_zip("a member's name is in an unknown encoding: " + member.name);
  if (const char* flaw = flaw_of_zip_name(member.name))
    damaged_zip("the member's name \"" + member.name + "\" " + flaw);
  return member;
}

// Iterates over the headers of a directory and keeps only a part of it in memory, because the
// archive claims its size.
class DirectoryWindow {
 public:
  DirectoryWindow(const CentralDirectory& directory, const ReadAtFn& read)
      : directory_(directory), read_(read) {}

  ZipMember next() {
    if (bytes_.size() - used_ < kMostHeader) fill();
    ByteReader in(bytes_);
    in.take(used_);
    ZipMember member = read_central_header(in);
    used_ = in.offset();
    return member;
  }
  void finish() {
    fill();
    ByteReader in(bytes_);
    in.take(used_);
    in.finish();
  }

 private:
  // with the largest name, extra fields and comment
  static constexpr std::uint64_t kMostHeader = kCentralHeader + 3 * std::uint64_t{65535};
  static constexpr std::uint64_t kPart = std::uint64_t{1} << 20U;

  void fill() {
    const std::uint64_t left = directory_.size - start_ - bytes_.size();
    if (left == 0) return;
    start_ += used_;
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
    const std::size_t old = bytes_.size();
    bytes_.resize(old + std::min(kPart, left));
    read_(directory_.start + start_ + old, MutableByteView(bytes_).subspan(old));
  }

  const CentralDirectory& directory_;
  const ReadAtFn& read_;
  Bytes bytes_;              // the directory from start_ on
  std::uint64_t start_ = 0;  // in the directory
  std::size_t used_ = 0;     // of bytes_
};

void check_sizes(const ZipMember& member) {
  if (member.method == ZipMember::kStored && member.stored != member.size)
    damaged_zip(fmt::format("{}: {} bytes are stored for {} bytes of content", member.name,
                            member.stored, member.size));
  if (member.method == ZipMember::kDeflated && member.size / kMostInflation > member.stored)
    damaged_zip(fmt::format("{}: {} deflated bytes cannot decode to {}", member.name, member.stored,
                            member.size));
}

}  // namespace

void HeadReads::operator()(std::uint64_t offset, MutableByteView out) {
  const auto holds = [&] {
    return offset >= start_ && offset - start_ <= filled_ &&
           out.size() <= filled_ - (offset - start_);
  };
  if (!holds()) {
    const std::size_t most = std::min<std::uint64_t>(bytes_.size(), size_ - offset);
    if (out.size() >= most) return read_(offset, out);
    filled_ = 0;
    read_(offset, MutableByteView(bytes_).first(most));
    start_ = offset;
    filled_ = most;
  }
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset - start_), out.size(),
              out.begin());
}

const char* flaw_of_zip_name(std::string_view name) {
  if (!valid_utf8(name)) return "is not UTF-8";
  if (name.find('\0') != std::string_view::npos) return "holds a NUL byte";
  return nullptr;
}

std::vector<ZipMember> read_zip_directory(std::uint64_t archive_size, const ReadAtFn& read) {
  const CentralDirectory directory = find_directory(archive_size, read);
  DirectoryWindow window(directory, read);
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    members.push_back(cairn::with_context(
        [&] { return fmt::format("zip directory: member {}", i); }, [&] { return window.next(); }));
    members.back().directory = directory.start;
    check_sizes(members.back());
  }
  cairn::with_context([] { return "zip directory"; }, [&] { window.finish(); });
  std::vector<std::string_view> names;
  names.reserve(members.size());
  for (const ZipMember& member : members) names.emplace_back(member.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    damaged_zip(fmt::format("two members are named \"{}\"", *twice));
  return members;
}

void locate_zip_member(ZipMember& member, const ReadAtFn& read) {
  const auto refuse = [&](const std::string& what) {
    damaged_zip(fmt::format("{}: local header at byte {}: {}", member.name, member.header, what));
  };
  // The length of the extra fields is not known yet.
  const std::uint64_t size = kLocalHeader + member.name.size();
  if (member.header > member.directory || size > member.directory - member.header)
    refuse("there is no room for it before the directory");
  const Bytes bytes = read_bytes(read, member.header, size);
  ByteReader in(bytes);
  if (in.u32() != kLocalMark) refuse("it is missing");
  in.take(2);
  const std::uint16_t flags = in.u16(), method = in.u16();
  in.take(4);
  const std::uint32_t crc = in.u32();
  const std::uint32_t stored = in.u32(), content = in.u32();
  const std::uint16_t name = in.u16(), extra_size = in.u16();
  if (name != member.name.size() || in.text(name) != member.name)
    refuse("its name differs from the directory's");
  if (method != member.method) refuse("its compression method differs from the directory's");
  const std::uint64_t left = member.directory - member.header - size;
  if (extra_size > left || member.stored > left - extra_size)
    refuse("the content reaches into the directory");
  member.offset = member.header + size + extra_size;
  if ((flags & kSizesBehind) != 0) return;  // then the header has zeros instead of the sizes
  const Bytes extra = read_bytes(read, member.header + size, extra_size);
  ByteReader wide(zip64_field(extra));
  const std::uint64_t wide_content = content == kIn64Bits ? wide.u64() : content;
  const std::uint64_t wide_stored = stored == kIn64Bits ? wide.u64() : stored;
  if (crc != member.crc || wide_stored != member.stored || wide_content != member.size)
    refuse("its checksum or sizes differ from the directory's");
}

void check_no_overlap(const std::vector<ZipMember>& members) {
  std::vector<const ZipMember*> sorted;
  for (const ZipMember& member : members)
    if (member.offset != 0) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->header < b->header; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->header < sorted[i - 1]->offset + sorted[i - 1]->stored)
      damaged_zip(
          fmt::format("members \"{}\" and \"{}\" overlap", sorted[i - 1]->name, sorted[i]->name));
}

}  // namespace cairn::inline v0
