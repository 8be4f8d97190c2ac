// direct_writer.cc -- writes whole blocks without the page cache, and the bytes before and after
// them through it. No page is written both ways.
#include <cairn/io/direct_writer.h>

#include <cairn/error.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/direct_file.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace cairn::inline v0 {

DirectWriter::DirectWriter(AtomicFile& file, std::uint64_t size) : file_(file) {
  // If a page is written both ways at the same time, either write can be lost.
  if (sysconf(_SC_PAGESIZE) > static_cast<long>(kBlock) ||
      !why_not_direct(file.descriptor()).empty())
    return;
  fd_ = uninterrupted(
      [&] { return ::open(file.temporary_path().c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC); });
  if (fd_ < 0) return;
  // Allocate the space first: writes that extend a file wait for each other.
  if (fallocate(fd_, 0, 0, static_cast<off_t>(size)) != 0 && errno == ENOSPC) {
    close(fd_);
    fail_file_call(file.temporary_path(), "reserve " + std::to_string(size) + " bytes", ENOSPC);
  }
  direct_ = true;
}

DirectWriter::~DirectWriter() {
  if (fd_ >= 0) close(fd_);
}

void DirectWriter::write_at(std::uint64_t offset, ByteView bytes) {
  const std::uint64_t head = (kBlock - offset % kBlock) % kBlock;
  const bool alike = reinterpret_cast<std::uintptr_t>(bytes.data()) % kBlock == offset % kBlock;
  if (!direct_ || !alike || bytes.size() < head + kBlock) return file_.write_at(offset, bytes);
  if (head > 0) file_.write_at(offset, bytes.first(head));
  offset += head;
  bytes = bytes.subspan(head);
  while (bytes.size() >= kBlock) {
    const auto n = uninterrupted([&] {
      return pwrite(fd_, bytes.data(), bytes.size() / kBlock * kBlock, static_cast<off_t>(offset));
    });
    if (n < 0 && errno == EINVAL) {
      direct_ = false;
      break;
    }
    if (n < 0)
      fail_file_call(file_.temporary_path(), "write at byte " + std::to_string(offset), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
    // After a short write, the rest need not begin at a block boundary.
    if (offset % kBlock != 0) break;
  }
  if (!bytes.empty()) file_.write_at(offset, bytes);
}

}  // namespace cairn::inline v0
