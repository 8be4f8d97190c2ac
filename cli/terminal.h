// terminal.h -- how the command talks: buffered standard output, colour, and a progress line on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cairn::cli {

// The reader of our standard output has gone (`cairn ls | head`): nothing is wrong, there is just nothing more to do.
struct BrokenPipe {};

// Standard output through one buffer. Throws BrokenPipe, or cairn::Error(kIo) if the system refuses.
class Output {
 public:
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text);
  void flush();

 private:
  std::string buffer_;
};
Output& out();

bool stdout_is_terminal();
// Columns of the terminal on standard output; a large number if it is none.
std::size_t terminal_width();

// Escape sequences on a terminal, nothing elsewhere and where NO_COLOR is set or TERM=dumb.
struct Style {
  std::string_view bold, dim, red, green, yellow, cyan, reset;
};
const Style& stdout_style();
const Style& stderr_style();

// One line to standard error: "cairn: <message>".
void complain(std::string_view message);

// From now on nothing is shown: another process speaks for this one.
void mute();
bool is_muted();
// What the last complaint was since; "" if there was none.
const std::string& unsaid();

// A bar with bytes per second and time left on standard error, if that is a terminal and the work lasts longer than a
// second. Erased when destroyed. `update` may be called from any thread.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { erase(); }

  void update(std::uint64_t done, std::uint64_t total);
  // Takes the line away until the next update, so that output may be printed.
  void erase();

 private:
  void draw(std::uint64_t done, std::uint64_t total, double seconds);

  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool enabled_;
  Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  Clock::time_point next_draw_ = start_ + std::chrono::seconds(1);
  bool drawn_ = false;
};

}  // namespace cairn::cli
