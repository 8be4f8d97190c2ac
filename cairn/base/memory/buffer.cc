// buffer.cc -- allocates large buffers as separate mappings, on huge pages if the system has them.
#include <cairn/base/memory/raw_bytes.h>
#include <cairn/bytes.h>
#include <cairn/error.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace cairn::inline v0 {
namespace {

// The largest page of a processor, that of some arm64 kernels: munmap takes whole pages only.
constexpr std::size_t kPage = std::size_t{64} << 10U;

// A buffer of at least one huge page is a separate mapping.
constexpr bool is_mapped(std::size_t size) { return size >= kHugePage; }
// Round up only to the next page: a whole huge page at the end of every buffer would waste
// megabytes.
constexpr std::size_t mapped_size(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }

[[noreturn]] void out_of_memory(std::size_t size) {
  throw Error(Code::kUnavailable,
              "cannot allocate " + std::to_string(size) + " bytes of memory for values: " +
                  std::strerror(ENOMEM) + "; free some, or read less at once",
              ENOMEM);
}

std::byte* map_pages(std::size_t size) {
  if (size > std::numeric_limits<std::size_t>::max() / 2) out_of_memory(size);
  const std::size_t wanted = mapped_size(size);
  void* const mapped = ::mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) out_of_memory(size);
  // The kernel aligns to pages. Keep the part that starts on a huge page and return the rest.
  auto* const start = static_cast<std::byte*>(mapped);
  const std::size_t skip =
      (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (skip != 0) ::munmap(start, skip);
  ::munmap(start + skip + wanted, kHugePage - skip);
  // This is only advice: without it the memory is slower.
  ::madvise(start + skip, wanted, MADV_HUGEPAGE);
  return start + skip;
}

}  // namespace

std::byte* allocate_raw(std::size_t size) {
  if (is_mapped(size)) return map_pages(size);
  void* const data = ::operator new (size, std::align_val_t{kArrayAlignment}, std::nothrow);
  if (data == nullptr) out_of_memory(size);
  return static_cast<std::byte*>(data);
}

void free_raw(std::byte* data, std::size_t size) noexcept {
  if (data == nullptr) return;
  if (is_mapped(size))
    ::munmap(data, mapped_size(size));
  else
    ::operator delete (data, std::align_val_t{kArrayAlignment});
}

Buffer::Buffer(std::size_t size) : data_(size == 0 ? nullptr : allocate_raw(size)), size_(size) {}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  free_raw(data_, size_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Buffer::~Buffer() { free_raw(data_, size_); }

}  // namespace cairn::inline v0
