#include <cairn/formats/pytorch/file/pickled_file.h>

#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/pytorch/file/tar_file.h>
#include <cairn/formats/pytorch/file/tar_members.h>
#include <cairn/formats/zip/deflated_bytes.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kFirstRead = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMostOfPickle = std::uint64_t{1} << 30U;  // bytes
// A deflated pickle may have this many bytes, and this many more for each byte that is stored.
// PyTorch deflates none, and a pickle takes several times its size in memory.
constexpr std::uint64_t kMostOfDeflated = std::uint64_t{4} << 20U;
constexpr std::uint64_t kMostInflated = 16;
constexpr std::size_t kLegacyPickles = 5;
constexpr const char* kDamaged = "its bytes are damaged: their CRC-32 does not match";

bool ends_as_pickle(std::string_view name) { return name.ends_with(".pkl"); }

void check_size(const ZipMember& member) {
  if (member.size > kMostOfPickle) data_loss("it has " + std::to_string(member.size) + " bytes");
}

void check_deflated(std::uint64_t size, std::uint64_t stored) {
  if (size <= kMostOfDeflated || (size - kMostOfDeflated) / kMostInflated < stored) return;
  throw Error(Code::kUnimplemented,
              fmt::format("{} bytes that are deflated to {}, more than {} times less; PyTorch "
                          "stores pickles as they are",
                          size, stored, kMostInflated));
}

}  // namespace

pickle::Pickle pickle_at(std::uint64_t begin, std::uint64_t size, const ReadAtFn& read,
                         std::uint64_t first) {
  for (std::uint64_t length = first;; length *= 4) {
    const std::uint64_t left = std::min(size - begin, kMostOfPickle);
    Bytes bytes(std::min(length, left));
    read(begin, bytes);
    const bool is_all = bytes.size() == left;
    try {
      return pickle::parse_pickle(std::move(bytes));
    } catch (const pickle::CutOffError&) {
      if (is_all) throw;
    }
  }
}

void check_method(const ZipMember& member) {
  if (member.method == ZipMember::kDeflated) return;
  if (member.method != ZipMember::kStored || member.encrypted)
    throw Error(Code::kUnimplemented,
                "it is encrypted, or compressed by another method than deflate");
}

Bytes member_content(const ZipMember& member, const ReadAtFn& read) {
  check_size(member);
  check_method(member);
  if (member.method == ZipMember::kDeflated) {
    check_deflated(member.size, member.stored);
    // Memory grows with what is decoded, not with the size that the directory claims.
    DeflatedReader reader(member, read);
    Bytes content;
    while (content.size() < member.size) {
      const std::size_t begin = content.size();
      content.resize(std::min<std::uint64_t>(begin + kFirstRead, member.size));
      reader.read(MutableByteView(content).subspan(begin));
    }
    return content;
  }
  Bytes content(member.size);
  read(member.offset, content);
  if (member.crc != 0 && crc32(content) != member.crc) data_loss(kDamaged);
  return content;
}

namespace {

// Throws data_loss unless the checksum of a stored member matches. Reads it in pieces.
void check_stored(const ZipMember& member, const ReadAtFn& read) {
  if (member.crc == 0) return;
  Bytes piece(kFirstRead);
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < member.size; at += piece.size()) {
    piece.resize(std::min(kFirstRead, member.size - at));
    read(member.offset + at, piece);
    crc = crc32_extend(crc, piece);
  }
  if (crc != member.crc) data_loss(kDamaged);
}

}  // namespace

pickle::Pickle member_pickle(const ZipMember& member, const ReadAtFn& read) {
  if (member.method == ZipMember::kDeflated || member.size <= kFirstRead)
    return pickle::parse_pickle(member_content(member, read));
  check_size(member);
  check_method(member);
  check_stored(member, read);
  return pickle_at(member.offset, member.offset + member.size, read);
}

namespace {

PickledFile read_zip(std::uint64_t size, const ReadAtFn& read) {
  PickledFile file{.form = PickledForm::kZip, .pickles = {}};
  std::vector<ZipMember> members = read_zip_directory(size, read);
  for (ZipMember& member : members)
    with_context([&] { return member.name; }, [&] { locate_zip_member(member, read); });
  check_no_overlap(members);
  std::uint64_t deflated = 0;  // bytes of all pickles that are deflated
  for (const ZipMember& member : members) {
    if (!ends_as_pickle(member.name)) continue;
    const auto parse = [&] {
      if (member.method == ZipMember::kDeflated) check_deflated(deflated += member.size, size);
      return member_pickle(member, read);
    };
    pickle::Pickle found = with_context([&] { return member.name; }, parse);
    file.pickles.push_back(
        {.member = member.name, .has_checksum = member.crc != 0, .pickle = std::move(found)});
  }
  if (file.pickles.empty())
    throw Error(Code::kInvalidArgument, "a zip archive without a pickle (a member .../data.pkl)");
  return file;
}

}  // namespace

bool looks_like_pickle(ByteView first) {
  return first.size() >= 2 && first[0] == std::byte{0x80} && first[1] >= std::byte{2} &&
         first[1] <= std::byte{5};
}

bool looks_like_zip(ByteView first) { return as_text(first).starts_with("PK\3\4"); }

PickledFile read_pickles(std::uint64_t size, const ReadAtFn& read) {
  Bytes first(std::min<std::uint64_t>(size, pytorch::kTarBlock));
  read(0, first);
  if (looks_like_zip(first)) return read_zip(size, read);
  if (pytorch::looks_like_tar(first))
    return {.form = PickledForm::kTar, .pickles = pytorch::read_tar_pickles(size, read)};
  const bool legacy = begins_as_torch_legacy(as_text(first));
  PickledFile file{.form = legacy ? PickledForm::kLegacy : PickledForm::kPlain, .pickles = {}};
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < (legacy ? kLegacyPickles : 1); ++i) {
    pickle::Pickle found = pickle_at(at, size, read);
    file.pickles.push_back({.member = {}, .begin = at, .pickle = std::move(found)});
    at += file.pickles.back().pickle.end();
  }
  return file;
}

}  // namespace cairn::inline v0
