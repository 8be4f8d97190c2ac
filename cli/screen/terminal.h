// terminal.h -- the output of the command: buffered standard output, colour, and a progress line on
// standard error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cairn::cli {

// The reader of standard output has closed the pipe (`cairn ls | head`). This is not an error: the
// command just stops.
struct BrokenPipe {};

// Standard output through one buffer. Throws BrokenPipe, or cairn::Error(kIo) if the system reports
// an error.
//
// A checkpoint may come from anyone, and Cairn prints its names, types and strings. All text for
// people passes through this class, so this class escapes it for every command.
class Output {
 public:
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Writes text for people, in whole lines. Newlines and the codes of stdout_style() pass; every
  // other character that printable_text() escapes is escaped. Call printable_text() on text from a
  // file first, because its newlines would pass, too.
  void show(std::string_view text);
  // Writes a JSON document, or whole lines of one. Programs read the same values from it, but
  // nothing in it can control a terminal.
  void show_json(std::string_view json);
  // The same with null for NaN and Infinity, which Python writes into metadata and JSON lacks. A
  // number must not be split between two calls.
  void show_strict_json(std::string_view json);
  // Writes bytes unchanged: tensors, and strings for a pipe.
  void write(std::string_view bytes);
  void flush();
  // Flushes for the last time and closes a copy of the descriptor. Some file systems report only on
  // close that they could not store a file.
  void finish();

 private:
  std::string buffer_;
};
Output& out();

// When to show colour, or progress. kAuto: on a terminal. kJson: as JSON lines; for progress alone.
enum class When : std::uint8_t { kAuto, kAlways, kNever, kJson };
// What the arguments say about the output. The command line sets it before the first output.
struct ScreenSettings {
  When color = When::kAuto;
  When progress = When::kAuto;
  bool quiet = false;  // standard output stays empty; errors still appear
};
ScreenSettings& screen_settings();

bool stdout_is_terminal();
// Columns of the terminal on standard output; a large number if standard output is not a terminal.
std::size_t terminal_width();

// Escape sequences, or empty strings if there is no colour. --color decides, then NO_COLOR (no),
// CLICOLOR_FORCE (yes) and CLICOLOR=0 (no), then whether it is a terminal and TERM is not "dumb".
struct Style {
  std::string_view bold, dim, red, green, yellow, cyan, reset;
};
const Style& stdout_style();
const Style& stderr_style();

// Prints one line to standard error: "cairn: <message>". A message is always one line, whatever it
// quotes from a file: newlines and all other characters that printable_text() escapes are escaped.
// A second line needs a second call.
void print_error(std::string_view message);
// The same for what is not an error. --quiet turns it off.
void warn(std::string_view message);
// Prints a line that continues the previous message, without "cairn: ". --quiet turns it off.
void advise(std::string_view line);

// From now on this process prints nothing, because another process prints for it.
void silence();
bool is_muted();
// Prints the last error recorded since silence(), with `who` in front. Returns false if none was
// recorded.
bool print_last_error(std::string_view who);

// A progress bar on standard error with bytes per second and time left; for object stores also with
// the bytes on the network and the requests. It appears if standard error is a terminal and the
// work lasts longer than a second. With --progress=always it appears at once; if standard error is
// not a terminal, as one line a second. The destructor erases the bar. `update` may be called from
// any thread.
//
// With --progress=json it is JSON objects, one a line, at most two a second
// (cli/schemas/progress.json). The destructor prints the last one, which says how the work has
// ended.
class ProgressBar {
 public:
  // `label`: what the work is, in one word of letters.
  explicit ProgressBar(std::string label);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  void update(std::uint64_t done, std::uint64_t total);
  // Removes the bar until the next update, so that the command can print output.
  void erase();

 private:
  void draw(std::uint64_t done, std::uint64_t total, double seconds);
  void print_json(std::string_view state) const;
  [[nodiscard]] double seconds() const;
  static std::string bar_of(const std::string& line, double share);

  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool enabled_;
  bool in_lines_;  // one line an update, because nothing can be erased there
  bool as_json_;
  int exceptions_;  // that were in flight at the start
  std::atomic<std::uint64_t> most_done_{0};
  std::atomic<std::uint64_t> total_{0};
  Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  Clock::time_point next_draw_;
  bool drawn_ = false;
  bool finished_ = false;  // in lines: the last one was printed
};

}  // namespace cairn::cli
