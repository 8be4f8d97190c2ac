// data_files.h -- the table of data files that every manifest and node carries, and references into
// those files.
//
// Arrays are stored by column: one field of all entries before the next field begins. The table:
//      num_files            varint64        1
//      path_prefix_length   varint16        num_files - 1   bytes shared with the path before; none
//      for the first path_suffix_length   varint16        num_files base_path_length     varint16
//      num_files       how much of the path is base path, the rest is relative path_suffix bytes
//      num_files, concatenated
// A reference into it, three columns: file id varint64 (index in the table), offset varint64,
// length varint64.
//
// Resolution: an object that was reached as base path B has its files at B + base + relative, and
// objects reached through them have the base path B + base. So base paths add up on the way down
// the tree, relative paths do not.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/bytes.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::ocdbt {

inline constexpr std::size_t kMaxPathLength = 65535;

struct DataFile {
  std::string base_path;
  std::string relative_path;
  bool operator==(const DataFile&) const = default;
};
using DataFileTable = std::vector<DataFile>;

DataFileTable read_data_files(ByteReader& in);
void write_data_files(ByteWriter& out, const DataFileTable& files);

// A file's path in the store of the database; its first base_length bytes are the base path for
// objects stored in it.
struct ResolvedFile {
  std::string path;
  std::size_t base_length = 0;

  [[nodiscard]] std::string base_path() const { return path.substr(0, base_length); }
};
// Throws data_loss if the path is not safe to open.
ResolvedFile resolve_file(const DataFile& file, std::string_view base_path);
// Throws data_loss if a path of the table exceeds kMaxPathLength behind a base path of that length.
void check_path_lengths(const DataFileTable& files, std::size_t base_path_length);
// Paths come from untrusted bytes: throws data_loss for one with an empty, "." or ".." component
// (so one that starts or ends with '/'), NUL, or a component ending in ".__lock". '\' separates
// components too.
void check_file_path(std::string_view path);

// Bytes [offset, offset + length) of file number `file` in the table beside it.
struct DataRef {
  static constexpr std::uint64_t kMissing = ~std::uint64_t{0};
  std::uint64_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] bool missing() const { return offset == kMissing && length == kMissing; }
  bool operator==(const DataRef&) const = default;
};

// What a subtree holds. Readers trust none of it.
struct Statistics {
  std::uint64_t num_keys = 0;
  std::uint64_t num_tree_bytes = 0;            // encoded sizes of all its nodes
  std::uint64_t num_indirect_value_bytes = 0;  // sizes of all its out-of-line values
  bool operator==(const Statistics&) const = default;
};

enum class AllowMissing : bool { kNo, kYes };

// Throws data_loss unless `file` is an index into a table of num_files. `what` and `i` name the
// reference.
void check_file_id(std::uint64_t file, std::size_t num_files, std::size_t i);
// Throws data_loss unless offset + length <= 2^63 - 1, or the reference is missing and may be.
void check_data_ref(const DataRef& ref, AllowMissing allow, std::size_t i);
// The file is so small and decodes to so much that it must be hostile: throws data_loss. For
// prefix-compressed texts.
void check_expansion(std::uint64_t decoded, std::uint64_t encoded, std::string_view what);

// Columns over any entries; `member` is the pointer to their DataRef or Statistics.
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

}  // namespace cairn::ocdbt
