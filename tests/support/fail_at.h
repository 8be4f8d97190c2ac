// fail_at.h -- runs code in a child process in which one chosen system call fails, or writes less
// than requested, or records the calls. Full disks, quotas, broken devices, missing permissions and
// signals cause such failures. The call may come from any thread. Like kill_at.h, this works on
// x86-64 only.
#pragma once

#include <cairn/error.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/traced.h"

namespace cairn::testing {

// Used in place of an error: the call writes half of the requested bytes.
inline constexpr int kShortWrite = -1;

// Whether the call operates on the file of a SaveLock. The bytes of that file are for messages
// only, and the next save takes over a file that stays.
inline bool is_about_a_save_lock(const std::string& call) {
  const bool harmless =
      call.starts_with("pwrite64(") || call.starts_with("unlink(") || call.starts_with("close(");
  return harmless && call.find(".cairn-tmp-0") != std::string::npos;
}

// The outcome of a run.
struct Faulted {
  bool injected = false;  // false: the work ended before the chosen call
  std::string call;       // the call that failed, such as "pwrite64(/tmp/x/d/ab12)"
  bool ended = false;     // true: with success or an Error; false: by a signal or another exception
  std::optional<Error> error;
  int descriptors_left = 0;  // open descriptors at the end, less those at the start
};

namespace detail {

// Calls that may fail in addition to those that touch files.
inline constexpr std::array kAlsoFailing = {long{SYS_close}, long{SYS_sync_file_range}};

// The child's report at its end.
struct Report {
  bool ended = false, failed = false;
  Code code = Code::kIo;
  int descriptors_left = 0;
  std::array<char, 2000> message{};
};

class SharedReport {
 public:
  SharedReport() {
    void* memory =
        mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error(Code::kIo, "cannot map memory for a report");
    report_ = new (memory) Report;
  }
  SharedReport(const SharedReport&) = delete;
  SharedReport& operator=(const SharedReport&) = delete;
  ~SharedReport() { munmap(report_, sizeof(Report)); }
  Report* operator->() const { return report_; }

