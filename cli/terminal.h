// terminal.h -- how the command talks: buffered standard output, colour, and a progress line on
// standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cairn::cli {

// The reader of our standard output has gone (`cairn ls | head`): nothing is wrong, there is just
// nothing more to do.
struct BrokenPipe {};

// Standard output through one buffer. Throws BrokenPipe, or cairn::Error(kIo) if the system
// refuses.
//
// A checkpoint may come from anyone, and its names, types and strings end up in what Cairn says. So
// text for people is escaped here, where all of it passes, whatever the command does.
class Output {
 public:
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Text for people, of whole lines. Newlines and the codes of stdout_style() pass; every other
  // character that printable() escapes is escaped. Text from a file is best made printable() before
  // it gets here: its newlines would pass, too.
  void show(std::string_view text);
  // A JSON document. It says the same to programs, but nothing in it can drive a terminal.
  void show_json(std::string_view json);
  // Bytes as they are: tensors, and strings for a pipe.
  void write(std::string_view bytes);
  void flush();
  // Flushes for the last time. Some file systems say only when a file is closed that they could not
  // store it.
  void finish();

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

// One line to standard error: "cairn: <message>". A message is one line, whatever it quotes from a
// file: newlines in it are escaped, as is all that printable() escapes. A second line needs a
// second call.
void print_error(std::string_view message);
// The same without "cairn: ": a line that belongs to the previous one.
void advise(std::string_view line);

// From now on nothing is shown: another process speaks for this one.
void silence();
bool is_muted();
// Makes the last complaint since then after all, with `who` in front; false if there was none.
bool complain_after_all(std::string_view who);

// A bar with bytes per second and time left on standard error, if that is a terminal and the work
// lasts longer than a second. Erased when destroyed. `update` may be called from any thread.
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
