// temporaries.cc -- the process-wide registry of temporary paths.
#include <cairn/io/temporaries.h>

#include <cairn/error.h>
#include <cairn/io/directory.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>

namespace cairn::inline v0 {
namespace {

struct Registry {
  // held shared while a temporary is created, so that the removal can wait
  std::shared_mutex making;
  std::mutex mutex;  // guards the following members
  std::condition_variable no_commits;
  std::multiset<std::pair<NotedTemporary::Order, std::string>> paths;
  int commits = 0;
  bool stopped = false;
};

// Never destroyed, because threads may still use it when the program ends.
Registry& registry() {
  static auto* const kRegistry = new Registry;
  return *kRegistry;
}

// A commit that has begun runs to its end.
void check_running(const Registry& r) {
  if (r.stopped && r.commits == 0)
    throw Error(Code::kUnavailable, "a signal told the program to stop");
}

}  // namespace

NotedTemporary::NotedTemporary(std::string path, Order order, const std::function<bool()>& make)
    : entry_(order, std::move(path)) {
  Registry& r = registry();
  const std::shared_lock making(r.making);
  {
    const std::lock_guard lock(r.mutex);
    check_running(r);
  }
  made_ = make();
  if (!made_) return;
  const std::lock_guard lock(r.mutex);
  r.paths.insert(entry_);
}

NotedTemporary::~NotedTemporary() {
  if (!made_) return;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (const auto it = r.paths.find(entry_); it != r.paths.end()) r.paths.erase(it);
}

CommitSection::CommitSection() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  check_running(r);
  ++r.commits;
}

CommitSection::~CommitSection() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (--r.commits == 0) r.no_commits.notify_all();
}

void remove_temporaries() noexcept {
  // Other threads may create files in a directory meanwhile, and the directory anew. So the paths
  // are removed until they stay away.
  constexpr int kAttempts = 100;
  constexpr int kAway = 3;
  constexpr std::chrono::milliseconds kPause{1};
  Registry& r = registry();
  {
    std::unique_lock lock(r.mutex);
    r.stopped = true;
    r.no_commits.wait(lock, [&] { return r.commits == 0; });
  }
  const std::unique_lock making(r.making);
  const std::lock_guard lock(r.mutex);
  const auto remove_all = [&](NotedTemporary::Order order) {
    bool is_removed = true;
    for (const auto& entry : r.paths)
      if (entry.first == order)
        is_removed = try_call([&] { return remove_tree(entry.second), true; }).ok() && is_removed;
    return is_removed;
  };
  for (int i = 0, away = 0; i < kAttempts && away < kAway; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    away = remove_all(NotedTemporary::Order::kFirst) ? away + 1 : 0;
  }
  // Once, and last: without its lock, the next save may use the same paths.
  remove_all(NotedTemporary::Order::kLast);
}

}  // namespace cairn::inline v0
