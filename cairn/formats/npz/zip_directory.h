// zip_directory.h -- the members of a zip archive, found and checked; their contents are someone
// else's to read.
//
//   local header 1 | name | extra | bytes of member 1 [data descriptor]
//   ...
//   central header 1 | name | extra | comment
//   ...
//   [zip64 end record | its locator]     where 16 or 32 bits do not suffice
//   end record | comment
//
// An archive is what its central directory says. Refused with data_loss: a directory that does not
// lie directly before the end record, members that overlap each other or the directory, local
// headers that say something else, names that are there twice.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// Fills all of its second argument with the archive's bytes from an offset on; that they lie inside
// it is checked before.
using ReadAtFn = std::function<void(std::uint64_t, MutableByteView)>;

struct ZipMember {
  static constexpr std::uint16_t kStored = 0, kDeflated = 8;

  std::string name;  // UTF-8
  std::uint16_t method = kStored;
  bool encrypted = false;
  std::uint32_t crc = 0;     // CRC-32 of the content
  std::uint64_t header = 0;  // where its local header is
  std::uint64_t offset = 0;  // where its bytes begin; known after locate_zip_member
  std::uint64_t stored = 0;  // bytes in the archive
  std::uint64_t size = 0;    // of the content
  // where the central directory begins: the end of what the member may take
  std::uint64_t directory = 0;
};

// In the order of the directory. Memory: some times the directory's own size, never what a length
// claims.
std::vector<ZipMember> read_zip_directory(std::uint64_t archive_size, const ReadAtFn& read);

// Reads the member's local header, which must agree, and sets `offset`.
void locate_zip_member(ZipMember& member, const ReadAtFn& read);

// Of all members that have been located.
void check_no_overlap(const std::vector<ZipMember>& members);

// Why a member may not have this name: it is not UTF-8, or it would, taken as a path, lead out of a
// folder. nullptr if it may.
const char* flaw_of_zip_name(std::string_view name);

}  // namespace cairn
