// raw_bytes.h -- owned bytes that are not set to zero first, for data that is overwritten at once.
#pragma once

#include <cairn/bytes.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Memory of at least this size lies on huge pages, if the system has them.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;

// Memory of a Buffer: uninitialised. allocate_raw throws unavailable.
std::byte* allocate_raw(std::size_t size);
void free_raw(std::byte* data, std::size_t size) noexcept;

// Gives a vector that memory. A new element without a value keeps what the memory holds.
template <class T>
struct RawAllocator {
  using value_type = T;

  RawAllocator() = default;
  template <class U>
  explicit RawAllocator(const RawAllocator<U>& /*other*/) {}

  T* allocate(std::size_t n) { return reinterpret_cast<T*>(allocate_raw(n * sizeof(T))); }
  void deallocate(T* data, std::size_t n) noexcept {
    free_raw(reinterpret_cast<std::byte*>(data), n * sizeof(T));
  }
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }

  template <class U>
  bool operator==(const RawAllocator<U>& /*other*/) const {
    return true;
  }
};

// RawBytes(n) and resize(n) add bytes of any value: fill them before anything reads them.
using RawBytes = std::vector<std::byte, RawAllocator<std::byte>>;

// A list with an element for each of very many arrays. On huge pages, a list of megabytes costs a
// few page faults instead of a thousand.
template <class T>
using LargeVector = std::vector<T, RawAllocator<T>>;

}  // namespace cairn::inline v0
