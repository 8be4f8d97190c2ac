// files.cc -- a coordinator whose processes communicate through files in a shared folder.
//
// A process that joins a collective leaves a message. The first process that finds all messages, or
// gives up, writes a decision file that says how the collective ended. Only one such file can be
// created, so all processes agree, even if one gives up at the moment when the last one arrives.
#include <cairn/base/checksum.h>
#include <cairn/distributed.h>
#include <cairn/distributed/coordinator/collective.h>
#include <cairn/distributed/coordinator/job_folder.h>
#include <cairn/distributed/coordinator/message.h>
#include <cairn/distributed/coordinator/wait.h>
#include <cairn/error.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using distributed::Message;
using distributed::Names;

// between checks for processes that may have died
constexpr auto kBetweenLooks = std::chrono::milliseconds(200);
// bytes of a message in addition to its value
constexpr std::uint64_t kMostAroundAValue = std::uint64_t{1} << 20U;
// characters of a collective's name that appear in its file names
constexpr std::size_t kReadable = 40;

// Turns a collective's name into part of a file name: its readable characters and a hash of the
// whole name.
std::string label_of(std::string_view name) {
  std::string readable;
  for (const char c : name.substr(0, kReadable)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == ':';
    readable += plain ? c : '_';
  }
  return fmt::format("{}-{:08x}{:08x}", readable, crc32c(as_bytes(name)), crc32(as_bytes(name)));
}

// One process's participation in the n-th collective of a name.
struct Visit {
  std::string name;
  std::string label;
  std::uint64_t round = 0;
  std::uint64_t number = 0;  // number among this process's visits, in the order in which they began
  Coordinator::Timeout timeout;
  std::string message = {};  // the name of this process's file

  // A message file is called <prefix><number>-<low>. All visits of its process with a number below
  // `low` had ended when the process came to this collective.
  [[nodiscard]] std::string message_prefix(std::size_t process) const {
    return fmt::format("m-{}-{}-{}-", label, round, process);
  }
  [[nodiscard]] std::string decision() const { return fmt::format("d-{}-{}", label, round); }
};

// A message file name, and the numbers in it.
struct Arrival {
  std::string file;
  std::uint64_t number = 0;
  std::uint64_t low = 0;
};

std::optional<Arrival> arrival_of(const Visit& visit, std::size_t process, const Names& names) {
  const std::string prefix = visit.message_prefix(process);
  const auto found = names.lower_bound(prefix);
  if (found == names.end() || !found->starts_with(prefix) || is_temporary_name(*found))
    return std::nullopt;
  Arrival arrival{*found};
  const char* end = found->data() + found->size();
  const auto number = std::from_chars(found->data() + prefix.size(), end, arrival.number);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '-') return std::nullopt;
  const auto low = std::from_chars(number.ptr + 1, end, arrival.low);
  if (low.ec != std::errc() || low.ptr != end) return std::nullopt;
  return arrival;
}

class FilesCoordinator final : public Coordinator {
 public:
  FilesCoordinator(std::unique_ptr<distributed::JobFolder> folder, const FilesJob& job)
      : me_(job.process_index),
        count_(job.process_count),
        max_value_(job.max_message_bytes),
        silence_(job.silence_timeout),
        folder_(std::move(folder)) {}

  [[nodiscard]] std::size_t process_index() const override { return me_; }
  [[nodiscard]] std::size_t process_count() const override { return count_; }

  [[nodiscard]] std::uint64_t max_value_bytes() const override { return max_value_; }

