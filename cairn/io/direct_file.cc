// direct_file.cc -- O_DIRECT appends: aligned data goes directly from memory to the disk, the end
// of the file through the page cache.
#include <cairn/io/direct_file.h>

#include <cairn/base/cancellation.h>
#include <cairn/error.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// The alignment of the buffers. No device requires more than a page for memory, and few require
// more for file offsets.
constexpr std::size_t kPage = 4096;

// The alignments of addresses and offsets that O_DIRECT requires for this file. Zeros: the file
// does not support O_DIRECT.
struct Alignment {
  std::size_t memory = 0;
  std::size_t offset = 0;
};

Alignment alignment_of(int fd) {
  struct statx about {};
  // Kernels before 6.1 do not report the alignment. On these, O_DIRECT is tried on the file systems
  // that have always supported it.
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 &&
      (about.stx_mask & STATX_DIOALIGN) != 0)
    return {about.stx_dio_mem_align, about.stx_dio_offset_align};
  struct statfs system {};
  const bool known = fstatfs(fd, &system) == 0 &&
                     (system.f_type == EXT4_SUPER_MAGIC || system.f_type == XFS_SUPER_MAGIC);
  return known ? Alignment{kPage, kPage} : Alignment{};
}

bool set_direct(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// Lets the disk write what is in the page cache now, while other bytes are encoded, and not first
// when somebody syncs the file. This is only advice.
void start_writeback(int fd) { sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); }

}  // namespace

std::string why_not_direct(int fd) {
  const Alignment alignment = alignment_of(fd);
  if (alignment.offset == 0)
    return "the file system does not support O_DIRECT, or does not report its block size";
  if (alignment.offset > DirectAppender::kBuffer || alignment.memory > kPage)
    return "O_DIRECT needs blocks larger than Cairn's buffer";
  if (!set_direct(fd, true)) return "the file system refuses O_DIRECT";
  set_direct(fd, false);
  return "";
}

// Full buffers wait for the writer thread; written buffers wait for the appending thread.
struct DirectAppender::State {
  struct Full {
    Buffer bytes;
    std::uint64_t offset = 0;
  };

  State(int file, std::string name, std::uint64_t begin_at)
      : fd(file), path(std::move(name)), alignment(alignment_of(file)), size(begin_at) {}

  void take(ByteView part);
  [[nodiscard]] std::size_t direct_run(ByteView part) const;
  void begin();
  void hand_over();
  void serve();
  void stop();
  void write_all(ByteView bytes, std::uint64_t offset);

  int fd;
  std::string path;
  Alignment alignment;
  std::uint64_t size = 0;            // the size of the file including the bytes in `filling`
  Buffer filling = Buffer(kBuffer);  // large enough to be page-aligned
  std::size_t filled = 0;
  bool begun = false;  // the first buffer is written
  // the following buffers bypass the page cache, unless the file system rejects that
  bool direct = false;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Full> full;  // this and the following members are guarded by mutex
  std::vector<Buffer> empty;
  bool stopping = false;
  std::exception_ptr error;
  std::thread writer;
};

void DirectAppender::State::write_all(ByteView bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const auto n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0) {
      const int reason = errno;
      // The file system rejects the write only now, or the rest after a short write is not aligned.
      // Use the page cache, which accepts any alignment.
      if (reason == EINTR ||
          (reason == EINVAL && (fcntl(fd, F_GETFL) & O_DIRECT) != 0 && set_direct(fd, false)))
        continue;
      fail_file_call(path, "write at byte " + std::to_string(offset), reason);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void DirectAppender::State::serve() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stopping || !full.empty(); });
    if (full.empty()) return;
    Full next = std::move(full.front());
    full.pop_front();
    const bool wanted = !error;
    lock.unlock();
    std::exception_ptr failed;
    try {
      if (wanted) write_all({next.bytes.data(), kBuffer}, next.offset);
    } catch (const Error&) {
      failed = std::current_exception();
    }
    lock.lock();
    if (failed) error = failed;
    empty.push_back(std::move(next.bytes));
    changed.notify_all();
  }
}

void DirectAppender::State::begin() {
  begun = true;
  direct = alignment.memory > 0 && set_direct(fd, true);
  start_writeback(fd);
  for (std::size_t i = 1; i < kBuffers; ++i) empty.emplace_back(kBuffer);
  try {
    writer = std::thread([this] { serve(); });
  } catch (const std::system_error&) {
    // The system cannot start another thread: the appending thread writes.
  }
}

void DirectAppender::State::hand_over() {
  if (!writer.joinable()) {
    // Only the first buffer may begin at an unaligned offset; it ends so that all others are
    // aligned.
    write_all({filling.data(), filled}, size - filled);
    filled = 0;
    if (!begun) begin();
    return;
  }
  std::unique_lock lock(mutex);
  full.push_back({std::move(filling), size - filled});
  changed.notify_all();
  changed.wait(lock, [&] { return !empty.empty(); });
  filling = std::move(empty.back());
  empty.pop_back();
  filled = 0;
  if (error) std::rethrow_exception(error);
}

void DirectAppender::State::stop() {
  if (!writer.joinable()) return;
  {
    const std::scoped_lock lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  writer.join();
}

// Returns the number of bytes at the start of `part` that can be written directly from its memory.
std::size_t DirectAppender::State::direct_run(ByteView part) const {
  if (!direct || filled > 0 ||
      reinterpret_cast<std::uintptr_t>(part.data()) % alignment.memory != 0)
    return 0;
  return part.size() / kBuffer * kBuffer;
}

void DirectAppender::State::take(ByteView part) {
  while (!part.empty()) {
    throw_if_cancelled();
    std::size_t n = direct_run(part.first(bytes_until_asked(part.size())));
    if (n > 0) {
      write_all(part.first(n), size);
    } else {
      n = std::min<std::size_t>(part.size(), kBuffer - size % kBuffer);
      std::memcpy(filling.data() + filled, part.data(), n);
      filled += n;
    }
    size += n;
    part = part.subspan(n);
    if (filled > 0 && size % kBuffer == 0) hand_over();
  }
}

DirectAppender::DirectAppender(int fd, std::string path, std::uint64_t size)
    : state_(std::make_unique<State>(fd, std::move(path), size)) {}

DirectAppender::~DirectAppender() { state_->stop(); }

void DirectAppender::append(std::span<const ByteView> parts) {
  for (const ByteView part : parts) state_->take(part);
}

std::uint64_t DirectAppender::size() const { return state_->size; }

void DirectAppender::finish() {
  State& s = *state_;
  s.stop();
  if (s.error) std::rethrow_exception(s.error);
  if (s.direct) set_direct(s.fd, false);  // the end is not aligned
  s.write_all({s.filling.data(), s.filled}, s.size - s.filled);
  if (s.begun) start_writeback(s.fd);
}

}  // namespace cairn::inline v0
