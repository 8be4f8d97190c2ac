// heartbeat.cc -- touches this process's heartbeat file and watches those of other processes.
#include <cairn/distributed/coordinator/heartbeat.h>

#include <cairn/error.h>
#include <cairn/io/file.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

namespace cairn::inline v0::distributed {
namespace {

// Returns when the file was last touched, in nanoseconds; nullopt if it cannot be opened. The
// function opens the file first, because network file systems answer from a cache for files that
// are not open.
std::optional<std::int64_t> change_of(const std::string& path) {
  const auto changed = try_call([&] { return File::open(path).modified_ns(); });
  return changed.ok() ? std::optional(changed.value()) : std::nullopt;
}

}  // namespace

Heartbeat::Heartbeat(std::string path, std::chrono::milliseconds every)
    : path_(std::move(path)), thread_([this, every] { beat(every); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::uint64_t Heartbeat::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

void Heartbeat::beat(std::chrono::milliseconds every) {
  std::unique_lock lock(mutex_);
  while (!over_) {
    lock.unlock();
    // may take long on a busy file system
    const bool done = utimensat(AT_FDCWD, path_.c_str(), nullptr, 0) == 0;
    lock.lock();
    count_ += done ? 1 : 0;
    wake_.wait_for(lock, every, [&] { return over_; });
  }
}

bool SignsOfLife::is_silent(std::size_t process, const std::string& path, std::uint64_t own) {
  const auto [known, is_new] = seen_.try_emplace(process);
  Seen& seen = known->second;
  if (is_new || own != seen.looked) {
    const auto changed = change_of(path);
    if (is_new || changed != seen.changed) seen = {changed, own, own};
    seen.looked = own;
  }
  return seen.changed && own - seen.since >= static_cast<std::uint64_t>(kBeatsOfSilence);
}

}  // namespace cairn::inline v0::distributed
