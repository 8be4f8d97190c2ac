// writer.cc -- writes an uncompressed archive as numpy.savez does. Each member is a local header,
// its name and a .npy; the central directory follows. Values that do not fit into 16 or 32 bits use
// zip64 fields and end records.
#include <cairn/array/byte_count.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/output/single_output.h>
#include <cairn/formats/output/write_to_place.h>
#include <cairn/formats/raw/part_checksums.h>
#include <cairn/formats/zip/zip_directory.h>
#include <cairn/formats/zip/zip_format.h>
#include <cairn/io/byte_target.h>
#include <cairn/npz.h>
#include <cairn/tensor_source.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

// Larger values go into the zip64 records. The limit is half of what 32 bits hold, because some
// readers take them as signed.
constexpr std::uint64_t kZipLimit = 0x7fffffff;
constexpr std::size_t kZipMaxMembers = 65535;
constexpr std::uint16_t kVersion20 = 20, kVersion45 = 45;
constexpr std::uint16_t kDate = 0x21;  // 1980-01-01, so that equal contents give equal files
constexpr std::uint8_t kMadeOnUnix = 3;
constexpr std::uint32_t kFileMode = 0600U << 16U;

struct Member {
  std::string name;
  Bytes header;              // of the .npy
  std::uint64_t offset = 0;  // of the local header
  std::uint64_t size = 0;    // of the .npy
  std::uint32_t crc = 0;
  [[nodiscard]] bool large() const { return size > kZipLimit; }
};

std::uint16_t name_flags(const std::string& name) {
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; })
             ? 0
             : kUtf8Name;
}

std::uint16_t name_length(const std::string& name) {
  return static_cast<std::uint16_t>(name.size());
}

Bytes local_header(const Member& m) {
  ByteWriter out;
  const auto size = m.large() ? kIn64Bits : static_cast<std::uint32_t>(m.size);
  out.text("PK\x03\x04")
      .u16(m.large() ? kVersion45 : kVersion20)
      .u16(name_flags(m.name))
      .u16(0)
      .u16(0)
      .u16(kDate);
  out.u32(m.crc).u32(size).u32(size).u16(name_length(m.name)).u16(m.large() ? 20 : 0).text(m.name);
  if (m.large()) out.u16(kZip64Tag).u16(16).u64(m.size).u64(m.size);
  return std::move(out).take();
}

void append_central(ByteWriter& out, const Member& m) {
  ByteWriter extra;
  if (m.large()) extra.u64(m.size).u64(m.size);
  if (m.offset > kZipLimit) extra.u64(m.offset);
  const bool zip64 = extra.size() > 0;
  const auto size = m.large() ? kIn64Bits : static_cast<std::uint32_t>(m.size);
  const auto offset = m.offset > kZipLimit ? kIn64Bits : static_cast<std::uint32_t>(m.offset);
  const std::uint16_t version = zip64 ? kVersion45 : kVersion20;
  out.text("PK\x01\x02")
      .u8(static_cast<std::uint8_t>(version))
      .u8(kMadeOnUnix)
      .u16(version)
      .u16(name_flags(m.name));
  out.u16(0).u16(0).u16(kDate).u32(m.crc).u32(size).u32(size).u16(name_length(m.name));
  out.u16(zip64 ? static_cast<std::uint16_t>(4 + extra.size()) : std::uint16_t{0})
      .u16(0)
      .u16(0)
      .u16(0)
      .u32(kFileMode)
      .u32(offset)
      .text(m.name);
  if (zip64) out.u16(kZip64Tag).u16(static_cast<std::uint16_t>(extra.size())).bytes(extra.view());
}

Bytes directory(std::span<const Member> members, std::uint64_t start) {
  ByteWriter out;
  for (const Member& m : members) append_central(out, m);
  const std::uint64_t size = out.size();
  const bool zip64 = members.size() > kZipMaxMembers || start > kZipLimit || size > kZipLimit;
  if (zip64) {
    out.text("PK\x06\x06").u64(44).u16(kVersion45).u16(kVersion45).u32(0).u32(0);
    out.u64(members.size()).u64(members.size()).u64(size).u64(start);
    out.text(std::string_view("PK\x06\x07\0\0\0\0", 8)).u64(start + size).u32(1);
  }
  const auto count = static_cast<std::uint16_t>(std::min(members.size(), kZipMaxMembers));
  const auto clamp = [](std::uint64_t v) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(v, kIn64Bits));
  };
  out.text("PK\x05\x06")
      .u16(0)
      .u16(0)
      .u16(count)
      .u16(count)
      .u32(clamp(size))
      .u32(clamp(start))
      .u16(0);
  return std::move(out).take();
}

// Refuses names that a reader would refuse.
void check_name(const std::string& name) {
  if (const char* flaw = flaw_of_zip_name(name + ".npy"))
    throw Error(
        Code::kInvalidArgument,
        fmt::format(
            "\"{}\" {}, which is not allowed in the name of a zip member; rename the tensor", name,
            flaw));
  if (name.size() > 65535 - 4)
    throw Error(Code::kInvalidArgument,
                fmt::format("\"{}...\": the name is too long for a zip", name.substr(0, 40)));
}

