// data_files.cc -- the codec of the data file table, the resolution of paths against a base path,
// and checks of references.
#include <cairn/ocdbt/format/data_files.h>

#include <cairn/base/errors.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0::ocdbt {
namespace {

struct PathLengths {
  std::uint16_t prefix = 0;
  std::uint16_t suffix = 0;
  std::uint16_t base = 0;
  [[nodiscard]] std::size_t path() const { return std::size_t{prefix} + suffix; }
};

void check_lengths(const PathLengths& now, const PathLengths& before, std::size_t i) {
  if (now.prefix > before.path())
    data_loss(fmt::format("path_prefix_length[{}]={} exceeds the {} bytes of the path before", i,
                          now.prefix, before.path()));
  if (now.path() > kMaxPathLength)
    data_loss(fmt::format("path_length[{}]={} exceeds limit of {}", i, now.path(), kMaxPathLength));
  if (now.base > now.path())
    data_loss(
        fmt::format("base_path_length[{}]={} exceeds path length {}", i, now.base, now.path()));
  // A shared prefix may extend into the relative path only if both relative paths begin at the same
  // byte.
  if (i > 0 && now.base != before.base && now.prefix > std::min(now.base, before.base))
    data_loss(fmt::format("path_prefix_length[{}]={} exceeds common base path length {}", i,
                          now.prefix, std::min(now.base, before.base)));
}

std::vector<PathLengths> read_path_lengths(ByteReader& in) {
  const std::uint64_t num_files = in.varint();
  if (num_files > in.remaining() / 2)
    data_loss(fmt::format("data file table of {} files in {} bytes", num_files, in.remaining()));
  std::vector<PathLengths> lengths(num_files);
  for (std::size_t i = 1; i < lengths.size(); ++i)
    lengths[i].prefix = static_cast<std::uint16_t>(in.varint(0xffff));
  for (auto& l : lengths) l.suffix = static_cast<std::uint16_t>(in.varint(0xffff));
  for (auto& l : lengths) l.base = static_cast<std::uint16_t>(in.varint(0xffff));
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    check_lengths(lengths[i], i == 0 ? PathLengths{} : lengths[i - 1], i);
    total += lengths[i].path();
  }
  check_expansion(total, in.offset() + in.remaining(), "data file table");
  return lengths;
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

// Returns how many bytes the path of `file` may share with that of `before`.
std::size_t shared_length(const DataFile& before, const DataFile& file) {
  const std::size_t base = common_prefix(before.base_path, file.base_path);
  if (before.base_path != file.base_path) return base;
  return base + common_prefix(before.relative_path, file.relative_path);
}

}  // namespace

DataFileTable read_data_files(ByteReader& in) {
  const auto lengths = read_path_lengths(in);
  DataFileTable files(lengths.size());
  std::string path;
  for (std::size_t i = 0; i < files.size(); ++i) {
    path.resize(lengths[i].prefix);
    path += in.text(lengths[i].suffix);
    files[i] = {.base_path = path.substr(0, lengths[i].base),
                .relative_path = path.substr(lengths[i].base)};
  }
  return files;
}

void write_data_files(ByteWriter& out, const DataFileTable& files) {
  std::vector<std::size_t> shared(files.size());
  for (std::size_t i = 1; i < files.size(); ++i) shared[i] = shared_length(files[i - 1], files[i]);
  out.varint(files.size());
  for (std::size_t i = 1; i < files.size(); ++i) out.varint(shared[i]);
  for (std::size_t i = 0; i < files.size(); ++i)
    out.varint(files[i].base_path.size() + files[i].relative_path.size() - shared[i]);
  for (const auto& f : files) out.varint(f.base_path.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    out.text(std::string_view(files[i].base_path + files[i].relative_path).substr(shared[i]));
}

ResolvedFile resolve_file(const DataFile& file, std::string_view base_path) {
  ResolvedFile resolved;
  resolved.path.reserve(base_path.size() + file.base_path.size() + file.relative_path.size());
  resolved.path.append(base_path).append(file.base_path);
  resolved.base_length = resolved.path.size();
  resolved.path += file.relative_path;
  check_file_path(resolved.path);
  return resolved;
}

void check_path_lengths(const DataFileTable& files, std::size_t base_path_length) {
  for (const auto& f : files)
    if (const auto length = base_path_length + f.base_path.size() + f.relative_path.size();
        length > kMaxPathLength)
      data_loss(fmt::format("path of {} bytes exceeds limit of {}: a base path of {} before '{}{}'",
                            length, kMaxPathLength, base_path_length, f.base_path,
                            f.relative_path));
}

void check_file_path(std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    data_loss(
        fmt::format("data file path '{}' {}: it cannot name a file of the database", path, why));
  };
  if (path.find('\0') != std::string_view::npos) refuse("contains NUL");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find_first_of("/\\", begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    if (component.empty()) refuse("has an empty component");
    if (component == "." || component == "..") refuse("has a '.' or '..' component");
    if (component.ends_with(".__lock")) refuse("names a lock file");
    begin = end + 1;
  }
}

void check_file_id(std::uint64_t file, std::size_t num_files, std::size_t i) {
  if (file >= num_files)
    data_loss(
        fmt::format("data file id {} of entry {} is outside range [0, {})", file, i, num_files));
}

void check_data_ref(const DataRef& ref, AllowMissing allow, std::size_t i) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0} >> 1U;
  if (allow == AllowMissing::kYes && ref.missing()) return;
  if (ref.offset > kMax || ref.length > kMax - ref.offset)
    data_loss(fmt::format("invalid offset/length pair of entry {}: offset {}, length {}", i,
                          ref.offset, ref.length));
}

void check_expansion(std::uint64_t decoded, std::uint64_t encoded, std::string_view what) {
  // Real keys and paths expand by a factor of ten, because neighbours share prefixes. A factor of a
  // thousand is an attack on memory.
  constexpr std::uint64_t kAlwaysAllowed = std::uint64_t{16} << 20U;
  constexpr std::uint64_t kMaxDecoded = 0xffffffffU;
  if (decoded > kMaxDecoded || (decoded > kAlwaysAllowed && decoded / 1024 > encoded))
    throw Error(
        Code::kUnimplemented,
        fmt::format(
            "{}: {} bytes would decode to {}, which exceeds the expansion that Cairn allows", what,
            encoded, decoded));
}

}  // namespace cairn::inline v0::ocdbt
