// data_files.h -- the table of data files in every manifest and node, and the references into those
// files.
//
// Arrays are stored by column: one field of all entries, then the next field. The table:
//      num_files            varint64   1
//      path_prefix_length   varint16   num_files - 1; bytes shared with the previous path; the
//                                      first path has none
//      path_suffix_length   varint16   num_files
//      base_path_length     varint16   num_files; length of the base path, the rest of the path is
//                                      the relative path
//      path_suffix          bytes      num_files, concatenated
// A reference into it has three columns: file id varint64 (index in the table), offset varint64,
// length varint64.
//
// Resolution: an object that was reached with base path B has its files at B + base + relative.
// Objects reached through those files have the base path B + base. Base paths therefore accumulate
// on the way down the tree; relative paths do not.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/bytes.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::ocdbt {

// The longest path of a data file in bytes.
inline constexpr std::size_t kMaxPathLength = 65535;

// One file of the table.
struct DataFile {
  std::string base_path;
  std::string relative_path;
  bool operator==(const DataFile&) const = default;
};
using DataFileTable = std::vector<DataFile>;

// Decodes a table. Throws data_loss.
DataFileTable read_data_files(ByteReader& in);
// Encodes a table.
void write_data_files(ByteWriter& out, const DataFileTable& files);

// The path of a file in the database's store. Its first base_length bytes are the base path of
// objects stored in the file.
struct ResolvedFile {
  std::string path;
  std::size_t base_length = 0;

  [[nodiscard]] std::string base_path() const { return path.substr(0, base_length); }
};
// Resolves a file against a base path. Throws data_loss if the resulting path is not safe to open.
ResolvedFile resolve_file(const DataFile& file, std::string_view base_path);
// Throws data_loss if a path of the table, prefixed with a base path of that length, exceeds
// kMaxPathLength.
void check_path_lengths(const DataFileTable& files, std::size_t base_path_length);
// Throws data_loss for an unsafe path; paths come from untrusted bytes. Unsafe are paths with an
// empty, "." or ".." component (so also a leading or trailing '/'), with NUL, or with a component
// that ends in ".__lock". '\' separates components, too.
void check_file_path(std::string_view path);

// Bytes [offset, offset + length) of file number `file` in the object's table.
struct DataRef {
  static constexpr std::uint64_t kMissing = ~std::uint64_t{0};
  std::uint64_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] bool missing() const { return offset == kMissing && length == kMissing; }
  bool operator==(const DataRef&) const = default;
};

// The content of a subtree, as the writer recorded it. Readers do not rely on it.
struct Statistics {
  std::uint64_t num_keys = 0;
  std::uint64_t num_tree_bytes = 0;            // encoded sizes of all its nodes
  std::uint64_t num_indirect_value_bytes = 0;  // sizes of all its out-of-line values
  bool operator==(const Statistics&) const = default;
};

// Whether a reference may be missing, as the root of an empty tree is.
enum class AllowMissing : bool { kNo, kYes };

// Throws data_loss unless `file` is an index into a table of num_files. `i` identifies the
// reference in the message.
void check_file_id(std::uint64_t file, std::size_t num_files, std::size_t i);
// Throws data_loss unless offset + length <= 2^63 - 1, or the reference is missing and `allow`
// permits that.
void check_data_ref(const DataRef& ref, AllowMissing allow, std::size_t i);
// Throws unimplemented if the decoded size is so large for the encoded size that the file is most
// likely hostile. For prefix-compressed strings.
void check_expansion(std::uint64_t decoded, std::uint64_t encoded, std::string_view what);

// Read and write columns of any entries. `member` is the pointer to the entries' DataRef or
// Statistics.
template <class Entries, class Member>
void read_data_refs(ByteReader& in, Entries& entries, Member member, std::size_t num_files,
                    AllowMissing allow) {
  std::size_t i = 0;
  for (auto& e : entries) check_file_id((e.*member).file = in.varint(), num_files, i++);
  for (auto& e : entries) (e.*member).offset = in.varint();
  for (auto& e : entries) (e.*member).length = in.varint();
  i = 0;
  for (const auto& e : entries) check_data_ref(e.*member, allow, i++);
}
template <class Entries, class Member>
void write_data_refs(ByteWriter& out, const Entries& entries, Member member) {
  for (const auto& e : entries) out.varint((e.*member).file);
  for (const auto& e : entries) out.varint((e.*member).offset);
  for (const auto& e : entries) out.varint((e.*member).length);
}
template <class Entries, class Member>
void read_statistics(ByteReader& in, Entries& entries, Member member) {
  for (auto& e : entries) (e.*member).num_keys = in.varint();
  for (auto& e : entries) (e.*member).num_tree_bytes = in.varint();
  for (auto& e : entries) (e.*member).num_indirect_value_bytes = in.varint();
}
template <class Entries, class Member>
void write_statistics(ByteWriter& out, const Entries& entries, Member member) {
  for (const auto& e : entries) out.varint((e.*member).num_keys);
  for (const auto& e : entries) out.varint((e.*member).num_tree_bytes);
  for (const auto& e : entries) out.varint((e.*member).num_indirect_value_bytes);
}

}  // namespace cairn::inline v0::ocdbt
