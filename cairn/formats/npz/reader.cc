// reader.cc -- opens .npy and .npz files as checkpoints. Each array is one leaf, named as
// numpy.load names it. Opening reads the directory and the headers; values are read, mapped or
// decoded on request.
#include <cairn/base/checksum.h>
#include <cairn/base/executor.h>
#include <cairn/base/hash.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/npz/npy_header.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/formats/zip/deflated_bytes.h>
#include <cairn/formats/zip/zip_directory.h>
#include <cairn/formats/zip/zip_scan.h>
#include <cairn/io/tree/read_ahead.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/npz.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kSuffix = ".npy";

std::string without_suffix(std::string_view name) {
  return std::string(name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name);
}

// Reads the next bytes of a content.
using NextFn = std::function<void(MutableByteView)>;

// Reads the header of a content of `size` bytes. Returns nullopt if the content is not a .npy file.
std::optional<Bytes> read_header(std::uint64_t size, const NextFn& next) {
  Bytes header(std::min<std::uint64_t>(kNpyPrefix, size));
  next(header);
  if (!as_text(header).starts_with(kNpyMagic)) return std::nullopt;
  const std::uint64_t length = npy_header_size(header);
  if (length > size)
    throw Error(Code::kDataLoss,
                fmt::format("npy header: has {} bytes, but the member has only {}", length, size));
  const std::size_t known = header.size();
  header.resize(length);
  next(MutableByteView(header).subspan(known));
  return header;
}

RawLeaf new_leaf(std::string name) {
  RawLeaf leaf;
  // a name is one flat key, even if it has dots and slashes
  leaf.info.path = {{name, KeyType::kDict}};
  leaf.info.name = std::move(name);
  leaf.info.typestr = "np.ndarray";
  return leaf;
}

// Fills in the leaf of an array from its header; the content has `size` bytes.
void describe(const NpyHeader& header, std::uint64_t size, RawLeaf& leaf) {
  leaf.unreadable = header.unreadable;
  leaf.info.nbytes = size - header.size;
  if (leaf.unreadable.empty() && header.nbytes != leaf.info.nbytes)
    throw Error(
        Code::kDataLoss,
        fmt::format("{} bytes follow the header, but an array of {} {} takes {}", leaf.info.nbytes,
                    header.dtype_name, shape_text(header.shape), header.nbytes));
  leaf.info.dtype = header.dtype;
  leaf.info.dtype_name = header.dtype_name;
  leaf.info.element_size = header.element_size;
  leaf.info.shape = header.shape;
  leaf.info.stored_nbytes = leaf.info.nbytes;
  leaf.array.big_endian = header.big_endian;
  // With at most one extent other than 1, the two orders are the same.
  const auto extents = std::count_if(header.shape.begin(), header.shape.end(),
                                     [](std::int64_t n) { return n != 1; });
  if (!header.fortran_order || extents <= 1) return;
  leaf.array.axes.resize(header.shape.size());
  std::iota(leaf.array.axes.rbegin(), leaf.array.axes.rend(), std::uint8_t{0});
}

// A member that cannot be described becomes a leaf with an error, so that the others can be read.
RawLeaf broken_leaf(std::string name, const Error& e) {
  RawLeaf leaf = new_leaf(std::move(name));
  leaf.info.kind = LeafKind::kUnknown;
  leaf.info.error = e.message();
  leaf.info.error_code = e.code();
  return leaf;
}

// The last version of the zip format is 6.3. NumPy refuses an archive that needs a later one.
void check_features(const ZipMember& member) {
  constexpr unsigned kLastVersion = 63;
  if (member.encrypted) throw Error(Code::kUnimplemented, "the member is encrypted");
  if (member.needs_more)
    throw Error(Code::kUnimplemented,
                "the member is patched data or strongly encrypted, which NumPy does not read");
  if (member.version > kLastVersion)
    throw Error(Code::kUnimplemented,
                fmt::format("the member needs version {}.{} of the zip format, and the last is 6.3",
                            member.version / 10, member.version % 10));
}

