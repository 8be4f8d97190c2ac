// forks.h -- objects with threads, in a process that was forked from theirs. A fork copies the
// object, perhaps with a locked mutex, but none of its threads.
#pragma once

#include <cairn/error.h>

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

namespace cairn::python {

// An object that has threads in the process that made it.
template <class T>
class OwnedByProcess {
 public:
  OwnedByProcess() = default;
  OwnedByProcess(const OwnedByProcess&) = delete;
  OwnedByProcess& operator=(const OwnedByProcess&) = delete;
  // A forked process leaks its copy: the destructor would wait for threads that are not there.
  ~OwnedByProcess() { reset(); }

  void set(std::unique_ptr<T> object) { object_ = std::move(object); }
  void reset() {
    if (is_here())
      object_.reset();
    else
      static_cast<void>(object_.release());
  }

  [[nodiscard]] bool is_here() const { return getpid() == process_; }
  // Throws failed_precondition in a forked process; `what` names the object.
  void check_is_here(const char* what) const {
    if (is_here()) return;
    throw Error(Code::kFailedPrecondition,
                std::string(what) + " belongs to process " + std::to_string(process_) +
                    ", from which this one was forked; use it only there");
  }

  T* operator->() const { return object_.get(); }
  T& operator*() const { return *object_; }

 private:
  pid_t process_ = getpid();
  std::unique_ptr<T> object_;
};

}  // namespace cairn::python
