// terminal.cc -- output, colour and progress.
#include "terminal.h"

#include "interrupt.h"

#include "text.h"

#include <cairn/error.h>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace cairn::cli {
namespace {

constexpr std::size_t kBufferSize = std::size_t{1} << 16U;
constexpr std::size_t kNoTerminalWidth = 1U << 20U;

bool environment_says(const char* name, const char* value = nullptr) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' && (value == nullptr || std::strcmp(text, value) == 0);
}

bool colour_on(int fd) { return ::isatty(fd) != 0 && !environment_says("NO_COLOR") && !environment_says("TERM", "dumb"); }

Style make_style(int fd) {
  if (!colour_on(fd)) return {};
  return {"\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[0m"};
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EPIPE) {
      throw BrokenPipe();
    } else if (errno != EINTR) {
      throw Error(Code::kIo, std::string("standard output: ") + std::strerror(errno));
    }
  }
}

std::size_t columns_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// What a process that is not to speak has in place of a voice.
struct Muted {
  bool on = false;
  std::string complaint;
};
Muted& muted() {
  static Muted state;
  return state;
}

}  // namespace

void mute() { muted().on = true; }
bool is_muted() { return muted().on; }
const std::string& unsaid() { return muted().complaint; }

Output& out() {
  static Output output;
  return output;
}

void Output::write(std::string_view text) {
  if (is_muted()) return;
  if (text.size() >= kBufferSize) {  // large pieces of tensors are not copied once more
    flush();
    write_all(STDOUT_FILENO, text);
    return;
  }
  buffer_.append(text);
  if (buffer_.size() >= kBufferSize) flush();
}

void Output::flush() {
  const std::string pending = std::exchange(buffer_, {});
  write_all(STDOUT_FILENO, pending);
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) != 0; }
std::size_t terminal_width() { return stdout_is_terminal() ? columns_of(STDOUT_FILENO) : kNoTerminalWidth; }

const Style& stdout_style() {
  static const Style style = make_style(STDOUT_FILENO);
  return style;
}

const Style& stderr_style() {
  static const Style style = make_style(STDERR_FILENO);
  return style;
}

void complain(std::string_view message) {
  if (is_muted()) {
    muted().complaint = message;
    return;
  }
  wait_if_ending();
  const Style& style = stderr_style();
  fmt::print(stderr, "{}cairn:{} {}\n", style.red, style.reset, message);
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), enabled_(::isatty(STDERR_FILENO) != 0 && !is_muted()) {}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!enabled_) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);  // a worker never waits for the display
  const auto now = Clock::now();
  if (!lock.owns_lock() || now < next_draw_) return;
  next_draw_ = now + std::chrono::milliseconds(100);
  draw(done, total, std::chrono::duration<double>(now - start_).count());
}

void ProgressBar::draw(std::uint64_t done, std::uint64_t total, double seconds) {
  const double share = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
  const double rate = static_cast<double>(done) / seconds;
  std::string line = fmt::format("{} {:3.0f}%  {}/s", label_, 100 * share, bytes_text(static_cast<std::uint64_t>(rate)));
  if (share > 0) line += fmt::format("  {} left", duration_text(seconds * (1 - share) / share));
  const std::size_t width = columns_of(STDERR_FILENO);
  const std::size_t room = width > line.size() + 4 ? std::min<std::size_t>(width - line.size() - 4, 40) : 0;
  if (room >= 8) {
    const auto full = static_cast<std::size_t>(share * static_cast<double>(room));
    std::string bar;
    for (std::size_t i = 0; i < room; ++i) bar += i < full ? "━" : "─";
    line += "  " + bar;
  } else if (line.size() >= width) {
    line.resize(width - 1);
  }
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::erase() {
  const std::lock_guard lock(mutex_);
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace cairn::cli
