// mpi.cc -- a coordinator that uses MPI; the only file that includes MPI's headers.
//
// A process that joins a collective sends a message to every other process, and then polls until it
// has received theirs. MPI's own collective operations have no time-outs: a missing process would
// block them forever.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <cairn/distributed/coordinator/collective.h>
#include <cairn/distributed/coordinator/message.h>
#include <cairn/distributed/coordinator/wait.h>
#include <cairn/error.h>
#include <cairn/mpi.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using distributed::Clock;
using distributed::Message;

// name and value together: MPI counts in ints
constexpr std::size_t kMostBytes = (std::size_t{1} << 31U) - (std::size_t{1} << 20U);
constexpr std::size_t kMostName = std::size_t{1} << 20U;
constexpr int kTag = 1;
// how long an ending process still receives messages of the processes that go on
constexpr auto kFarewell = std::chrono::seconds(2);
constexpr int kEagerLooks = 200;  // polls before the first pause

// The kind of a message: the first byte of its name.
constexpr char kCome = 'c';    // joins a collective
constexpr char kBroken = 'b';  // says why a collective failed
constexpr char kGone = 'g';    // this process joins no further collectives

void check(int result, const char* doing) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw Error(Code::kUnavailable,
              fmt::format("MPI cannot {}: {}", doing,
                          std::string_view(text.data(), static_cast<std::size_t>(length))));
}

// Duplicates the communicator. The copy returns errors instead of aborting.
MPI_Comm duplicate(MPI_Comm all, Coordinator::Timeout timeout) {
  auto own = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(all, own.get(), &request), "duplicate the communicator");
  const auto deadline = distributed::deadline_after(timeout);
  distributed::Backoff backoff;
  int done = 0;
  while (true) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "duplicate the communicator");
    if (done != 0) break;
    if (Clock::now() >= deadline) {
      (void)own.release();  // MPI writes there if the other processes come after all
      throw Error(Code::kUnavailable,
                  fmt::format("not all processes of the communicator arrived within {:g} s",
                              static_cast<double>(timeout.count()) / 1000));
    }
    backoff.wait(deadline);
  }
  check(MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN), "set an error handler");
  return *own;
}

// Sends and receives whole messages without blocking. Not safe to use from several threads at once.
class Post {
 public:
  explicit Post(MPI_Comm comm) : comm_(comm) {
    int value = 0;
    check(MPI_Comm_rank(comm, &value), "get the rank");
    me_ = static_cast<std::size_t>(value);
    check(MPI_Comm_size(comm, &value), "get the number of processes");
    under_way_->arriving.resize(static_cast<std::size_t>(value));
  }
  Post(const Post&) = delete;
  Post& operator=(const Post&) = delete;
  ~Post() {
    if (is_idle())
      MPI_Comm_free(&comm_);
    else
      (void)under_way_.release();  // kept allocated: MPI may access it for as long as MPI runs
  }

  [[nodiscard]] std::size_t me() const { return me_; }
  [[nodiscard]] std::size_t count() const { return under_way_->arriving.size(); }

  void send_to_others(const Message& message) {
    const auto bytes = std::make_shared<const Bytes>(encode_message(message));
    for (std::size_t p = 0; p < count(); ++p)
      if (p != me_) send(bytes, p);
  }
  // Sends the message to the processes in `to`, and a copy without its value to the others.
  void send_to_some(Message message, std::span<const std::size_t> to) {
    const auto whole = std::make_shared<const Bytes>(encode_message(message));
    message.value.clear();
    const auto empty = std::make_shared<const Bytes>(encode_message(message));
    for (std::size_t p = 0; p < count(); ++p)
      if (p != me_) send(std::find(to.begin(), to.end(), p) == to.end() ? empty : whole, p);
  }

