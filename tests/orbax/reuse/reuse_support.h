// reuse_support.h -- trees, and what a save reports about reuse.
#pragma once

#include <cairn/checkpoint_manager.h>
#include <cairn/open.h>
#include <cairn/orbax/checkpointer.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random_bytes.h"

namespace cairn::testing {

// Elements that no compressor shrinks.
inline Tree noise(std::int64_t count, std::uint64_t seed) {
  Array array = Array::allocate(DType::kUint32, {count});
  fill_random({array.mutable_view().data, array.bytes().size()}, seed);
  return Tree(std::move(array));
}
// Elements that compress well.
inline Tree pattern(std::int64_t count, std::uint64_t seed) {
  Array array = Array::allocate(DType::kUint32, {count});
  auto* to = reinterpret_cast<std::uint32_t*>(array.mutable_view().data);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint32_t>(i / 64 + seed);
  return Tree(std::move(array));
}

// What an observer was told.
class Report {
 public:
  [[nodiscard]] Observer observer() {
    return [this](const Event& event) {
      const std::scoped_lock lock(mutex_);
      for (const EventAttribute& attribute : event.attributes) {
        if (event.name == "save.reused" && attribute.name == "bytes")
          bytes = std::get<std::int64_t>(attribute.value);
        if (event.name == "save.reused" && attribute.name == "values")
          values = std::get<std::int64_t>(attribute.value);
        if (event.name == "save.not_reused" && attribute.name == "message")
          refusals.emplace_back(std::get<std::string_view>(attribute.value));
      }
    };
  }
  std::int64_t bytes = 0, values = 0;  // of the last save that reused something
  std::vector<std::string> refusals;

 private:
  std::mutex mutex_;
};

// The bytes that this process has read from files.
inline std::int64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::int64_t bytes = 0;
  while (io >> name >> bytes)
    if (name == "rchar:") return bytes;
  return -1;
}

// Counts how often a file is opened, by this process or others. The kernel merges equal events, so
// it also watches the closes in between.
class OpenCounter {
 public:
  explicit OpenCounter(const std::string& file) : fd_(inotify_init1(IN_NONBLOCK)) {
    EXPECT_GE(inotify_add_watch(fd_, file.c_str(), IN_OPEN | IN_CLOSE), 0);
  }
  OpenCounter(const OpenCounter&) = delete;
  OpenCounter& operator=(const OpenCounter&) = delete;
  ~OpenCounter() { close(fd_); }
  // Since the last call. All events have one size, because they name no file.
  [[nodiscard]] std::size_t count() const {
    std::size_t found = 0;
    std::array<inotify_event, 64> events{};
    for (ssize_t n = 0; (n = read(fd_, events.data(), sizeof events)) > 0;)
      for (std::size_t i = 0; i < static_cast<std::size_t>(n) / sizeof(inotify_event); ++i)
        found += (events.at(i).mask & IN_OPEN) != 0 ? 1 : 0;
    return found;
  }

 private:
  int fd_;
};

// The files below a folder: inode by path.
inline std::map<std::string, ino_t> inodes_below(const std::string& folder) {
  std::map<std::string, ino_t> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat status {};
    if (entry.is_regular_file() && stat(entry.path().c_str(), &status) == 0)
      found[std::filesystem::relative(entry.path(), folder).string()] = status.st_ino;
  }
  return found;
}

}  // namespace cairn::testing