  void barrier(std::string_view name, Timeout timeout) override {
    meet(name, {}, timeout, [](const Visit&, const std::vector<Arrival>&) {});
  }

  Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                  Timeout timeout) override {
    distributed::check_root(root, count_);
    Bytes out(me_ == root ? Bytes(value.begin(), value.end()) : Bytes());
    meet(name, out, timeout, [&](const Visit& visit, const std::vector<Arrival>& arrivals) {
      if (me_ != root) out = value_of(visit, root, arrivals[root]);
    });
    return out;
  }

  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    std::vector<Bytes> out(count_);
    out[me_].assign(value.begin(), value.end());
    meet(name, value, timeout, [&](const Visit& visit, const std::vector<Arrival>& arrivals) {
      for (std::size_t p = 0; p < count_; ++p)
        if (p != me_) out[p] = value_of(visit, p, arrivals[p]);
    });
    return out;
  }

  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    distributed::check_delivery(between, me_, count_);
    std::vector<Bytes> out;
    const auto look = [&](const Visit& visit, const std::vector<Arrival>& arrivals) {
      for (const std::size_t p : between.from) out.push_back(value_of(visit, p, arrivals[p]));
    };
    meet(name, value, timeout, look, Kind::kDelivery);
    return out;
  }
  void abort(std::string_view name, std::string_view why) noexcept override {
    try {
      const Visit visit = begin(name, {});
      (void)try_to_break(visit, why);
      end(visit);
    } catch (const std::exception&) {
      // Out of memory: the other processes wait until their timeout.
    }
  }

 private:
  // A complete collective that this process has left. Its files are needed until all processes have
  // left it.
  struct Left {
    Visit visit;
    std::vector<Arrival> arrivals;
  };

  // Deliveries of one name follow each other directly, and carry many bytes.
  enum class Kind { kCollective, kDelivery };
  // The fate of the other processes when this process fails in a collective.
  enum class Others { kGetThrough, kFailToo, kUnknown };

  [[nodiscard]] std::string path(const std::string& name) const {
    return folder_->path() + "/" + name;
  }

  // Joins a collective. When it is complete, `look(visit, arrivals)` reads the values of the
  // others.
  template <class Look>
  void meet(std::string_view name, ByteView value, Timeout timeout, Look look,
            Kind kind = Kind::kCollective) {
    if (name.size() > kMostAroundAValue / 2)
      throw Error(Code::kInvalidArgument, "the name of a collective is too long");
    const auto deadline = distributed::deadline_after(timeout);
    Visit visit = begin(name, timeout);
    Others others = Others::kGetThrough;
    try {
      const std::string broken = come_and_wait(visit, value, deadline, kind, others);
      if (!broken.empty()) throw Error(Code::kUnavailable, "'" + visit.name + "': " + broken);
      std::vector<Arrival> arrivals = arrivals_at(visit);
      look(visit, arrivals);
      leave({visit, std::move(arrivals)});
    } catch (...) {
      // After a collective has failed, processes read only its decision file.
      if (others == Others::kFailToo && !visit.message.empty()) unlink(path(visit.message).c_str());
      end(visit);
      if (others == Others::kGetThrough && kind == Kind::kDelivery)
        abort(name, distributed::current_exception_text());
      throw;
    }
  }

  // Joins the collective and waits. If this process fails at that, it tells the others, unless they
  // have completed the collective.
  std::string come_and_wait(Visit& visit, ByteView value, distributed::Clock::time_point deadline,
                            Kind kind, Others& others) {
    try {
      come(visit, value, kind);
      std::string broken = wait_for_the_end(visit, deadline);
      if (!broken.empty()) others = Others::kFailToo;
      return broken;
    } catch (...) {
      others = try_to_break(visit, distributed::current_exception_text());
      throw;
    }
  }

  void come(Visit& visit, ByteView value, Kind kind) {
    if (value.size() > max_value_)
      throw Error(Code::kInvalidArgument,
                  fmt::format("'{}': a value of {} bytes exceeds the message limit of {} bytes",
                              visit.name, value.size(), max_value_));
    const Message message{me_, count_, visit.round, visit.name, {value.begin(), value.end()}};
    visit.message = visit.message_prefix(me_) + fmt::format("{}-{}", visit.number, oldest_open());
    try {
      // A job that loses power is over, so only small messages are made durable.
      write_file_atomically(path(visit.message), encode_message(message),
                            kind == Kind::kDelivery ? Durability::kUnsynced : Durability::kSynced);
    } catch (const Error& error) {
      if (error.code() != Code::kNotFound) throw;
      throw Error(Code::kUnavailable, folder_->path() + ": another program removed it");
    }
  }

  // Makes the collective fail, because this process has failed, unless it has ended already.
  // Returns the fate of the other processes.
  [[nodiscard]] Others try_to_break(const Visit& visit, std::string_view why) {
    const auto ended = try_call([&] { return decide(visit, distributed::aborted_text(me_, why)); });
    if (!ended) return Others::kUnknown;
    return ended.value().empty() ? Others::kGetThrough : Others::kFailToo;
  }

  Visit begin(std::string_view name, Timeout timeout) {
    const std::lock_guard lock(mutex_);
    Visit visit{std::string(name), label_of(name), 0, next_visit_++, timeout};
    visit.round = rounds_[visit.name]++;
    open_.insert(visit.number);
    return visit;
  }
  std::uint64_t oldest_open() {
    const std::lock_guard lock(mutex_);
    return *open_.begin();
  }
  void end(const Visit& visit) {
    const std::lock_guard lock(mutex_);
    open_.erase(visit.number);
  }

  // Returns how the collective ended: "" if all processes came, else the reason.
  std::string wait_for_the_end(const Visit& visit, distributed::Clock::time_point deadline) {
    distributed::Backoff backoff;
    auto next_look = distributed::Clock::now() + kBetweenLooks;
    while (true) {
      const Names names = names_in(folder_->path());
      if (names.contains(visit.decision())) {
        std::string broken = decided(visit);
        // an error that this process can find itself is more precise
        if (!broken.empty()) folder_->check_records();
        return broken;
      }
      if (!names.contains(visit.message))
        throw Error(Code::kUnavailable, path(visit.message) + ": another program removed it");
      const auto missing = missing_from(visit, names);
      if (missing.empty()) {
        folder_->check_records();
        return decide(visit, "");
      }
      const auto now = distributed::Clock::now();
      if (now >= next_look || now >= deadline || is_anyone_gone(missing, names)) {
        next_look = now + kBetweenLooks;
        folder_->check_records();  // else some would wait for processes that others do not count
        const auto ended = gone_of(visit, missing, [&](std::size_t p, const Names& seen) {
          return folder_->has_ended(p, seen);
        });
        if (!ended.empty()) return decide(visit, distributed::ended_text(ended));
        const auto silent = gone_of(
            visit, missing, [&](std::size_t p, const Names&) { return folder_->is_silent(p); });
        if (!silent.empty()) return decide(visit, distributed::silent_text(silent, me_, silence_));
        if (now >= deadline)
          return decide(visit, distributed::timed_out_text(missing, me_, visit.timeout));
      }
      backoff.wait(deadline);
    }
  }

  [[nodiscard]] std::vector<std::size_t> missing_from(const Visit& visit,
                                                      const Names& names) const {
    std::vector<std::size_t> missing;
    for (std::size_t p = 0; p < count_; ++p)
      if (!arrival_of(visit, p, names)) missing.push_back(p);
    return missing;
  }

  static bool is_anyone_gone(const std::vector<std::size_t>& missing, const Names& names) {
    return std::any_of(missing.begin(), missing.end(),
                       [&](std::size_t p) { return names.contains("gone-" + std::to_string(p)); });
  }

  // Returns the missing processes for which `is_gone` is true and which have not come meanwhile: a
  // process may join as its last action.
  template <class IsGone>
  std::vector<std::size_t> gone_of(const Visit& visit, const std::vector<std::size_t>& missing,
                                   IsGone is_gone) const {
    Names names = names_in(folder_->path());
    std::vector<std::size_t> gone;
    for (const std::size_t p : missing)
      if (is_gone(p, names)) gone.push_back(p);
    if (gone.empty()) return gone;
    names = names_in(folder_->path());
    std::erase_if(gone, [&](std::size_t p) { return arrival_of(visit, p, names).has_value(); });
    return gone;
  }

  // Writes how the collective ended, unless another process has done so. Returns how it ended.
  std::string decide(const Visit& visit, std::string_view broken) {
    const Message message{
        me_, count_, visit.round, visit.name, {as_bytes(broken).begin(), as_bytes(broken).end()}};
    if (distributed::write_new(path(visit.decision()), encode_message(message)))
      return std::string(broken);
    return decided(visit);
  }
  [[nodiscard]] std::string decided(const Visit& visit) const {
    return std::string(as_text(read(visit, visit.decision(), std::nullopt)));
  }

  // Returns the arrivals of all processes at a complete collective. Throws data_loss if one is
  // missing.
  [[nodiscard]] std::vector<Arrival> arrivals_at(const Visit& visit) const {
    const Names names = names_in(folder_->path());
    std::vector<Arrival> arrivals;
    for (std::size_t p = 0; p < count_; ++p) {
      auto arrival = arrival_of(visit, p, names);
      if (!arrival)
        throw Error(Code::kDataLoss,
                    path(visit.message_prefix(p) + "*") + ": another program removed it");
      arrivals.push_back(*std::move(arrival));
    }
    return arrivals;
  }

  [[nodiscard]] Bytes value_of(const Visit& visit, std::size_t process,
                               const Arrival& arrival) const {
    return read(visit, arrival.file, process);
  }

  [[nodiscard]] Bytes read(const Visit& visit, const std::string& file,
                           std::optional<std::size_t> from) const {
    return with_context([&] { return path(file); },
                        [&] {
                          Message message = distributed::decode_message(read_whole(path(file)));
                          if (message.name != visit.name || message.round != visit.round ||
                              (from && message.process != *from))
                            throw Error(Code::kDataLoss,
                                        fmt::format("is process {}'s message to '{}', round {}",
                                                    message.process, message.name, message.round));
                          return std::move(message.value);
                        });
  }
  [[nodiscard]] Bytes read_whole(const std::string& file) const {
    const File opened = File::open(file);
    const std::uint64_t size = opened.size();
    if (size > max_value_ && size - max_value_ > kMostAroundAValue)
      throw Error(Code::kDataLoss, fmt::format("{} bytes exceed the message limit", size));
    Bytes bytes(size);
    opened.read_into(0, bytes);
    return bytes;
  }

  // Leaves a complete collective. Then removes the files of older collectives that all processes
  // had left before they came to this one. That holds for those of the same name, because a process
  // takes part in one collective of a name at a time. It holds for others if every arrival's `low`
  // says so.
  void leave(Left collective) {
    std::vector<Left> done;
    {
      const std::lock_guard lock(mutex_);
      open_.erase(collective.visit.number);
      const auto all_have_left = [&](const Left& old) {
        if (old.visit.name == collective.visit.name) return true;
        for (std::size_t p = 0; p < count_; ++p)
          if (old.arrivals[p].number >= collective.arrivals[p].low) return false;
        return true;
      };
      const auto first_done = std::partition(left_.begin(), left_.end(),
                                             [&](const Left& old) { return !all_have_left(old); });
      done.assign(std::make_move_iterator(first_done), std::make_move_iterator(left_.end()));
      left_.erase(first_done, left_.end());
      left_.push_back(std::move(collective));
    }
    for (const Left& old : done) {
      unlink(path(old.arrivals[me_].file).c_str());
      unlink(path(old.visit.decision()).c_str());
    }
  }

  std::size_t me_;
  std::size_t count_;
  std::uint64_t max_value_;
  Timeout silence_;
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> rounds_;  // number of the next collective, by name
  std::uint64_t next_visit_ = 0;
  std::set<std::uint64_t> open_;  // visits that have not ended
  std::vector<Left> left_;
  std::unique_ptr<distributed::JobFolder> folder_;
};

}  // namespace

std::unique_ptr<Coordinator> files_coordinator(const FilesJob& job) {
  return std::make_unique<FilesCoordinator>(distributed::JobFolder::join(job), job);
}

}  // namespace cairn::inline v0