// Returns nullopt if the member is not an array. Sets `refused` as NpyHeader has it.
std::optional<RawLeaf> read_member(const ZipMember& member, const ReadAtFn& read,
                                   std::string& refused) {
  RawLeaf leaf = new_leaf(without_suffix(member.name));
  check_features(member);
  std::optional<Bytes> header;
  if (member.method == ZipMember::kStored) {
    std::uint64_t at = member.offset;
    header = read_header(member.size, [&](MutableByteView out) {
      read(at, out);
      at += out.size();
    });
  } else if (member.method == ZipMember::kDeflated) {
    DeflatedReader content(member, read);
    header = read_header(member.size, [&](MutableByteView out) { content.read(out); });
  } else {
    throw Error(
        Code::kUnimplemented,
        fmt::format(
            "it is compressed by zip's method {}; only deflate (8) and none (0) can be read",
            member.method));
  }
  if (!header && member.name.ends_with(kSuffix))
    throw Error(Code::kDataLoss, "npy header: it does not begin with \\x93NUMPY");
  if (!header) return std::nullopt;
  const NpyHeader decoded = decode_npy_header(*header);
  describe(decoded, member.size, leaf);
  refused = decoded.refused;
  if (member.method == ZipMember::kStored) {
    leaf.array.runs.push_back({0, member.offset + decoded.size, leaf.info.nbytes});
    leaf.array.checksum = {.kind = &kCrc32, .before = crc32(*header), .whole = member.crc};
  } else {
    leaf.array.stream = std::make_shared<DeflatedBytes>(member, decoded.size);
    leaf.info.stored_nbytes = member.stored;
  }
  return leaf;
}

void check_names(const std::vector<RawLeaf>& leaves) {
  std::vector<std::string_view> names;
  names.reserve(leaves.size());
  for (const RawLeaf& leaf : leaves) names.emplace_back(leaf.info.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw Error(Code::kDataLoss, fmt::format("two members are arrays named \"{}\"", *twice));
}

// A fingerprint of the values that does not depend on the archive's time: the directory has a
// checksum of each member.
std::string checksums_text(const std::vector<ZipMember>& members) {
  std::uint64_t hash = members.size();
  for (const ZipMember& member : members) hash = splitmix64(hash ^ member.crc);
  return fmt::format("{:016x}", hash);
}

// What `verify` says of an array that NumPy does not read.
Finding refusal(const std::string& file, const std::string& name, std::string why) {
  return {
      .severity = Severity::kNotChecked, .tensor = name, .file = file, .message = std::move(why)};
}

// The members of an archive that can be read without its directory. Others become leaves with an
// error.
std::vector<ZipMember> scan_members(const File& file, const ReadAtFn& read,
                                    std::vector<RawLeaf>& lost, std::vector<Finding>& notes) {
  ScannedZip scanned = scan_zip(file.size(), read);
  for (const auto& [name, why] : scanned.lost)
    lost.push_back(broken_leaf(without_suffix(name), Error(Code::kDataLoss, why)));
  for (const std::string& note : scanned.notes)
    notes.push_back({.severity = Severity::kDamage, .file = file.path(), .message = note});
  return std::move(scanned.members);
}

// The arrays of an archive, in the order of its directory. Other members become notes.
std::vector<RawLeaf> read_members(const File& file, ZipReading reading, Executor& executor,
                                  CheckpointInfo& info, std::vector<Finding>& notes) {
  const ReadAtFn read = [&](std::uint64_t offset, MutableByteView out) {
    file.read_into(offset, out);
  };
  std::vector<RawLeaf> leaves;
  std::vector<ZipMember> members = reading == ZipReading::kDirectory
                                       ? read_zip_directory(file.size(), read)
                                       : scan_members(file, read, leaves, notes);
  std::vector<std::optional<RawLeaf>> found(members.size());
  std::vector<std::string> refused(members.size());
  executor.for_each(members.size(), [&](std::size_t i) {
    HeadReads head(read, file.size());
    const ReadAtFn read_head = std::ref(head);
    try {
      if (reading == ZipReading::kDirectory) locate_zip_member(members[i], read_head);
      found[i] = read_member(members[i], read_head, refused[i]);
    } catch (const Error& e) {
      if (e.code() == Code::kIo || e.code() == Code::kUnavailable) throw;
      found[i] = broken_leaf(without_suffix(members[i].name), e);
    }
  });
  if (reading == ZipReading::kDirectory) check_no_overlap(members);
  std::size_t compressed = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) {
      notes.push_back({.severity = Severity::kNote,
                       .file = file.path(),
                       .message = fmt::format("member \"{}\" is not an array", members[i].name)});
      continue;
    }
    if (!refused[i].empty())
      notes.push_back(refusal(file.path(), found[i]->info.name, std::move(refused[i])));
    compressed += found[i]->array.stream ? 1 : 0;
    leaves.push_back(*std::move(found[i]));
  }
  check_names(leaves);
  info.revision.emplace_back("the checksums", checksums_text(members));
  info.facts.emplace_back("arrays", std::to_string(leaves.size()));
  if (compressed > 0) info.facts.emplace_back("deflated arrays", std::to_string(compressed));
  return leaves;
}

