// writer.cc -- writes an uncompressed archive as numpy.savez does. Each member is a local header,
// its name and a .npy; the central directory follows. Values that do not fit into 16 or 32 bits use
// zip64 fields and end records.
#include <cairn/array/byte_count.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/output/framed_file.h>
#include <cairn/formats/output/write_to_place.h>
#include <cairn/formats/zip/zip_directory.h>
#include <cairn/formats/zip/zip_format.h>
#include <cairn/npz.h>
#include <cairn/tensor_source.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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

// The archive: each frame is the local header of a member with the .npy header behind it; the last
// one is the directory.
class NpzFile final : public FramedFile {
 public:
  explicit NpzFile(std::span<const TensorSource> tensors) {
    std::vector<std::string_view> names;
    for (const TensorSource& tensor : tensors) {
      check_name(tensor.name);
      names.emplace_back(tensor.name);
      add(tensor);
    }
    std::sort(names.begin(), names.end());
    if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
      throw Error(Code::kInvalidArgument, fmt::format("two tensors are named \"{}\"", *twice));
    size_ = end_ + directory(members_, end_).size();
  }

  [[nodiscard]] std::span<const Placement> tensors() const override { return placements_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] bool frames_need_next() const override { return true; }
  [[nodiscard]] Bytes frame(std::size_t number,
                            std::span<const std::uint32_t> checksums) const override {
    if (number == members_.size()) {
      std::vector<Member> known = members_;
      for (std::size_t i = 0; i < known.size(); ++i) known[i].crc = crc_of(i, checksums[i]);
      return directory(known, end_);
    }
    Member member = members_[number];
    member.crc = crc_of(number, checksums[number]);
    Bytes front = local_header(member);
    front.insert(front.end(), member.header.begin(), member.header.end());
    return front;
  }

 private:
  void add(const TensorSource& tensor) {
    Member m{.name = tensor.name + ".npy",
             .header = npy_header(tensor.dtype, tensor.shape),
             .offset = end_};
    const std::uint64_t nbytes = byte_count(tensor.shape, tensor.dtype);
    m.size = m.header.size() + nbytes;
    const std::uint64_t data = end_ + local_header(m).size() + m.header.size();
    placements_.push_back({.tensor = placements_.size(),
                           .offset = data,
                           .nbytes = nbytes,
                           .element_size = dtype_size(tensor.dtype),
                           .cut = tensor.cut});
    end_ = data + nbytes;
    members_.push_back(std::move(m));
  }
  // Of the member: of the .npy header and the array.
  [[nodiscard]] std::uint32_t crc_of(std::size_t number, std::uint32_t array) const {
    return crc32_combine(crc32(members_[number].header), array, placements_[number].nbytes);
  }

  std::vector<Member> members_;
  std::vector<Placement> placements_;
  std::uint64_t end_ = 0;  // of the members, where the directory begins
  std::uint64_t size_ = 0;
};

}  // namespace

void write_npz(const std::string& path, const std::vector<TensorSource>& tensors,
               const FetchFn& fetch, const NpzWriteOptions& options) {
  write_npz(OutputPlace(path, options.store), tensors, fetch, options);
}

void write_npz(const OutputPlace& place, const std::vector<TensorSource>& tensors,
               const FetchFn& fetch, const NpzWriteOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  std::optional<NpzFile> layout;
  group.step("write: plan", distributed::StepKind::kControl, [&] { layout.emplace(tensors); });
  write_framed_file(group, place, *layout, fetch,
                    {.if_exists = options.if_exists,
                     .resources = options.resources,
                     .progress = options.progress});
}

}  // namespace cairn::inline v0
