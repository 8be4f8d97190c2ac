// tar_members.h -- the files in a tar archive, as Python's tarfile writes them.
//
//   byte   size
//   0      100    name
//   124    12     size of the content, octal
//   148    8      checksum, octal: the sum of the bytes of this block, each of these 8 as a space
//   156    1      type: '0' or NUL is a file, 'x' has records about the next member
//   257    6      "ustar"
//   345    155    folder of the name
//
// Such a block and the content begin at multiples of 512 bytes. A block of zeros ends the archive.
//
// Source of the rules: POSIX.1-2008, pax, "ustar Interchange Format" and "pax Interchange Format".
#pragma once

#include <cairn/bytes.h>
#include <cairn/formats/zip/zip_directory.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

inline constexpr std::size_t kTarBlock = 512;

struct TarMember {
  std::string name;          // any bytes but NUL
  std::uint64_t offset = 0;  // of the content, in the archive
  std::uint64_t size = 0;
};

struct TarArchive {
  std::vector<TarMember> members;
  std::uint64_t end = 0;  // where the block of zeros begins
};

// Whether a file that begins with this block is a tar archive.
bool looks_like_tar(ByteView first);

// Lists an archive of `size` bytes. Throws data_loss for a header whose checksum does not match, a
// content beyond the end of the file, two members of one name and an archive without an end;
// unimplemented for a link, a folder or another type of member, for records that Cairn does not
// know, and for more than 64 members: PyTorch writes four files.
TarArchive read_tar(std::uint64_t size, const ReadAtFn& read);

}  // namespace cairn::inline v0::pytorch
