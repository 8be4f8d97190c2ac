// heartbeat.h -- signs of life that processes of other hosts can see: a file whose time of change
// is set again every few seconds.
//
// Clocks are never compared. Whether another is silent is told by its file not changing while this
// process's own has been touched so many times: what stops both (a file system that hangs, a host
// that sleeps) stops the counting, too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace cairn::distributed {

constexpr int kBeatsOfSilence = 12;  // own beats without one of the other's

// A thread that touches a file as long as this lives.
class Heartbeat {
 public:
  Heartbeat(std::string path, std::chrono::milliseconds every);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  ~Heartbeat();

  // How often the file has been touched.
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

// What has been seen of others' files.
class SignsOfLife {
 public:
  // Whether `process` has been silent for kBeatsOfSilence; `own`: of this process. Looks at the
  // file once a beat.
  bool is_silent(std::size_t process, const std::string& path, std::uint64_t own);

 private:
  struct Seen {
    // the file's time, in nanoseconds; none if it is not there
    std::optional<std::int64_t> changed;
    std::uint64_t since = 0;   // own beats, when it was first seen so
    std::uint64_t looked = 0;  // and when it was last
  };
  std::map<std::size_t, Seen> seen_;
};

}  // namespace cairn::distributed