// A zip file of another program: npz is one of many kinds of zip files.
[[noreturn]] void refuse_without_arrays(const File& file, const std::vector<Finding>& notes) {
  const auto content = foreign_content(file);
  if (content && content->kind == ForeignKind::kProgram)
    throw Error(content->code(), file.path() + " " + content->message());
  throw Error(
      Code::kInvalidArgument,
      fmt::format(
          "{} is a zip archive without arrays, so not an npz file: {}{}", file.path(),
          notes.front().message,
          notes.size() == 1 ? "" : fmt::format(", nor are the {} others", notes.size() - 1)));
}

std::unique_ptr<Checkpoint> make_checkpoint(const OpenOptions& options, CheckpointInfo info,
                                            File file, std::vector<RawLeaf> leaves,
                                            std::vector<Finding> notes) {
  RawCheckpoint::Contents contents;
  contents.files.push_back(std::move(file));
  contents.reserve(leaves.size());
  for (RawLeaf& leaf : leaves) contents.add(std::move(leaf));
  contents.notes = std::move(notes);
  return std::make_unique<RawCheckpoint>(options, std::move(info), std::move(contents));
}

}  // namespace

std::unique_ptr<Checkpoint> open_npz(const FileTree& tree, const std::string& path,
                                     const OpenOptions& options, ZipReading reading) {
  File file = with_read_ahead(tree.open(path));
  CheckpointInfo info{.format = "npz", .layout = "npz archive", .path = path};
  std::vector<Finding> notes;
  const Workers workers(options.resources.threads);
  std::vector<RawLeaf> leaves = explain_foreign(
      file,
      [&] {
        return with_context(
            [&] { return path; },
            [&] { return read_members(file, reading, workers.executor(), info, notes); });
      },
      ForeignKind::kZip);
  if (leaves.empty() && !notes.empty()) refuse_without_arrays(file, notes);
  return make_checkpoint(options, std::move(info), std::move(file), std::move(leaves),
                         std::move(notes));
}

std::unique_ptr<Checkpoint> open_npy(const FileTree& tree, const std::string& path,
                                     const OpenOptions& options) {
  File file = with_read_ahead(tree.open(path));
  const std::uint64_t size = file.size();
  std::vector<RawLeaf> leaves;
  leaves.push_back(new_leaf(without_suffix(name_of(path))));
  std::vector<Finding> notes;
  const auto read = [&] {
    std::uint64_t at = 0;
    const auto header = read_header(size, [&](MutableByteView out) {
      file.read_into(at, out);
      at += out.size();
    });
    if (!header) throw Error(Code::kDataLoss, "npy header: it does not begin with \\x93NUMPY");
    NpyHeader decoded = decode_npy_header(*header);
    describe(decoded, size, leaves.front());
    if (!decoded.refused.empty())
      notes.push_back(refusal(path, leaves.front().info.name, std::move(decoded.refused)));
    leaves.front().array.runs.push_back({0, header->size(), leaves.front().info.nbytes});
  };
  explain_foreign(file, [&] { with_context([&] { return path; }, read); });
  CheckpointInfo info{.format = "npy", .layout = "npy file", .path = path};
  return make_checkpoint(options, std::move(info), std::move(file), std::move(leaves),
                         std::move(notes));
}

std::unique_ptr<Checkpoint> open_npz(const std::string& path, const OpenOptions& options) {
  const std::string place = normal_path(path);
  return open_npz(tree_around(place, options.store), place, options);
}

std::unique_ptr<Checkpoint> open_npy(const std::string& path, const OpenOptions& options) {
  const std::string place = normal_path(path);
  return open_npy(tree_around(place, options.store), place, options);
}

}  // namespace cairn::inline v0
