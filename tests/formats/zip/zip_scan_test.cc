// The scan of archives without a directory: whole members are found, and no damage makes it read
// outside of the archive.
#include <cairn/formats/zip/zip_scan.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace cairn::inline v0 {
namespace {

struct Sample {
  std::string name;
  std::string content;
  bool has_descriptor = false;  // the sizes follow the content
};

// An archive without a directory.
Bytes archive_of(const std::vector<Sample>& members) {
  ByteWriter out;
  for (const auto& [name, content, has_descriptor] : members) {
    const std::uint32_t crc = crc32(as_bytes(content));
    const auto size = static_cast<std::uint32_t>(content.size());
    out.text(std::string_view("PK\3\4", 4)).u16(20).u16(has_descriptor ? 8 : 0).u16(0).u32(0);
    out.u32(has_descriptor ? 0 : crc).u32(has_descriptor ? 0 : size);
    out.u32(has_descriptor ? 0 : size).u16(static_cast<std::uint16_t>(name.size())).u16(0);
    out.text(name).text(content);
    if (has_descriptor) out.text(std::string_view("PK\7\10", 4)).u32(crc).u32(size).u32(size);
  }
  return std::move(out).take();
}

// Fails the test if the scan reads outside of the archive.
ScannedZip scan(const Bytes& archive) {
  return scan_zip(archive.size(), [&](std::uint64_t offset, MutableByteView out) {
    ASSERT_LE(offset, archive.size());
    ASSERT_LE(out.size(), archive.size() - offset);
    std::copy_n(archive.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  });
}

std::string content_of(const Bytes& archive, const ZipMember& member) {
  return std::string(as_text(ByteView(archive).subspan(member.offset, member.stored)));
}

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all{
      {"a", "first content"}, {"b", "second, with a descriptor", true}, {"c", ""}, {"d", "last"}};
  return all;
}

TEST(ZipScan, FindsAllMembers) {
  const Bytes archive = archive_of(samples());
  const ScannedZip found = scan(archive);
  ASSERT_EQ(found.members.size(), samples().size());
  EXPECT_TRUE(found.lost.empty());
  EXPECT_TRUE(found.notes.empty());
  for (std::size_t i = 0; i < samples().size(); ++i) {
    EXPECT_EQ(found.members[i].name, samples()[i].name);
    EXPECT_EQ(content_of(archive, found.members[i]), samples()[i].content);
    EXPECT_EQ(found.members[i].crc, crc32(as_bytes(samples()[i].content)));
  }
}

TEST(ZipScan, FindsTheWholeMembersOfEachTruncatedArchive) {
  const Bytes archive = archive_of(samples());
  std::vector<std::size_t> ends;
  for (std::size_t n = 1; n <= samples().size(); ++n)
    ends.push_back(
        archive_of({samples().begin(), samples().begin() + static_cast<long>(n)}).size());
  for (std::size_t size = 0; size <= archive.size(); ++size) {
    const ScannedZip found =
        scan(Bytes(archive.begin(), archive.begin() + static_cast<long>(size)));
    EXPECT_EQ(found.members.size(), static_cast<std::size_t>(std::ranges::count_if(
                                        ends, [&](std::size_t end) { return end <= size; })))
        << size;
  }
}

TEST(ZipScan, FindsTheOthersIfOneByteIsDamaged) {
  const Bytes archive = archive_of(samples());
  std::size_t begin = 0;
  for (std::size_t damaged = 0; damaged < samples().size(); ++damaged) {
    const std::size_t end =
        archive_of({samples().begin(), samples().begin() + static_cast<long>(damaged) + 1}).size();
    for (std::size_t at = begin; at < end; ++at)
      for (unsigned bit = 0; bit < 8; ++bit) {
        Bytes copy = archive;
        copy[at] ^= static_cast<std::byte>(1U << bit);
        const ScannedZip found = scan(copy);
        for (std::size_t i = 0; i < samples().size(); ++i) {
          if (i == damaged) continue;
          const auto member = std::ranges::find(found.members, samples()[i].name, &ZipMember::name);
          // A damaged name may be that of another member: then nobody can tell which is right.
          if (member == found.members.end()) {
            EXPECT_TRUE(std::ranges::any_of(
                found.lost, [&](const auto& lost) { return lost.first == samples()[i].name; }))
                << at << ", bit " << bit << ", " << samples()[i].name;
            continue;
          }
          EXPECT_EQ(content_of(copy, *member), samples()[i].content) << at << ", bit " << bit;
        }
      }
    begin = end;
  }
}

}  // namespace
}  // namespace cairn::inline v0