// Assigns the members their places in the file. Their checksums are not known yet.
std::vector<Member> lay_out(std::span<const TensorSource> tensors) {
  std::vector<Member> members;
  std::vector<std::string_view> names;
  std::uint64_t at = 0;
  for (const TensorSource& tensor : tensors) {
    check_name(tensor.name);
    names.emplace_back(tensor.name);
    Member m{.name = tensor.name + ".npy",
             .header = npy_header(tensor.dtype, tensor.shape),
             .offset = at};
    m.size = m.header.size() + byte_count(tensor.shape, tensor.dtype);
    at += local_header(m).size() + m.size;
    members.push_back(std::move(m));
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw Error(Code::kInvalidArgument, fmt::format("two tensors are named \"{}\"", *twice));
  return members;
}

// Where the members end and the directory begins.
std::uint64_t end_of(std::span<const Member> members) {
  if (members.empty()) return 0;
  const Member& last = members.back();
  return last.offset + local_header(last).size() + last.size;
}

std::vector<Placement> place(std::span<const Member> members, std::span<const TensorSource> tensors,
                             ByteTarget& file) {
  std::vector<Placement> placements;
  placements.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::uint64_t data =
        members[i].offset + local_header(members[i]).size() + members[i].header.size();
    placements.push_back({.tensor = i,
                          .file = &file,
                          .offset = data,
                          .nbytes = members[i].size - members[i].header.size(),
                          .element_size = dtype_size(tensors[i].dtype),
                          .cut = tensors[i].cut});
  }
  return placements;
}

// The arrays of an archive, and what stands between them.
class Members {
 public:
  Members(std::vector<Member>& members, std::span<const TensorSource> tensors, const FetchFn& fetch,
          const NpzWriteOptions& options)
      : members_(members), tensors_(tensors), fetch_(fetch), options_(options) {}

  // Writes this process's share. Returns the message with its checksums.
  Bytes write(ByteTarget& file, WorkShare share, const ProgressFn& progress) {
    const std::vector<Placement> mine = placements_of(place(members_, tensors_, file), share);
    std::deque<PartChecksums> parts;
    for (std::size_t i = 0; i < members_.size(); ++i) parts.emplace_back(kCrc32);
    write_pieces(mine, fetch_,
                 {.executor = &workers_.executor(),
                  .memory = options_.resources.memory,
                  .progress = progress,
                  .observe = [&](std::size_t i, std::uint64_t offset, ByteView bytes) {
                    parts[mine[i].tensor].add(offset, bytes);
                  }});
    return checksums_message(parts);
  }

  // Takes over the checksums of all processes.
  void set_checksums(const std::vector<Bytes>& messages) {
    for (Member& m : members_) m.crc = crc32(m.header);
    join_checksums(kCrc32, messages,
                   [&](std::size_t i) -> std::uint32_t& { return members_.at(i).crc; });
  }

  // Writes all but the arrays. Needs the checksums.
  void write_headers(ByteTarget& file) const {
    for (const Member& m : members_) {
      Bytes front = local_header(m);
      front.insert(front.end(), m.header.begin(), m.header.end());
      file.write_at(m.offset, front);
    }
    file.write_at(end_of(members_), directory(members_, end_of(members_)));
  }

 private:
  std::vector<Member>& members_;
  std::span<const TensorSource> tensors_;
  const FetchFn& fetch_;
  const NpzWriteOptions& options_;
  Workers workers_{options_.resources.threads};
};

// The part of the progress of two passes over the same bytes: the first pass is number 0.
ProgressFn progress_of_pass(const ProgressFn& progress, std::uint64_t pass) {
  if (!progress) return {};
  return [&progress, pass](std::uint64_t done, std::uint64_t total) {
    progress(pass * total + done, 2 * total);
  };
}

// The checksum of an array stands before it. So it is fetched twice: to learn the checksum, and to
// send it.
void write_front_to_back(Members& members, ByteTarget& file, const ProgressFn& progress) {
  NoTarget nothing;
  const Bytes checksums = members.write(nothing, {0, 1}, progress_of_pass(progress, 0));
  members.set_checksums({checksums});
  members.write_headers(file);
  if (members.write(file, {0, 1}, progress_of_pass(progress, 1)) != checksums)
    throw Error(Code::kUnavailable, "an array has changed while it was written; write it again");
}

}  // namespace

void write_npz(const std::string& path, const std::vector<TensorSource>& tensors,
               const FetchFn& fetch, const NpzWriteOptions& options) {
  write_npz(OutputPlace(path, options.store), tensors, fetch, options);
}

void write_npz(const OutputPlace& place, const std::vector<TensorSource>& tensors,
               const FetchFn& fetch, const NpzWriteOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  std::vector<Member> planned;
  group.step("write: plan", distributed::StepKind::kControl, [&] { planned = lay_out(tensors); });
  Members members(planned, tensors, fetch, options);
  const std::uint64_t end = end_of(planned);
  SingleOutput output(group, place, end + directory(planned, end).size(), options.if_exists);
  SharedFiles& files = output.files();
  const std::vector<Bytes> checksums = files.write([&] {
    if (files.is_local()) return members.write(files[0], files.share(), options.progress);
    if (files.is_primary()) write_front_to_back(members, files[0], options.progress);
    return Bytes();
  });
  files.commit([&] {
    if (files.is_local()) {
      members.set_checksums(checksums);
      members.write_headers(files[0]);
    }
    output.commit();
  });
}

}  // namespace cairn::inline v0