 private:
  Report* report_ = nullptr;
};

inline int open_descriptors() {
  int count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd"), end; at != end; ++at) ++count;
  return count;
}

inline bool is_write(long number) {
  return number == SYS_write || number == SYS_pwrite64 || number == SYS_writev ||
         number == SYS_pwritev || number == SYS_pwritev2;
}

inline std::string link_of(const std::string& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

// Whether the descriptor is open for writing. Only then may a close report a lost write.
inline bool is_for_writing(pid_t process, std::uint64_t descriptor) {
  std::ifstream in("/proc/" + std::to_string(process) + "/fdinfo/" + std::to_string(descriptor));
  for (std::string word; in >> word;)
    if (word == "flags:" && in >> word)
      return (std::stoul(word, nullptr, 8) & O_ACCMODE) != O_RDONLY;
  return false;
}

inline std::string text_at(pid_t thread, std::uint64_t address) {
  std::array<char, 400> text{};
  iovec to{text.data(), text.size() - 1};
  const iovec from{reinterpret_cast<void*>(address), text.size() - 1};
  // A string near the end of a page: read only the readable part.
  for (; to.iov_len > 0; --to.iov_len) {
    const iovec part{from.iov_base, to.iov_len};
    if (process_vm_readv(thread, &to, 1, &part, 1, 0) > 0) break;
  }
  return text.data();
}

// Returns the call and the file that it operates on.
inline std::string describe_call(pid_t thread, const __ptrace_syscall_info& call) {
  static const std::map<long, std::pair<const char*, int>> kNames = {
      {SYS_openat, {"openat", 1}},        {SYS_write, {"write", -1}},
      {SYS_pwrite64, {"pwrite64", -1}},   {SYS_writev, {"writev", -1}},
      {SYS_pwritev, {"pwritev", -1}},     {SYS_pwritev2, {"pwritev2", -1}},
      {SYS_rename, {"rename", 1}},        {SYS_renameat, {"renameat", 3}},
      {SYS_renameat2, {"renameat2", 3}},  {SYS_unlink, {"unlink", 0}},
      {SYS_unlinkat, {"unlinkat", 1}},    {SYS_mkdir, {"mkdir", 0}},
      {SYS_mkdirat, {"mkdirat", 1}},      {SYS_rmdir, {"rmdir", 0}},
      {SYS_ftruncate, {"ftruncate", -1}}, {SYS_fsync, {"fsync", -1}},
      {SYS_fdatasync, {"fdatasync", -1}}, {SYS_fallocate, {"fallocate", -1}},
      {SYS_utimensat, {"utimensat", -1}}, {SYS_fcntl, {"fcntl", -1}},
      {SYS_close, {"close", -1}},         {SYS_link, {"link", 1}},
      {SYS_linkat, {"linkat", 3}},        {SYS_sync_file_range, {"sync_file_range", -1}}};
  const auto name = kNames.find(static_cast<long>(call.seccomp.nr));
  if (name == kNames.end()) return "call " + std::to_string(call.seccomp.nr);
  const auto [text, argument] = name->second;
  const std::string file = argument < 0 ? link_of("/proc/" + std::to_string(thread) + "/fd/" +
                                                  std::to_string(call.seccomp.args[0]))
                                        : text_at(thread, call.seccomp.args[argument]);
  return std::string(text) + "(" + file + ")";
}

// Half of the length, rounded down to whole pages if it has any: direct I/O accepts only whole
// pages.
inline std::uint64_t half_of(std::uint64_t length) {
  return length > 8192 ? length / 2 / 4096 * 4096 : length / 2;
}

// Makes a call that is about to begin fail or write less. Keeps the state that must be restored
// when the call ends.
class Injection {
 public:
  Injection(pid_t thread, int error) : thread_(thread), error_(error) {}
  [[nodiscard]] pid_t thread() const { return thread_; }

  void begin(const __ptrace_syscall_info& call) {
    ptrace(PTRACE_GETREGS, thread_, nullptr, &at_entry_);
    user_regs_struct changed = at_entry_;
    if (error_ != kShortWrite) {
      // A close that fails still closes the descriptor, so the call is executed.
      if (static_cast<long>(call.seccomp.nr) != SYS_close) changed.orig_rax = ~std::uint64_t{0};
    } else if (const auto number = static_cast<long>(call.seccomp.nr);
               number == SYS_write || number == SYS_pwrite64) {
      changed.rdx = half_of(changed.rdx);
    } else {
      shorten_first_part(changed);
    }
    ptrace(PTRACE_SETREGS, thread_, nullptr, &changed);
  }
  void end() {
    user_regs_struct regs{};
    ptrace(PTRACE_GETREGS, thread_, nullptr, &regs);
    if (error_ != kShortWrite) regs.rax = static_cast<std::uint64_t>(-std::int64_t{error_});
    // The kernel preserves the argument registers, and a program may rely on that.
    regs.rdx = at_entry_.rdx;
    ptrace(PTRACE_SETREGS, thread_, nullptr, &regs);
    if (part_at_ != 0) poke(part_at_, &part_, sizeof(part_));
  }

 private:
  // Shortens writev and similar calls to half of the first part; the other parts are dropped.
  void shorten_first_part(user_regs_struct& changed) {
    iovec to{&part_, sizeof(part_)};
    const iovec from{reinterpret_cast<void*>(changed.rsi), sizeof(part_)};
    if (changed.rdx == 0 || process_vm_readv(thread_, &to, 1, &from, 1, 0) != sizeof(part_)) return;
    part_at_ = changed.rsi;
    const iovec half{part_.iov_base, half_of(part_.iov_len)};
    poke(part_at_, &half, sizeof(half));
    changed.rdx = 1;
  }
  void poke(std::uint64_t address, const void* bytes, std::size_t size) const {
    const iovec from{const_cast<void*>(bytes), size};
    const iovec to{reinterpret_cast<void*>(address), size};
    if (process_vm_writev(thread_, &from, 1, &to, 1, 0) != static_cast<ssize_t>(size))
      ADD_FAILURE() << "cannot write to the child";
  }

  pid_t thread_;
  int error_;
  user_regs_struct at_entry_{};
  std::uint64_t part_at_ = 0;
  iovec part_{};
};

// Runs the child until it ends.
class FaultTracer {
 public:
  FaultTracer(pid_t child, int n, int error) : child_(child), left_(n), error_(error) {}
  // Lets no call fail, and adds all to `record`.
  FaultTracer(pid_t child, std::vector<std::string>& record)
      : child_(child), left_(0), error_(0), record_(&record) {}

  // Returns the call that failed, or "" if there was none.
  std::string run() {
    ptrace(PTRACE_CONT, child_, nullptr, nullptr);
    int status = 0;
    for (pid_t thread = 0; (thread = waitpid(-1, &status, __WALL)) > 0;) {
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (thread == child_) break;
        continue;
      }
      int signal = 0;
      if (is_before_a_call(status))
        before_call(thread);
      else if (WSTOPSIG(status) == (SIGTRAP | 0x80))
        after_call(thread);
      else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP)
        signal = WSTOPSIG(status);  // the child's own signal; a new thread begins with a SIGSTOP
      const bool stops_after = injection_ && injection_->thread() == thread;
      ptrace(stops_after ? PTRACE_SYSCALL : PTRACE_CONT, thread, nullptr, signal);
    }
    return call_;
  }

