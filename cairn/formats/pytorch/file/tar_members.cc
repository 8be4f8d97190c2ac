#include <cairn/formats/pytorch/file/tar_members.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/tensors/fields.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::size_t kMostMembers = 64;
constexpr std::uint64_t kMostOfRecords = std::uint64_t{64} << 10U;  // bytes
constexpr std::size_t kMagicAt = 257, kChecksumAt = 148, kChecksumSize = 8;
// Records that say nothing of the content.
constexpr std::array<std::string_view, 8> kIgnored = {"mtime", "atime", "ctime", "uid",
                                                      "gid",   "uname", "gname", "comment"};

// A text field ends at its first NUL.
std::string_view text_in(ByteView header, std::size_t begin, std::size_t size) {
  const std::string_view field = as_text(header.subspan(begin, size));
  return field.substr(0, field.find('\0'));
}

// The number of a text that has nothing else; nullopt otherwise.
std::optional<std::uint64_t> number_of(std::string_view digits, int base) {
  std::uint64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, status] = std::from_chars(digits.data(), end, number, base);
  return status == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::uint64_t octal_in(ByteView header, std::size_t begin, std::size_t size, const char* what) {
  std::string_view digits = text_in(header, begin, size);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find(' '));
  const auto number = number_of(digits, 8);
  if (!number) data_loss(fmt::format("its {} is not an octal number", what));
  return *number;
}

bool is_zero(ByteView block) {
  return std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; });
}

std::uint64_t checksum_of(ByteView header) {
  const auto add = [](std::uint64_t sum, std::byte b) {
    return sum + std::to_integer<unsigned>(b);
  };
  const ByteView stored = header.subspan(kChecksumAt, kChecksumSize);
  return std::accumulate(header.begin(), header.end(), std::uint64_t{0}, add) -
         std::accumulate(stored.begin(), stored.end(), std::uint64_t{0}, add) +
         kChecksumSize * std::uint64_t{' '};
}

// What a member of type 'x' says about the next one.
struct Records {
  std::optional<std::string> path;
  std::optional<std::uint64_t> size;
};

void take_record(std::string_view key, std::string_view value, Records& records) {
  if (key == "path") {
    records.path = std::string(value);
  } else if (key == "size") {
    records.size = number_of(value, 10);
    if (!records.size) data_loss("the size in a record is not a number");
  } else if (std::ranges::find(kIgnored, key) == kIgnored.end()) {
    throw Error(Code::kUnimplemented,
                fmt::format("records \"{}\" of a tar archive", printable_utf8(key)));
  }
}

// "17 size=12345678\n": the length of the record in bytes, a key and a value.
Records parse_records(std::string_view text) {
  Records records;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const auto length = number_of(text.substr(0, space), 10);
    if (!length || *length <= space + 1 || *length > text.size() || text[*length - 1] != '\n')
      data_loss("a record of a tar archive has another length than it says");
    const std::string_view entry = text.substr(space + 1, *length - space - 2);
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) data_loss("a record of a tar archive has no \"=\"");
    take_record(entry.substr(0, equals), entry.substr(equals + 1), records);
    text.remove_prefix(*length);
  }
  return records;
}

std::string_view type_text(char type) {
  switch (type) {
    case '1':
      return "a hard link";
    case '2':
      return "a symbolic link";
    case '3':
    case '4':
      return "a device";
    case '5':
      return "a folder";
    case '6':
      return "a pipe";
    default:
      return "neither a file nor records about the next one";
  }
}

class TarReader {
 public:
  TarReader(std::uint64_t size, const ReadAtFn& read) : size_(size), read_(read) {}

  TarArchive archive() {
    Bytes header(kTarBlock);
    while (next(header)) {
      const std::string place = fmt::format("byte {}", at_);
      with_context([&] { return place; }, [&] { take(header); });
    }
    if (records_)
      data_loss(fmt::format("byte {}: the member that records are about is missing", at_));
    return {std::move(members_), at_};
  }

 private:
  // Reads the block at at_; false at the end of the archive.
  bool next(Bytes& header) const {
    if (size_ < kTarBlock || at_ > size_ - kTarBlock)
      data_loss(fmt::format("the archive has no end: the file ends at byte {}", size_));
    read_(at_, header);
    return !is_zero(header);
  }

  void take(ByteView header) {
    if (!looks_like_tar(header)) data_loss("there is no header of a tar archive");
    if (octal_in(header, kChecksumAt, kChecksumSize, "checksum") != checksum_of(header))
      data_loss("the checksum of this header does not match");
    TarMember member{.name = std::string(text_in(header, 0, 100)),
                     .offset = at_ + kTarBlock,
                     .size = octal_in(header, 124, 12, "size")};
    if (const std::string_view folder = text_in(header, 345, 155); !folder.empty())
      member.name.insert(0, std::string(folder) + "/");
    const char type = as_text(header)[156];
    if (type == 'x') return take_records(member);
    if (records_) {
      member.name = records_->path.value_or(member.name);
      member.size = records_->size.value_or(member.size);
      records_.reset();
    }
    with_context([&] { return printable_utf8(member.name); },
                 [&] {
                   if (type != '0' && type != '\0')
                     throw Error(Code::kUnimplemented,
                                 fmt::format("is {}, in a tar archive", type_text(type)));
                   pass(member);
                   if (std::ranges::find(members_, member.name, &TarMember::name) != members_.end())
                     data_loss("the archive has two members of this name");
                 });
    if (members_.size() == kMostMembers)
      throw Error(Code::kUnimplemented,
                  fmt::format("a tar archive of more than {} members", kMostMembers));
    members_.push_back(std::move(member));
  }

  void take_records(const TarMember& member) {
    if (records_) data_loss("two members have records about the same one");
    if (member.size > kMostOfRecords) data_loss(fmt::format("records of {} bytes", member.size));
    pass(member);
    Bytes text(member.size);
    read_(member.offset, text);
    records_ = parse_records(as_text(text));
  }

  // Goes on behind the content.
  void pass(const TarMember& member) {
    if (member.size > size_ - member.offset)
      data_loss(fmt::format("its {} bytes begin at byte {}, but the file ends at byte {}",
                            member.size, member.offset, size_));
    // The content ends in the file, so that its last block does not overflow.
    at_ = member.offset + (member.size + kTarBlock - 1) / kTarBlock * kTarBlock;
  }

  std::uint64_t size_;
  const ReadAtFn& read_;
  std::uint64_t at_ = 0;
  std::optional<Records> records_;
  std::vector<TarMember> members_;
};

}  // namespace

bool looks_like_tar(ByteView first) {
  return first.size() >= kTarBlock && as_text(first).substr(kMagicAt).starts_with("ustar");
}

TarArchive read_tar(std::uint64_t size, const ReadAtFn& read) {
  return TarReader(size, read).archive();
}

}  // namespace cairn::inline v0::pytorch
