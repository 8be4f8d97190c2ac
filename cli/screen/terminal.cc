// terminal.cc -- output, colour and progress.
#include "screen/terminal.h"

#include "interrupt.h"

#include "screen/text.h"

#include <cairn/cairn.h>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace cairn::cli {
namespace {

// Returns the size in bytes of the colour code at the start of `text`. Returns 0 if there is none,
// or if it is not one of ours.
std::size_t colour_size(std::string_view text) {
  const Style& style = stdout_style();
  for (const std::string_view code :
       {style.bold, style.dim, style.red, style.green, style.yellow, style.cyan, style.reset})
    if (!code.empty() && text.starts_with(code)) return code.size();
  return 0;
}

constexpr std::size_t kBufferSize = std::size_t{1} << 16U;
constexpr std::size_t kNoTerminalWidth = 1U << 20U;

bool environment_says(const char* name, const char* value = nullptr) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' && (value == nullptr || std::strcmp(text, value) == 0);
}

// Whether the environment and the terminal ask for colour.
bool wants_colour(int fd) {
  if (environment_says("NO_COLOR")) return false;
  if (environment_says("CLICOLOR_FORCE") && !environment_says("CLICOLOR_FORCE", "0")) return true;
  return ::isatty(fd) != 0 && !environment_says("TERM", "dumb") &&
         !environment_says("CLICOLOR", "0");
}

const Style& style_of(bool wanted) {
  static constexpr Style kNone;
  static constexpr Style kAnsi{"\x1b[1m",  "\x1b[2m",  "\x1b[31m", "\x1b[32m",
                               "\x1b[33m", "\x1b[36m", "\x1b[0m"};
  const When when = screen_settings().color;
  return when == When::kAlways || (when == When::kAuto && wanted) ? kAnsi : kNone;
}

[[noreturn]] void fail_to_write(int error) {
  throw Error(Code::kIo, std::string("standard output: ") + std::strerror(error), error);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EPIPE) {
      throw BrokenPipe();
    } else if (errno != EINTR) {
      fail_to_write(errno);
    }
  }
}

std::size_t columns_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// The state of a process that must not print: the last error is recorded instead.
struct Muted {
  bool on = false;
  std::string last_error;
};
Muted& muted() {
  static Muted state;
  return state;
}

// All text for standard error passes through here. What cannot be written is lost: a command never
// fails because of its messages.
void write_error(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

void print_line(std::string_view line) { write_error(printable_text(line) + "\n"); }

}  // namespace

ScreenSettings& screen_settings() {
  static ScreenSettings settings;
  return settings;
}

void silence() { muted().on = true; }
bool is_muted() { return muted().on; }

bool print_last_error(std::string_view who) {
  if (muted().last_error.empty()) return false;
  print_line(fmt::format("cairn: {}: {}", who, muted().last_error));
  return true;
}

Output& out() {
  static Output output;
  return output;
}

void Output::show(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\x1b"), text.size());
    safe += printable_text(text.substr(0, end));
    text.remove_prefix(end);
    if (text.empty()) break;
    const std::size_t ours = text.front() == '\n' ? 1 : colour_size(text);
    const std::string_view next = text.substr(0, std::max<std::size_t>(ours, 1));
    if (ours > 0)
      safe += next;
    else
      safe += printable_text(next);
    text.remove_prefix(next.size());
  }
  write(safe);
}

void Output::show_json(std::string_view json) { write(printable_json(json)); }

void Output::show_strict_json(std::string_view json) { show_json(strict_json(json)); }

void Output::write(std::string_view bytes) {
  if (is_muted() || screen_settings().quiet) return;
  // large pieces of tensors bypass the buffer, which saves a copy
  if (bytes.size() >= kBufferSize) {
    flush();
    write_all(STDOUT_FILENO, bytes);
    return;
  }
  buffer_.append(bytes);
  if (buffer_.size() >= kBufferSize) flush();
}

void Output::flush() {
  const std::string pending = std::exchange(buffer_, {});
  write_all(STDOUT_FILENO, pending);
}

void Output::finish() {
  flush();
  // Only a copy is closed: descriptor 1 must not be reused for another file.
  const int copy = ::dup(STDOUT_FILENO);
  if (copy >= 0 && ::close(copy) != 0 && errno != EINTR) fail_to_write(errno);
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) != 0; }
std::size_t terminal_width() {
  return stdout_is_terminal() ? columns_of(STDOUT_FILENO) : kNoTerminalWidth;
}

