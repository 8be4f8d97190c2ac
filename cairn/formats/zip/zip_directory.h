// zip_directory.h -- finds and checks the members of a zip archive. It does not read their
// contents.
//
//   local header 1 | name | extra | bytes of member 1 [data descriptor]
//   ...
//   central header 1 | name | extra | comment
//   ...
//   [zip64 end record | its locator]     if 16 or 32 bits do not suffice
//   end record | comment
//
// The central directory decides what the archive holds. These are refused with data_loss: a
// directory that does not end directly before the end record, members that overlap each other or
// the directory, local headers that contradict the directory, and duplicate names.
#pragma once

#include <cairn/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Fills all of its second argument with the archive's bytes from an offset on. The caller has
// checked that they lie inside the archive.
using ReadAtFn = std::function<void(std::uint64_t, MutableByteView)>;

// Serves the short reads of one member's headers from one read of the archive.
class HeadReads {
 public:
  // `read` must stay valid as long as this object lives.
  HeadReads(const ReadAtFn& read, std::uint64_t archive_size) : read_(read), size_(archive_size) {}
  // As ReadAtFn.
  void operator()(std::uint64_t offset, MutableByteView out);

 private:
  const ReadAtFn& read_;
  std::uint64_t size_;
  std::uint64_t start_ = 0;  // where `bytes_` lie in the archive
  std::size_t filled_ = 0;
  std::array<std::byte, 512> bytes_{};  // both headers of most arrays, with their names
};

// One member, as the central directory describes it.
struct ZipMember {
  static constexpr std::uint16_t kStored = 0, kDeflated = 8;

  std::string name;  // UTF-8
  std::uint16_t method = kStored;
  bool encrypted = false;
  std::uint8_t version = 0;  // of the zip format that a reader needs, times ten
  bool needs_more = false;   // patched data or strong encryption
  std::uint32_t crc = 0;     // CRC-32 of the content
  std::uint64_t header = 0;  // offset of its local header
  std::uint64_t offset = 0;  // offset of its bytes; set by locate_zip_member
  std::uint64_t stored = 0;  // bytes in the archive
  std::uint64_t size = 0;    // bytes of the content
  // offset of the central directory, which a member must not reach
  std::uint64_t directory = 0;
};

// The members, in the order of the directory. Memory is a small multiple of the directory's size
// and never depends on a claimed length. Throws data_loss for damage.
std::vector<ZipMember> read_zip_directory(std::uint64_t archive_size, const ReadAtFn& read);

// Reads the member's local header and sets `offset`. Throws data_loss if the header contradicts the
// directory.
void locate_zip_member(ZipMember& member, const ReadAtFn& read);

// Throws data_loss if two members overlap. Every member must have been located.
void check_no_overlap(const std::vector<ZipMember>& members);

// Why a member may not have this name: it is not UTF-8, or has a NUL byte. Returns nullptr for a
// valid name. Names that start with '/' or have ".." are valid, as in NumPy: they are only keys.
const char* flaw_of_zip_name(std::string_view name);

}  // namespace cairn::inline v0
