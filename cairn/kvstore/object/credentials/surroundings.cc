// surroundings.cc -- the environment, files, clock and programs of this process.
#include <cairn/kvstore/object/credentials/credentials.h>

#include <cairn/base/cancellation.h>
#include <cairn/io/file.h>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::uint64_t kMostFile = std::uint64_t{1} << 20U;  // bytes
constexpr std::size_t kMostOutput = std::size_t{64} << 10U;   // bytes

std::optional<std::string> environment_value(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<std::string> small_file(const std::string& path) {
  const auto file = File::try_open(path);
  if (!file) return std::nullopt;
  return std::string(as_text(read_text(*file, kMostFile)));
}

// A program that was started, and the end of the pipe with its output. The destructor ends it.
class Program {
 public:
  explicit Program(const std::vector<std::string>& command) : name_(command.front()) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot make a pipe");
    output_ = ends[0];
    const int error = spawn(command, ends[1]);
    ::close(ends[1]);
    if (error != 0) fail("cannot be started");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      static_cast<void>(wait());
    }
    ::close(output_);
  }

  std::string output() {
    std::string text;
    std::array<char, 4096> bytes{};
    for (;;) {
      throw_if_cancelled();
      pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 100) <= 0) continue;  // asks for a cancellation in between
      const ssize_t count = ::read(output_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      text.append(bytes.data(), static_cast<std::size_t>(count));
      if (text.size() > kMostOutput) fail("writes more than 64 KiB");
    }
    if (wait() != 0) fail("ended with an error");
    return text;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(Code::kIo, "the program " + name_ + " " + what);
  }

  int spawn(const std::vector<std::string>& command, int output) {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& argument : command)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    const int error =
        ::posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) pid_ = -1;
    return error;
  }

  int wait() {
    int status = -1;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  std::string name_;
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace

Surroundings process_surroundings(std::shared_ptr<HttpTransport> transport) {
  return {.environment = environment_value,
          .file = small_file,
          .now_s = [] { return static_cast<std::int64_t>(std::time(nullptr)); },
          .transport = std::move(transport),
          .run = [](const std::vector<std::string>& command) { return Program(command).output(); }};
}

}  // namespace cairn::inline v0::object
