// bytes.h -- owned and borrowed byte sequences, and the options that many calls have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Owned bytes, and read-only and writable borrowed bytes. The owner must outlive a view.
using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;

// The bytes of a string, borrowed from it, and the reverse. Neither copies.
inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// When a write counts as done.
enum class Durability : std::uint8_t {
  kSynced,  // when the data would survive a power failure
  // As kUnsynced, but the caller will sync soon. The writer therefore starts to send large data to
  // the disk.
  kDeferredSync,
  // When other processes see the data. A power failure may lose it, or leave any other content in
  // its place.
  kUnsynced
};

// How removing or replacing a checkpoint treats foreign files: files in its directory that do not
// belong to a checkpoint.
enum class ForeignFiles : std::uint8_t {
  // Throw already_exists, and change nothing.
  kRefuse,
  // Keep the files that lie beside those of the checkpoint, at its top level: the checkpoint that
  // replaces it gets them, too. Refuse all other foreign files of a finished checkpoint. Remove
  // foreign files in the leftovers of an interrupted save. A save in place
  // (CommitProtocol::kCommitMarker) keeps none, and refuses them.
  kKeepFiles,
  // Remove them with it, as Orbax does. The directory must still hold the files that identify a
  // checkpoint. Symbolic links are removed, not followed.
  kRemove,
};

// How a save treats an existing target.
enum class IfExists : std::uint8_t {
  // Throw already_exists, also if the target appears during the save.
  kFail,
  // Replace an older checkpoint once the new one is complete. Anything that is not a checkpoint is
  // never replaced.
  kReplace,
};

// How a checkpoint becomes visible. Orbax's AtomicityMode.
enum class CommitProtocol : std::uint8_t {
  // It is written beside its path, and renamed.
  kAtomicRename,
  // For file systems that cannot rename a directory in one step. It is written at its path, and is
  // complete when it has the file commit_success.txt. An older checkpoint that is to be replaced is
  // removed first.
  kCommitMarker,
};

// The resources that a call may use.
struct Resources {
  std::size_t threads = 0;  // worker threads; 0: as many as the process may run on
  // Working memory in bytes, beyond the memory that the caller provides or receives.
  std::uint64_t memory = std::uint64_t{1} << 30U;
};

// A version of an OCDBT database. Both members empty: the newest version.
struct OcdbtVersion {
  std::optional<std::uint64_t> generation = {};  // exactly this generation number
  // The newest version committed at or before this time, in nanoseconds since 1970.
  std::optional<std::uint64_t> commit_time_ns = {};
};

// Alignment in bytes of arrays in a shared buffer, and of every Buffer. With it no element and no
// vector register's load crosses a cache line.
inline constexpr std::size_t kArrayAlignment = 64;
// `nbytes` rounded up to a multiple of kArrayAlignment.
inline constexpr std::uint64_t padded_size(std::uint64_t nbytes) {
  return (nbytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}

// Uninitialised, 64-byte aligned memory for values. The constructor advises the system to use huge
// pages for large buffers, because first-touch page faults are the largest cost of a restore. The
// destructor returns large buffers to the system. The constructor throws unavailable if the memory
// cannot be allocated.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  operator ByteView() const { return {data_, size_}; }  // NOLINT(google-explicit-constructor)

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
