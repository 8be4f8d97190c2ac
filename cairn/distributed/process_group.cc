// process_group.cc -- steps: work, then one gathering in which every process reports its result.
//
//   u8 0, the value that the work returned                success; process 0 is the primary
//   u8 1, u8 code, text                                   failure
//   u8 2, u64 primary, the value that the work returned   success; UINT64_MAX: there is no primary
#include <cairn/distributed/process_group.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/cancellation.h>
#include <cairn/base/errors.h>
#include <cairn/base/observer/observe.h>
#include <cairn/distributed/coordinator/collective.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace cairn::inline v0::distributed {
namespace {

constexpr std::uint8_t kWell = 0;
constexpr std::uint8_t kFailed = 1;
constexpr std::uint8_t kWellOfPrimary = 2;

Bytes failure(Code code, std::string_view text) {
  ByteWriter out;
  out.u8(kFailed).u8(static_cast<std::uint8_t>(code)).text(text);
  return std::move(out).take();
}

Bytes failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return failure(e.code(), e.message());
  } catch (const std::exception& e) {
    return failure(Code::kUnavailable, e.what());
  } catch (...) {
    return failure(Code::kUnavailable, "an exception that is not a std::exception");
  }
}

// The report of a successful process.
struct Reply {
  std::uint64_t primary = 0;
  Bytes value;
};

Bytes success(const std::optional<std::size_t>& primary, ByteView value) {
  ByteWriter out;
  if (primary == std::size_t{0})
    out.u8(kWell);
  else
    out.u8(kWellOfPrimary).u64(primary ? *primary : UINT64_MAX);
  return std::move(out.bytes(value)).take();
}

// Processes with different primaries would take different steps, or none would do the work that is
// done once.
void check_primaries(const std::vector<Reply>& replies) {
  const auto text = [](std::uint64_t primary) {
    return primary == UINT64_MAX ? "none" : std::to_string(primary);
  };
  for (std::size_t p = 1; p < replies.size(); ++p)
    if (replies[p].primary != replies[0].primary)
      invalid_argument("primary_host: process " + std::to_string(p) + " has " +
                       text(replies[p].primary) + ", process 0 has " + text(replies[0].primary));
}

// Throws the error that a failed process reported.
Reply reply_of(std::size_t process, const Bytes& message) {
  return with_context([&] { return "process " + std::to_string(process); },
                      [&] {
                        ByteReader in(message);
                        const std::uint8_t result = in.u8();
                        if (result == kWell || result == kWellOfPrimary) {
                          const std::uint64_t primary = result == kWell ? 0 : in.u64();
                          const ByteView rest = in.take(in.remaining());
                          return Reply{primary, Bytes(rest.begin(), rest.end())};
                        }
                        const std::uint8_t code = in.u8();
                        const std::string text(in.text(in.remaining()));
                        throw Error(code <= static_cast<std::uint8_t>(Code::kDeadlineExceeded)
                                        ? Code{code}
                                        : Code::kUnavailable,
                                    text);
                      });
}

std::vector<Bytes> values_of(const std::vector<Bytes>& messages) {
  std::vector<Reply> replies;
  replies.reserve(messages.size());
  for (std::size_t p = 0; p < messages.size(); ++p) replies.push_back(reply_of(p, messages[p]));
  check_primaries(replies);
  std::vector<Bytes> values;
  values.reserve(replies.size());
  for (Reply& reply : replies) values.push_back(std::move(reply.value));
  return values;
}

}  // namespace

ProcessGroup::ProcessGroup(MultiprocessingOptions options, Observer observer)
    : options_(std::move(options)), observer_(std::move(observer)) {
  if (options_.primary_host && *options_.primary_host >= count())
    throw Error(Code::kInvalidArgument, "process " + std::to_string(*options_.primary_host) +
                                            " cannot be primary in a job of " +
                                            std::to_string(count()) + " processes");
  if (options_.timeout.count() <= 0 || options_.write_timeout.count() <= 0)
    throw Error(Code::kInvalidArgument,
                "the timeout of collectives is " +
                    std::to_string(std::min(options_.timeout, options_.write_timeout).count()) +
                    " ms; it must be positive");
}

std::string ProcessGroup::key(std::string_view name) const {
  const auto& prefix = options_.barrier_sync_key_prefix;
  return (prefix ? *prefix + "_" : "") + std::string(name);
}

std::vector<Bytes> ProcessGroup::gather(std::string_view name, StepKind kind,
                                        const std::function<Bytes()>& work) const {
  if (is_single()) {
    throw_if_cancelled();
    return {work()};
  }
  std::exception_ptr error;
  Bytes message;
  try {
    throw_if_cancelled();
    message = success(options_.primary_host, work());
  } catch (...) {
    error = std::current_exception();
    message = failure(error);
  }
  const auto timeout = kind == StepKind::kIo ? options_.write_timeout : options_.timeout;
  std::vector<Bytes> messages;
  try {
    const Stopwatch watch;
    messages = options_.coordinator->all_gather(key(name), message, timeout);
    observe(observer_, EventLevel::kDebug, "processes.met", {{"name", name}}, watch.elapsed());
  } catch (...) {
    if (!error) throw;  // else this process's own error says more
  }
  if (error) std::rethrow_exception(error);
  return values_of(messages);
}

void ProcessGroup::exchange(std::string_view name, const Coordinator::Delivery& between,
                            const std::function<Bytes()>& prepare,
                            const std::function<void(std::vector<Bytes>)>& take) const {
  Bytes value;
  between_exchanges(name, [&] { value = prepare(); });
  auto came = options_.coordinator->exchange(key(name), value, between, options_.write_timeout);
  between_exchanges(name, [&] { take(std::move(came)); });
}

void ProcessGroup::between_exchanges(std::string_view name,
                                     const std::function<void()>& work) const {
  try {
    work();
  } catch (...) {
    if (!is_single()) options_.coordinator->abort(key(name), current_exception_text());
    throw;
  }
}

void ProcessGroup::step(std::string_view name, StepKind kind,
                        const std::function<void()>& work) const {
  gather(name, kind, [&] {
    work();
    return Bytes();
  });
}

}  // namespace cairn::inline v0::distributed

namespace cairn::inline v0 {

std::vector<Bytes> do_together(const MultiprocessingOptions& job, std::string_view name,
                               const std::function<Bytes()>& work) {
  return distributed::ProcessGroup(job).gather(name, distributed::StepKind::kIo, work);
}

}  // namespace cairn::inline v0