const Style& stdout_style() {
  static const bool wanted = wants_colour(STDOUT_FILENO);
  return style_of(wanted);
}

const Style& stderr_style() {
  static const bool wanted = wants_colour(STDERR_FILENO);
  return style_of(wanted);
}

void print_error(std::string_view message) {
  if (is_muted()) {
    muted().last_error = message;
    return;
  }
  wait_if_ending();
  const Style& style = stderr_style();
  write_error(fmt::format("{}cairn:{} ", style.red, style.reset));
  print_line(message);
}

void advise(std::string_view line) {
  if (!is_muted() && !screen_settings().quiet) print_line(line);
}

void warn(std::string_view message) {
  if (!is_muted() && !screen_settings().quiet) print_error(message);
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)) {
  const ScreenSettings& settings = screen_settings();
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  as_json_ = settings.progress == When::kJson;
  const bool always = settings.progress == When::kAlways || as_json_;
  enabled_ =
      !is_muted() && (always || (settings.progress == When::kAuto && terminal && !settings.quiet));
  in_lines_ = !terminal;
  exceptions_ = std::uncaught_exceptions();
  next_draw_ = start_ + std::chrono::seconds(always ? 0 : 1);
}

ProgressBar::~ProgressBar() {
  erase();
  if (enabled_ && as_json_)
    print_json(std::uncaught_exceptions() > exceptions_ ? "failed" : "finished");
}

double ProgressBar::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

// The bytes are those of tensors; those of the network are counted with the requests.
void ProgressBar::print_json(std::string_view state) const {
  const StoreTraffic traffic = store_traffic();
  write_error(
      fmt::format(R"({{"phase": "{}", "state": "{}", "done": {}, "total": {}, "seconds": {:.3f}, )"
                  R"("requests": {}, "network_bytes": {}}})"
                  "\n",
                  label_, state, most_done_.load(), total_.load(), seconds(), traffic.requests,
                  traffic.received + traffic.sent));
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!enabled_) return;
  if (as_json_) {
    // Workers may report in any order, and the last line must have the last numbers.
    total_ = total;
    std::uint64_t most = most_done_.load();
    while (most < done && !most_done_.compare_exchange_weak(most, done)) {
    }
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || Clock::now() < next_draw_) return;
    next_draw_ = Clock::now() + std::chrono::milliseconds(500);
    return print_json("running");
  }
  const bool last = in_lines_ && done >= total;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (last)
    lock.lock();
  else
    (void)lock.try_lock();  // a worker never waits for the display
  const auto now = Clock::now();
  if (!lock.owns_lock() || finished_ || (now < next_draw_ && !last)) return;
  next_draw_ = now + std::chrono::milliseconds(in_lines_ ? 1000 : 100);
  finished_ = last;
  draw(done, total, std::max(1e-3, seconds()));
}

void ProgressBar::draw(std::uint64_t done, std::uint64_t total, double seconds) {
  const double share =
      total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
  const double rate = static_cast<double>(done) / seconds;
  std::string line = fmt::format("{} {:3.0f}%  {}/s", label_, 100 * share,
                                 bytes_text(static_cast<std::uint64_t>(rate)));
  // The bytes above are those of tensors; these came over the network.
  if (const StoreTraffic traffic = store_traffic(); traffic.requests > 0)
    line += fmt::format("  {} in {} request{}", bytes_text(traffic.received + traffic.sent),
                        traffic.requests, traffic.requests == 1 ? "" : "s");
  if (share > 0) line += fmt::format("  {} left", duration_text(seconds * (1 - share) / share));
  if (in_lines_) {
    write_error(line + "\n");
  } else {
    write_error("\r\x1b[K" + bar_of(line, share));
    drawn_ = true;
  }
}

// The line with a bar after it, or cut to the width of the terminal.
std::string ProgressBar::bar_of(const std::string& line, double share) {
  const std::size_t width = columns_of(STDERR_FILENO);
  const std::size_t room =
      width > line.size() + 4 ? std::min<std::size_t>(width - line.size() - 4, 40) : 0;
  if (room < 8) return line.size() < width ? line : line.substr(0, width - 1);
  const auto full = static_cast<std::size_t>(share * static_cast<double>(room));
  std::string bar = line + "  ";
  for (std::size_t i = 0; i < room; ++i) bar += i < full ? "━" : "─";
  return bar;
}

void ProgressBar::erase() {
  const std::lock_guard lock(mutex_);
  if (drawn_) write_error("\r\x1b[K");
  drawn_ = false;
}

}  // namespace cairn::cli