 private:
  void before_call(pid_t thread) {
    if (!call_.empty()) return;
    const __ptrace_syscall_info call = call_of(thread);
    if (!counts(call)) return;
    if (record_ != nullptr) return record_->push_back(describe_call(thread, call));
    if (left_-- > 0) return;
    call_ = describe_call(thread, call);
    injection_.emplace(thread, error_);
    injection_->begin(call);
  }
  void after_call(pid_t thread) {
    if (!injection_ || injection_->thread() != thread) return;
    injection_->end();
    injection_.reset();
  }
  [[nodiscard]] bool counts(const __ptrace_syscall_info& call) const {
    const auto number = static_cast<long>(call.seccomp.nr);
    if (error_ == kShortWrite) return is_write(number);
    if (number == SYS_fcntl) return call.seccomp.args[1] == F_OFD_SETLKW;
    if (number == SYS_sync_file_range) return true;
    return touches_files(call) ||
           (number == SYS_close && is_for_writing(child_, call.seccomp.args[0]));
  }

  pid_t child_;
  int left_;
  int error_;
  std::string call_;
  std::optional<Injection> injection_;
  std::vector<std::string>* record_ = nullptr;
};

}  // namespace detail

// Runs `work` in a child. The n-th (from 0) of its calls that change files fails with `error`, or
// writes less if `error` is kShortWrite.
template <class Work>
Faulted run_and_fail_at(int n, int error, Work work) {
  const detail::SharedReport report;
  const auto child_work = [&] {
    const int before = detail::open_descriptors();
    try {
      work();
      report->ended = true;
    } catch (const Error& e) {
      report->ended = report->failed = true;
      report->code = e.code();
      const std::size_t length = std::min(e.message().size(), report->message.size() - 1);
      std::memcpy(report->message.data(), e.message().data(), length);
    }
    report->descriptors_left = detail::open_descriptors() - before;
    _exit(0);
  };
  const pid_t child = start_traced(child_work, detail::kAlsoFailing);
  Faulted result;
  result.call = detail::FaultTracer(child, n, error).run();
  result.injected = !result.call.empty();
  result.ended = report->ended;
  result.descriptors_left = report->descriptors_left;
  if (report->failed) result.error.emplace(report->code, report->message.data());
  return result;
}

// Runs `work` in a child. Returns its calls that change files, as Faulted::call.
template <class Work>
std::vector<std::string> recorded_calls(Work work) {
  std::vector<std::string> calls;
  const auto child_work = [&] {
    work();
    _exit(0);
  };
  detail::FaultTracer(start_traced(child_work, detail::kAlsoFailing), calls).run();
  return calls;
}

}  // namespace cairn::testing