  // Returns the messages that have arrived whole; those of one process are in the order sent.
  std::vector<Message> receive() {
    forget_what_is_sent();
    while (begin_to_receive()) {
    }
    std::vector<Message> out;
    for (std::size_t from = 0; from < count(); ++from) {
      for (auto& queue = under_way_->arriving[from]; !queue.empty(); queue.pop_front()) {
        int done = 0;
        check(MPI_Test(&queue.front().request, &done, MPI_STATUS_IGNORE), "receive a message");
        if (done == 0) break;
        out.push_back(
            with_context([&] { return fmt::format("a message of process {}", from); },
                         [&] { return distributed::decode_message(queue.front().bytes); }));
      }
    }
    return out;
  }

  // Returns whether no message is being sent, and no message that has begun to arrive is
  // incomplete.
  bool is_idle() {
    forget_what_is_sent();
    const auto& arriving = under_way_->arriving;
    return under_way_->sending.empty() &&
           std::all_of(arriving.begin(), arriving.end(),
                       [](const auto& queue) { return queue.empty(); });
  }

 private:
  struct Sending {
    MPI_Request request = MPI_REQUEST_NULL;
    std::shared_ptr<const Bytes> bytes;
  };
  struct Arriving {
    MPI_Request request = MPI_REQUEST_NULL;
    Bytes bytes;
  };

  void send(std::shared_ptr<const Bytes> bytes, std::size_t to) {
    Sending& sending = under_way_->sending.emplace_back();
    sending.bytes = std::move(bytes);
    // forget_what_is_sent() tests the request and never waits, so there is no MPI_Wait to match.
    check(MPI_Isend(sending.bytes->data(), static_cast<int>(sending.bytes->size()), MPI_BYTE,
                    static_cast<int>(to), kTag, comm_, &sending.request),
          "send a message");
  }

  void forget_what_is_sent() {
    under_way_->sending.remove_if([](Sending& sending) {
      int done = 0;
      check(MPI_Test(&sending.request, &done, MPI_STATUS_IGNORE), "send a message");
      return done != 0;
    });
  }

  bool begin_to_receive() {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, kTag, comm_, &found, &message, &status),
          "probe for messages");
    if (found == 0) return false;
    int size = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &size), "get the size of a message");
    Arriving& arriving =
        under_way_->arriving[static_cast<std::size_t>(status.MPI_SOURCE)].emplace_back();
    arriving.bytes.resize(static_cast<std::size_t>(size));
    check(MPI_Imrecv(arriving.bytes.data(), size, MPI_BYTE, &message, &arriving.request),
          "receive a message");
    return true;
  }

  struct UnderWay {
    std::list<Sending> sending;
    std::vector<std::deque<Arriving>> arriving;  // by process
  };

  MPI_Comm comm_;
  std::size_t me_ = 0;
  std::unique_ptr<UnderWay> under_way_ = std::make_unique<UnderWay>();
};

class MpiCoordinator final : public Coordinator {
 public:
  MpiCoordinator(MPI_Comm comm, std::shared_ptr<const MpiSession> session)
      : session_(std::move(session)), post_(comm), gone_(post_.count(), false) {}
  ~MpiCoordinator() override {
    try {
      say_farewell();
    } catch (const Error&) {
      // A destructor cannot report an error, and no process waits for an answer.
    }
  }

  [[nodiscard]] std::size_t process_index() const override { return post_.me(); }
  [[nodiscard]] std::size_t process_count() const override { return post_.count(); }
  [[nodiscard]] std::uint64_t max_value_bytes() const override { return kMostBytes - kMostName; }

