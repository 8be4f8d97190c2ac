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
struct Collective {
  explicit Collective(std::size_t processes) : values(processes) {}

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
    Collectives& collectives = collectives_.try_emplace(std::string(name)).first->second;
    const auto collective = come(me, collectives, value);
    break_if_somebody_is_gone(*collective);
    const bool in_time = changed_.wait_until(lock, distributed::deadline_after(timeout),
                                             [&] { return is_over(*collective); });
    if (!in_time) give_up(*collective, me, timeout);
    return leave(name, collectives, collective, wanted);
  }

  void abort(std::size_t me, std::string_view name, std::string_view why) {
    const std::lock_guard lock(mutex_);
    Collectives& collectives = collectives_.try_emplace(std::string(name)).first->second;
    const auto collective = come(me, collectives, {});
    if (collective->broken.empty()) collective->broken = distributed::aborted_text(me, why);
    changed_.notify_all();
    depart(name, collectives, collective);
  }

  // Process `me` will join no further collectives.
  void go(std::size_t me) {
    const std::lock_guard lock(mutex_);
    gone_[me] = true;
    for (auto& [name, collectives] : collectives_)
      for (Collective& collective : collectives) break_if_somebody_is_gone(collective);
  }

 private:
  using Collectives = std::list<Collective>;  // a list: its elements do not move

  // Joins the first collective of this name that this process has not joined yet.
  Collectives::iterator come(std::size_t me, Collectives& collectives, ByteView value) {
    auto collective = std::find_if(collectives.begin(), collectives.end(),
                                   [&](const Collective& m) { return !m.values[me]; });
    if (collective == collectives.end())
      collective = collectives.emplace(collectives.end(), processes());
    collective->values[me].emplace(value.begin(), value.end());
    if (++collective->come == processes()) changed_.notify_all();
    return collective;
  }

  bool is_over(const Collective& collective) const {
    return collective.come == processes() || !collective.broken.empty();
  }

  template <class Chosen>
  [[nodiscard]] std::vector<std::size_t> those(Chosen chosen) const {
    std::vector<std::size_t> found;
    for (std::size_t p = 0; p < processes(); ++p)
      if (chosen(p)) found.push_back(p);
    return found;
  }

  void break_if_somebody_is_gone(Collective& collective) {
    const auto gone = those([&](std::size_t p) { return !collective.values[p] && gone_[p]; });
    if (!collective.broken.empty() || gone.empty()) return;
    collective.broken = distributed::ended_text(gone);
    changed_.notify_all();
  }

  void give_up(Collective& collective, std::size_t me, Coordinator::Timeout timeout) {
    collective.broken = distributed::timed_out_text(
        those([&](std::size_t p) { return !collective.values[p]; }), me, timeout);
    changed_.notify_all();
  }

  // Returns the values of a finished collective. Throws unavailable if it has failed.
  std::vector<Bytes> leave(std::string_view name, Collectives& collectives,
                           Collectives::iterator collective,
                           const std::span<const std::size_t>* wanted) {
    std::vector<Bytes> values;
    if (collective->broken.empty() && wanted != nullptr)
      for (const std::size_t p : *wanted) values.push_back(*collective->values[p]);
    else if (collective->broken.empty())
      for (const auto& value : collective->values) values.push_back(*value);
    const std::string broken = collective->broken;
    depart(name, collectives, collective);
    if (!broken.empty()) throw Error(Code::kUnavailable, "'" + std::string(name) + "': " + broken);
    return values;
  }

  // Leaves a collective; the last thread to leave erases it.
  void depart(std::string_view name, Collectives& collectives, Collectives::iterator collective) {
    std::size_t never = 0;  // those that will never come
    for (std::size_t p = 0; p < processes(); ++p)
      never += gone_[p] && !collective->values[p] ? 1 : 0;
    if (++collective->left + never == processes()) collectives.erase(collective);
    if (collectives.empty()) collectives_.erase(collectives_.find(name));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> gone_;
  std::map<std::string, Collectives, std::less<>> collectives_;
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
