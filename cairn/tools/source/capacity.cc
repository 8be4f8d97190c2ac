// capacity.cc -- compares planned sizes with available ones.

#include <cairn/tools/source/capacity.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <sys/statvfs.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
// Smaller arrays are always read, however little of them is stored. A larger array needs at least
// this share of its bytes. No codec makes chunks that small: zstd's smallest frames are about a
// thirty-thousandth.
constexpr std::uint64_t kAlwaysRead = std::uint64_t{1} << 36U;
constexpr std::uint64_t kLeastShare = std::uint64_t{1} << 16U;
// The same for chunks, because each one is requested: above this number, at least this share must
// be stored.
constexpr std::uint64_t kManyChunks = std::uint64_t{1} << 20U;
constexpr std::uint64_t kLeastStored = 16;
// The best compression ratio that the check assumes for an output.
constexpr std::uint64_t kBestPacking = 1000;

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1023.5 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 9.95 ? 0 : 1, kUnits[unit]);
}

std::uint64_t chunks_of(const TensorInfo& tensor) {
  std::uint64_t chunks = 1;
  for (std::size_t d = 0; d < tensor.chunk_shape.size() && d < tensor.shape.size(); ++d) {
    const auto extent = static_cast<std::uint64_t>(tensor.shape[d]);
    const auto chunk =
        std::max<std::uint64_t>(1, static_cast<std::uint64_t>(tensor.chunk_shape[d]));
    chunks = saturating_multiply(chunks, extent / chunk + (extent % chunk != 0 ? 1 : 0));
  }
  return chunks;
}

// Uses the nearest existing folder above the path.
bool space_of(std::string path, struct statvfs& space) {
  path = absolute_path(path);
  while (statvfs(path.c_str(), &space) != 0) {
    if (path.size() <= 1) return false;
    path = parent_of(path);
  }
  return space.f_blocks > 0;
}

}  // namespace

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  return a > kMost - b ? kMost : a + b;
}

std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

void check_dense(const TensorInfo& tensor) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::kFailedPrecondition,
                fmt::format("{}: {} elements of shape {} {}, of which {} are stored: too many to "
                            "read one by one; choose a slice",
                            tensor.full_name(), tensor.dtype_name, shape_text(tensor.shape), what,
                            size_text(tensor.stored_nbytes)));
  };
  if (tensor.nbytes > kAlwaysRead && tensor.stored_nbytes < tensor.nbytes / kLeastShare)
    refuse("are " + size_text(tensor.nbytes));
  // Each stored chunk has at least one byte.
  const std::uint64_t chunks = chunks_of(tensor);
  if (chunks > kManyChunks && tensor.stored_nbytes < chunks / kLeastStored)
    refuse(fmt::format("are {} chunks", chunks));
}

void check_space(const std::string& target, std::uint64_t bytes, Packing packing) {
  struct statvfs space {};
  if (!space_of(target, space)) return;
  const std::uint64_t room = saturating_multiply(space.f_bavail, space.f_frsize);
  const bool compressed = packing == Packing::kCompressed;
  if (bytes / (compressed ? kBestPacking : 1) <= room) return;
  throw Error(
      Code::kFailedPrecondition,
      fmt::format("{}: the output needs {}{}, the file system has {} free", target,
                  size_text(bytes), compressed ? " before compression" : "", size_text(room)));
}

}  // namespace cairn::inline v0
