// local.cc -- jobs within one process: a single process, or threads that act as processes.
#include <cairn/distributed.h>
#include <cairn/distributed/coordinator/collective.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace cairn::inline v0 {
namespace {

using distributed::check_root;

// The state of the n-th collective of one name.
struct Meeting {
  explicit Meeting(std::size_t processes) : values(processes) {}

  std::vector<std::optional<Bytes>> values;  // of the threads that have come
  std::size_t come = 0;
  std::size_t left = 0;
  std::string broken;  // why it can never complete; "" if it may
};

// The state that the threads share.
class Lobby {
 public:
  explicit Lobby(std::size_t processes) : gone_(processes, false) {}

  [[nodiscard]] std::size_t processes() const { return gone_.size(); }

  // Joins a collective and waits. Returns the values of `wanted`; of all threads, in order, if that
  // is null.
  std::vector<Bytes> meet(std::size_t me, std::string_view name, ByteView value,
                          Coordinator::Timeout timeout,
                          const std::span<const std::size_t>* wanted = nullptr) {
    std::unique_lock lock(mutex_);
    Meetings& meetings = meetings_.try_emplace(std::string(name)).first->second;
    const auto meeting = come(me, meetings, value);
    break_if_somebody_is_gone(*meeting);
    const bool in_time = changed_.wait_until(lock, distributed::deadline_after(timeout),
                                             [&] { return is_over(*meeting); });
    if (!in_time) give_up(*meeting, me, timeout);
    return leave(name, meetings, meeting, wanted);
  }

  void abort(std::size_t me, std::string_view name, std::string_view why) {
    const std::lock_guard lock(mutex_);
    Meetings& meetings = meetings_.try_emplace(std::string(name)).first->second;
    const auto meeting = come(me, meetings, {});
    if (meeting->broken.empty()) meeting->broken = distributed::broke_off_text(me, why);
    changed_.notify_all();
    depart(name, meetings, meeting);
  }

  // Process `me` will join no further collectives.
  void go(std::size_t me) {
    const std::lock_guard lock(mutex_);
    gone_[me] = true;
    for (auto& [name, meetings] : meetings_)
      for (Meeting& meeting : meetings) break_if_somebody_is_gone(meeting);
  }

 private:
  using Meetings = std::list<Meeting>;  // a list: its elements do not move

  // Joins the first collective of this name that this process has not joined yet.
  Meetings::iterator come(std::size_t me, Meetings& meetings, ByteView value) {
    auto meeting = std::find_if(meetings.begin(), meetings.end(),
                                [&](const Meeting& m) { return !m.values[me]; });
    if (meeting == meetings.end()) meeting = meetings.emplace(meetings.end(), processes());
    meeting->values[me].emplace(value.begin(), value.end());
    if (++meeting->come == processes()) changed_.notify_all();
    return meeting;
  }

  bool is_over(const Meeting& meeting) const {
    return meeting.come == processes() || !meeting.broken.empty();
  }

  template <class Chosen>
  [[nodiscard]] std::vector<std::size_t> those(Chosen chosen) const {
    std::vector<std::size_t> found;
    for (std::size_t p = 0; p < processes(); ++p)
      if (chosen(p)) found.push_back(p);
    return found;
  }

  void break_if_somebody_is_gone(Meeting& meeting) {
    const auto gone = those([&](std::size_t p) { return !meeting.values[p] && gone_[p]; });
    if (!meeting.broken.empty() || gone.empty()) return;
    meeting.broken = distributed::ended_text(gone);
    changed_.notify_all();
  }

  void give_up(Meeting& meeting, std::size_t me, Coordinator::Timeout timeout) {
    meeting.broken = distributed::gave_up_text(
        those([&](std::size_t p) { return !meeting.values[p]; }), me, timeout);
    changed_.notify_all();
  }

  // Returns the values of a finished collective. Throws unavailable if it has failed.
  std::vector<Bytes> leave(std::string_view name, Meetings& meetings, Meetings::iterator meeting,
                           const std::span<const std::size_t>* wanted) {
    std::vector<Bytes> values;
    if (meeting->broken.empty() && wanted != nullptr)
      for (const std::size_t p : *wanted) values.push_back(*meeting->values[p]);
    else if (meeting->broken.empty())
      for (const auto& value : meeting->values) values.push_back(*value);
    const std::string broken = meeting->broken;
    depart(name, meetings, meeting);
    if (!broken.empty()) throw Error(Code::kUnavailable, "'" + std::string(name) + "': " + broken);
    return values;
  }

  // Leaves a collective; the last thread to leave erases it.
  void depart(std::string_view name, Meetings& meetings, Meetings::iterator meeting) {
    std::size_t never = 0;  // those that will never come
    for (std::size_t p = 0; p < processes(); ++p) never += gone_[p] && !meeting->values[p] ? 1 : 0;
    if (++meeting->left + never == processes()) meetings.erase(meeting);
    if (meetings.empty()) meetings_.erase(meetings_.find(name));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> gone_;
  std::map<std::string, Meetings, std::less<>> meetings_;
};

class ThreadProcess final : public Coordinator {
 public:
  ThreadProcess(std::shared_ptr<Lobby> lobby, std::size_t index)
      : lobby_(std::move(lobby)), index_(index) {}
  ~ThreadProcess() override { lobby_->go(index_); }

  [[nodiscard]] std::size_t process_index() const override { return index_; }
  [[nodiscard]] std::size_t process_count() const override { return lobby_->processes(); }
  void barrier(std::string_view name, Timeout timeout) override {
    lobby_->meet(index_, name, {}, timeout);
  }
  Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                  Timeout timeout) override {
    check_root(root, process_count());
    return std::move(
        lobby_->meet(index_, name, index_ == root ? value : ByteView(), timeout)[root]);
  }
  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    return lobby_->meet(index_, name, value, timeout);
  }
  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    distributed::check_delivery(between, index_, process_count());
    return lobby_->meet(index_, name, value, timeout, &between.from);
  }
  void abort(std::string_view name, std::string_view why) noexcept override {
    try {
      lobby_->abort(index_, name, why);
    } catch (const std::exception&) {
      // Out of memory: the other processes wait until their timeout.
    }
  }

 private:
  std::shared_ptr<Lobby> lobby_;
  std::size_t index_;
};

class SingleProcess final : public Coordinator {
 public:
  [[nodiscard]] std::size_t process_index() const override { return 0; }
  [[nodiscard]] std::size_t process_count() const override { return 1; }
  void barrier(std::string_view /*name*/, Timeout /*timeout*/) override {}
  Bytes broadcast(std::string_view /*name*/, ByteView value, std::size_t root,
                  Timeout /*timeout*/) override {
    check_root(root, 1);
    return {value.begin(), value.end()};
  }
  std::vector<Bytes> all_gather(std::string_view /*name*/, ByteView value,
                                Timeout /*timeout*/) override {
    return {Bytes(value.begin(), value.end())};
  }
};

}  // namespace

std::unique_ptr<Coordinator> single_process_coordinator() {
  return std::make_unique<SingleProcess>();
}

std::vector<std::unique_ptr<Coordinator>> thread_coordinators(std::size_t count) {
  if (count == 0) throw Error(Code::kInvalidArgument, "a job has at least one process");
  const auto lobby = std::make_shared<Lobby>(count);
  std::vector<std::unique_ptr<Coordinator>> processes;
  for (std::size_t p = 0; p < count; ++p)
    processes.push_back(std::make_unique<ThreadProcess>(lobby, p));
  return processes;
}

}  // namespace cairn::inline v0