  void barrier(std::string_view name, Timeout timeout) override { meet(name, {}, timeout); }
  Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                  Timeout timeout) override {
    distributed::check_root(root, process_count());
    return std::move(meet(name, process_index() == root ? value : ByteView(), timeout)[root]);
  }
  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    return meet(name, value, timeout);
  }
  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    distributed::check_delivery(between, process_index(), process_count());
    const Key key = come(name, value, &between.to);
    try {
      std::vector<Bytes> all = wait(key, timeout);
      std::vector<Bytes> wanted;
      for (const std::size_t p : between.from) wanted.push_back(std::move(all[p]));
      return wanted;
    } catch (const Broken&) {
      throw;
    } catch (...) {
      // so that the other processes complete this collective
      abort(name, distributed::current_exception_text());
      throw;
    }
  }
  void abort(std::string_view name, std::string_view why) noexcept override {
    try {
      const std::lock_guard lock(mutex_);
      if (name.size() <= kMostName) abort(next(name), why);
    } catch (const std::exception&) {
      // Out of memory: the other processes wait until their timeout.
    }
  }

 private:
  using Key = std::pair<std::string, std::uint64_t>;  // a name, and the number of the collective
  struct Collective {
    std::map<std::size_t, Bytes> values;  // of the processes that have come
    std::string broken;                   // why it can never complete; "" if it may
  };

  // The reason why a collective failed in all processes. All other errors are this process's own.
  class Broken final : public Error {
    using Error::Error;
  };

  std::vector<Bytes> meet(std::string_view name, ByteView value, Timeout timeout) {
    return wait(come(name, value, nullptr), timeout);
  }

  std::vector<Bytes> wait(const Key& key, Timeout timeout) {
    const auto deadline = distributed::deadline_after(timeout);
    distributed::Backoff backoff;
    for (int looks = 0;; ++looks) {
      {
        const std::lock_guard lock(mutex_);
        take_in();
        Collective& collective = collectives_[key];
        if (collective.broken.empty() && collective.values.size() == process_count())
          return leave(key);
        break_if_it_must(key, collective, Clock::now() >= deadline ? &timeout : nullptr);
        if (!collective.broken.empty()) fail(key);
      }
      if (looks < kEagerLooks)
        std::this_thread::yield();
      else
        backoff.wait(deadline);
    }
  }

  Key next(std::string_view name) {
    std::string text(name);
    const std::uint64_t round = rounds_[text]++;
    return {std::move(text), round};
  }

  // Sends the value to the processes in `to`; to all if `to` is null. If this process cannot take
  // part, it tells the others.
  Key come(std::string_view name, ByteView value, const std::span<const std::size_t>* to) {
    const std::lock_guard lock(mutex_);
    if (name.size() > kMostName)
      throw Error(Code::kInvalidArgument, "the name of a collective is too long");
    Key key = next(name);
    try {
      if (value.size() > max_value_bytes())
        throw Error(
            Code::kInvalidArgument,
            fmt::format("'{}': a value of {} bytes exceeds the size limit of an MPI message", name,
                        value.size()));
      Collective& collective = collectives_[key];
      collective.values[process_index()].assign(value.begin(), value.end());
      Message coming = message(kCome, key, collective.values[process_index()]);
      if (to != nullptr)
        post_.send_to_some(std::move(coming), *to);
      else
        post_.send_to_others(coming);
    } catch (...) {
      abort(key, distributed::current_exception_text());
      throw;
    }
    return key;
  }

  void abort(const Key& key, std::string_view why) {
    collectives_.erase(key);
    tell_broken(key, distributed::aborted_text(process_index(), why));
  }
  void tell_broken(const Key& key, const std::string& why) {
    post_.send_to_others(message(kBroken, key, {as_bytes(why).begin(), as_bytes(why).end()}));
  }

  [[nodiscard]] Message message(char what, const Key& key, Bytes value) const {
    return {process_index(), process_count(), key.second, what + key.first, std::move(value)};
  }

  // Sorts the messages that have arrived into their collectives.
  void take_in() {
    for (Message& message : post_.receive()) {
      if (message.name.empty() || message.process >= process_count())
        throw Error(Code::kDataLoss, "malformed message: no coordinator sends it");
      const char what = message.name[0];
      if (what == kGone) {
        gone_[message.process] = true;
        continue;
      }
      Key key{message.name.substr(1), message.round};
      const auto round = rounds_.find(key.first);
      const bool left =
          round != rounds_.end() && key.second < round->second && !collectives_.contains(key);
      // too late for a collective that has failed, or news of one that this process has completed
      if (left) continue;
      Collective& collective = collectives_[std::move(key)];
      if (what == kCome) collective.values[message.process] = std::move(message.value);
      if (what == kBroken && collective.broken.empty())
        collective.broken = std::string(as_text(message.value));
    }
  }

  // `given_up` is the time-out if it has expired, else null.
  void break_if_it_must(const Key& key, Collective& collective, const Timeout* given_up) {
    if (!collective.broken.empty()) return;
    std::vector<std::size_t> missing;
    std::vector<std::size_t> ended;
    for (std::size_t p = 0; p < process_count(); ++p) {
      if (collective.values.contains(p)) continue;
      missing.push_back(p);
      if (gone_[p]) ended.push_back(p);
    }
    if (!ended.empty())
      collective.broken = distributed::ended_text(ended);
    else if (given_up != nullptr)
      collective.broken = distributed::timed_out_text(missing, process_index(), *given_up);
    if (!collective.broken.empty()) tell_broken(key, collective.broken);
  }

  std::vector<Bytes> leave(const Key& key) {
    std::vector<Bytes> values;
    for (auto& [process, value] : collectives_[key].values) values.push_back(std::move(value));
    collectives_.erase(key);
    return values;
  }
  [[noreturn]] void fail(const Key& key) {
    const std::string broken = collectives_[key].broken;
    collectives_.erase(key);
    throw Broken(Code::kUnavailable, "'" + key.first + "': " + broken);
  }

  // Tells the other processes that this one ends, and receives what they still send, so that no
  // message is in transit when MPI finalizes.
  void say_farewell() {
    const std::lock_guard lock(mutex_);
    gone_[process_index()] = true;
    post_.send_to_others(message(kGone, {}, {}));
    const auto deadline = Clock::now() + kFarewell;
    distributed::Backoff backoff;
    while (true) {
      take_in();
      const bool all_gone = std::find(gone_.begin(), gone_.end(), false) == gone_.end();
      if ((all_gone && post_.is_idle()) || Clock::now() >= deadline) return;
      backoff.wait(deadline);
    }
  }

  // the session, if the coordinator keeps it; the first member, so that it is destroyed last
  std::shared_ptr<const MpiSession> session_;
  std::mutex mutex_;
  Post post_;
  std::vector<bool> gone_;
  // number of this process's next collective, by name
  std::map<std::string, std::uint64_t> rounds_;
  std::map<Key, Collective> collectives_;  // collectives that this process has not left
};

}  // namespace

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int size = 0;
  check(MPI_Get_library_version(text.data(), &size), "tell its version");
  const std::string_view lines(text.data(), static_cast<std::size_t>(size));
  return std::string(lines.substr(0, lines.find_first_of(std::string_view("\n\0", 2))));
}

