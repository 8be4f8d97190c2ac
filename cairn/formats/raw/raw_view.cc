// raw_view.cc -- maps files and makes views of arrays that can be used in place.

#include <cairn/formats/raw/raw_view.h>

#include <optional>
#include <utility>

namespace cairn::inline v0 {
namespace {

// The alignment that the elements need.
std::size_t alignment(const TensorInfo& info) {
  if (info.dtype == DType::kOpaque) return 1;
  return dtype_kind(info.dtype) == DTypeKind::kComplex ? info.element_size / 2 : info.element_size;
}

}  // namespace

std::optional<Array> RawMaps::view(const TensorInfo& info, const RawRun& run) const {
  if (!files_[run.file].is_local()) return std::nullopt;
  std::shared_ptr<const MappedFile> map;
  {
    const std::lock_guard lock(mutex_);
    auto& made = maps_[run.file];
    if (!made) made = MappedFile::of(files_[run.file]);
    map = made;
  }
  const ByteView bytes = map->bytes();
  if (bytes.size() < run.length || run.offset > bytes.size() - run.length) return std::nullopt;
  const std::byte* data = bytes.data() + run.offset;
  if (reinterpret_cast<std::uintptr_t>(data) % alignment(info) != 0) return std::nullopt;
  return Array(info.dtype, info.element_size, info.shape, std::move(map), data);
}

}  // namespace cairn::inline v0
