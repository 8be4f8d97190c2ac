// heartbeat.h -- liveness signals between processes on different hosts. Each process sets the
// modification time of a file every few seconds.
//
// Processes never compare clocks. A process counts its own heartbeats, and considers another
// process silent when that process's file has not changed during kBeatsOfSilence of them. An event
// that stops both processes (a file system that hangs, a host that sleeps) stops the count, too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace cairn::inline v0::distributed {

constexpr int kBeatsOfSilence = 12;  // this many own heartbeats without one of the other process

// A thread that touches a file for as long as this object lives.
class Heartbeat {
 public:
  // Starts the thread, which touches `path` every `every`. Throws std::system_error if the thread
  // cannot start.
  Heartbeat(std::string path, std::chrono::milliseconds every);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  ~Heartbeat();

  // Returns how often the thread has touched the file.
  [[nodiscard]] std::uint64_t count() const;

 private:
  void beat(std::chrono::milliseconds every);

  std::string path_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::uint64_t count_ = 0;
  std::thread thread_;
};

// Records when the heartbeat files of other processes changed. Not safe to use from several threads
// at once.
class SignsOfLife {
 public:
  // Returns whether `process` has been silent for kBeatsOfSilence. `path` is the heartbeat file of
  // that process; `own` is the heartbeat count of this process. Reads the file time once per own
  // heartbeat. Returns false while the file cannot be opened.
  bool is_silent(std::size_t process, const std::string& path, std::uint64_t own);

 private:
  struct Seen {
    // the file's modification time in nanoseconds; nullopt if the file cannot be opened
    std::optional<std::int64_t> changed;
    std::uint64_t since = 0;   // own heartbeat count when this time was first seen
    std::uint64_t looked = 0;  // own heartbeat count at the last check
  };
  std::map<std::size_t, Seen> seen_;
};

}  // namespace cairn::inline v0::distributed