MpiSession::MpiSession() {
  int begun = 0;
  check(MPI_Initialized(&begun), "tell whether it is initialized");
  if (begun != 0) return;
  int level = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "begin");
  ours_ = true;
}

MpiSession::~MpiSession() {
  int over = 0;
  if (ours_ && MPI_Finalized(&over) == MPI_SUCCESS && over == 0) MPI_Finalize();
}

std::unique_ptr<Coordinator> mpi_coordinator(const MpiOptions& options) {
  int begun = 0;
  int over = 0;
  check(MPI_Initialized(&begun), "tell whether it is initialized");
  check(MPI_Finalized(&over), "tell whether it is finalized");
  if (begun == 0 || over != 0)
    throw Error(Code::kFailedPrecondition,
                over != 0 ? "MPI is already finalized" : "MPI is not initialized: use MpiSession");
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "get its level of thread support");
  if (level < MPI_THREAD_SERIALIZED)
    throw Error(Code::kFailedPrecondition,
                "MPI was initialized without enough thread support; at least MPI_THREAD_SERIALIZED "
                "is needed");
  const MPI_Comm all = options.communicator ? MPI_Comm_f2c(*options.communicator) : MPI_COMM_WORLD;
  return std::make_unique<MpiCoordinator>(duplicate(all, options.start_timeout), options.session);
}

}  // namespace cairn::inline v0
