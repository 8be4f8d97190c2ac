// coordinator.cc -- calls a coordinator of Python from the threads of the library.
#include "coordinator.h"

#include "gil.h"
#include "values/arrays.h"

#include <cairn/error.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using Timeout = Coordinator::Timeout;

Timeout timeout_of(nb::handle job, const char* member) {
  const auto seconds = nb::cast<double>(job.attr(member));
  constexpr double kMost = 1e9;  // seconds; a float may be infinite
  if (!(seconds > 0)) throw Error(Code::kInvalidArgument, "timeout: must be positive");
  return Timeout(static_cast<Timeout::rep>(std::min(seconds, kMost) * 1000));
}

// "TypeError: ...", with Python's lock.
std::string text_of(const nb::python_error& error) {
  const nb::str name(error.type().attr("__name__"));
  return std::string(name.c_str()) + ": " + nb::str(error.value()).c_str();
}

Code code_of(const nb::python_error& error) {
  if (error.matches(PyExc_NotImplementedError)) return Code::kUnimplemented;
  return error.matches(PyExc_OSError) ? Code::kIo : Code::kInvalidArgument;
}

}  // namespace

class PythonCoordinator final : public Coordinator {
 public:
  explicit PythonCoordinator(nb::object job)
      : index_(nb::cast<std::size_t>(job.attr("process_index"))),
        count_(nb::cast<std::size_t>(job.attr("process_count"))),
        job_(keep_alive(std::move(job))) {
    if (index_ >= count_)
      throw Error(Code::kInvalidArgument, "coordinator: process_index " + std::to_string(index_) +
                                              " is not below process_count " +
                                              std::to_string(count_));
  }

  [[nodiscard]] std::size_t process_index() const override { return index_; }
  [[nodiscard]] std::size_t process_count() const override { return count_; }

  void barrier(std::string_view name, Timeout timeout) override { all_gather(name, {}, timeout); }

  Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                  Timeout timeout) override {
    if (root >= count_)
      throw Error(Code::kInvalidArgument,
                  "process " + std::to_string(root) + " is not one of the job");
    return all_gather(name, index_ == root ? value : ByteView(), timeout).at(root);
  }

  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    check_python();
    const WithGil locked;
    return with_context([&] { return "'" + std::string(name) + "'"; },
                        [&] {
                          try {
                            const std::chrono::duration<double> seconds = timeout;
                            return values(call_python(nb::getattr(object(), "all_gather"),
                                                      nb::str(name.data(), name.size()),
                                                      nb::bytes(value.data(), value.size()),
                                                      nb::float_(seconds.count())));
                          } catch (const nb::python_error& error) {
                            const bool is_plain = error.matches(PyExc_OSError);
                            throw Error(Code::kUnavailable,
                                        is_plain ? nb::str(error.value()).c_str() : text_of(error));
                          }
                        });
  }

  void abort(std::string_view name, std::string_view why) noexcept override {
    quietly([&] {
      call_python(nb::getattr(object(), "abort"), nb::str(name.data(), name.size()),
                  nb::str(why.data(), why.size()));
    });
  }

  void cancel() noexcept {
    quietly([&] { call_python(nb::getattr(object(), "cancel")); });
  }

 private:
  static void check_python() {
    if (Py_IsInitialized() == 0)
      throw Error(Code::kUnavailable, "the interpreter of Python has ended");
  }
  [[nodiscard]] nb::handle object() const {
    return static_cast<PyObject*>(const_cast<void*>(job_.get()));
  }
  template <class Call>
  void quietly(Call call) noexcept {
    if (Py_IsInitialized() == 0) return;
    const WithGil locked;
    try {
      call();
    } catch (const std::exception&) {
      // The others wait until their time is over.
    }
  }
  [[nodiscard]] std::vector<Bytes> values(nb::handle gathered) const {
    std::vector<Bytes> result;
    for (const nb::handle one : gathered) {
      if (!PyBytes_Check(one.ptr()))
        throw Error(Code::kInvalidArgument, "all_gather of the coordinator must return bytes");
      const auto* begin = reinterpret_cast<const std::byte*>(PyBytes_AsString(one.ptr()));
      result.emplace_back(begin, begin + PyBytes_Size(one.ptr()));
    }
    if (result.size() != count_)
      throw Error(Code::kInvalidArgument, "all_gather of the coordinator returned " +
                                              std::to_string(result.size()) + " values for " +
                                              std::to_string(count_) + " processes");
    return result;
  }

  std::size_t index_;
  std::size_t count_;
  std::shared_ptr<const void> job_;  // cairn._processes.Job
};

Job::Job(nb::object job) : coordinator_(std::make_shared<PythonCoordinator>(job)) {
  options_.coordinator = coordinator_;
  options_.timeout = timeout_of(job, "timeout");
  options_.write_timeout = timeout_of(job, "write_timeout");
}

std::optional<Job> Job::of(nb::object job) {
  if (job.is_none()) return std::nullopt;
  return Job(std::move(job));
}

std::optional<Job> Job::take(nb::dict options) {
  if (!options.contains("processes")) return std::nullopt;
  nb::object job = options["processes"];
  PyDict_DelItemString(options.ptr(), "processes");
  return of(std::move(job));
}

void Job::cancel() const noexcept { coordinator_->cancel(); }

namespace {

// What one process did before a step in which all learn whether it has failed.
class Attempt {
 public:
  explicit Attempt(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      error_ = std::current_exception();
      code_ = error.code();
      text_ = error.message();
    } catch (const nb::python_error& error) {
      error_ = std::current_exception();
      code_ = code_of(error);
      text_ = text_of(error);
    } catch (const std::exception& error) {
      error_ = std::current_exception();
      text_ = error.what();
    }
  }
  // Throws Error in all processes if one has failed.
  void share(MultiprocessingOptions job) const {
    job.write_timeout = job.timeout;  // nobody writes yet
    try {
      do_together(job, "save: tree", [&] {
        if (error_) throw Error(code_, text_);
        return Bytes();
      });
    } catch (const Error& error) {
      if (error_ || error.message().find("did not arrive") == std::string::npos) throw;
      throw Error(
          Code::kUnavailable,
          error.message() + "; all processes must save together, unless coordinator is 'none'");
    }
  }
  // Throws the exception of this process, if it has one.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
  Code code_ = Code::kInvalidArgument;
  std::string text_;
};

}  // namespace

void run_long(const std::optional<Job>& job, const std::function<void(const CallControl&)>& work,
              nb::handle progress, Outcome outcome) {
  const auto stoppable = [&](const CallControl& call) {
    const std::stop_callback stop(call.cancel, [&] {
      if (job) job->cancel();
    });
    work(call);
  };
  run_long(progress, stoppable, outcome);
}

void run_prepared(const std::optional<Job>& job, const std::function<void()>& prepare,
                  const std::function<void(const CallControl&)>& work, nb::handle progress,
                  Outcome outcome) {
  if (!job) {
    prepare();
    run_long(job, work, progress, outcome);
    return;
  }
  const Attempt attempt(prepare);
  const auto together = [&](const CallControl& call) {
    attempt.share(job->options());
    work(call);
  };
  try {
    run_long(job, together, progress, outcome);
  } catch (const Error&) {
    attempt.rethrow();
    throw;
  }
}

}  // namespace cairn::python
