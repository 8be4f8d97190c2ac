// job_folder.cc -- entering and leaving the folder of a run.
#include <cairn/distributed/coordinator/job_folder.h>

#include <cairn/error.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>

namespace cairn::inline v0::distributed {
namespace {

constexpr double kMilliseconds = 1000;  // per second

std::string name_of(std::string_view what, std::size_t process) {
  return std::string(what) + std::to_string(process);
}

}  // namespace

bool write_new(const std::string& path, ByteView bytes) {
  AtomicFile file(path);
  file.append(bytes);
  file.finish();
  if (link(file.temporary_path().c_str(), path.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  fail_file_call(path, "link the finished file to it", errno);
}

std::optional<std::string> try_read_touched(const std::string& path, std::uint64_t most) {
  auto file = File::try_open(path);
  if (!file) return std::nullopt;
  file->accept_changes();
  if (file->size() > most)
    throw Error(Code::kDataLoss, path + ": " + std::to_string(file->size()) +
                                     " bytes exceed the limit of " + std::to_string(most));
  std::string text(file->size(), '\0');
  file->read_into(0, std::as_writable_bytes(std::span(text)));
  return text;
}

ProcessRecord read_record(const std::string& path) {
  return with_context([&] { return path; },
                      [&] {
                        const auto text = try_read_touched(path, kMaxRecordBytes);
                        if (!text) fail_no_file(AT_FDCWD, path, path);
                        return parse_record(*text);
                      });
}

JobFolder::JobFolder(std::string path, const FilesJob& job)
    : path_(std::move(path)),
      me_(job.process_index),
      count_(job.process_count),
      silence_(std::max(job.silence_timeout, Coordinator::Timeout(0))) {
  const ProcessRecord record = record_of_this_process(job);
  const std::string here = path_ + "/" + name_of("here-", me_);
  if (!write_new(here, as_bytes(record_text(record))))
    throw Error(Code::kAlreadyExists,
                here + ": " + describe(read_record(here)) +
                    " was in this run already; use a new run id for each run");
  if (count_ == 1 || silence_.count() == 0) return;
  try {
    heartbeat_.emplace(here, std::max(silence_ / kBeatsOfSilence, Coordinator::Timeout(1)));
  } catch (const std::system_error& e) {
    // the record existed, and other processes may wait for this one by now
    write_new(path_ + "/" + name_of("gone-", me_), {});
    throw Error(Code::kUnavailable,
                here + ": cannot start the thread that touches it: " + e.what());
  }
}

JobFolder::~JobFolder() {
  heartbeat_.reset();
  try {
    write_new(path_ + "/" + name_of("gone-", me_), {});
    const Names names = names_in(path_);
    for (std::size_t p = 0; p < count_; ++p)
      if (!has_ended(p, names)) return;
    remove_tree(path_);
    // Fails while the folder holds other runs or requests to join.
    std::error_code ignored;
    std::filesystem::remove(std::filesystem::path(path_).parent_path(), ignored);
  } catch (const Error&) {
    // A destructor cannot report an error. Processes on the same host see that this process has
    // ended; a later run removes the folder.
  }
}

std::optional<ProcessRecord> JobFolder::record_of(std::size_t process) const {
  const std::lock_guard lock(mutex_);
  const auto known = records_.find(process);
  if (known != records_.end()) return known->second;
  const std::string path = path_ + "/" + name_of("here-", process);
  if (!file_exists(path)) return std::nullopt;
  ProcessRecord record = read_record(path);
  if (record.processes != count_)
    throw Error(Code::kInvalidArgument, path + ": " + describe(record) + " belongs to a job of " +
                                            std::to_string(record.processes) +
                                            " processes, process " + std::to_string(me_) +
                                            " to one of " + std::to_string(count_));
  if (record.silence != static_cast<std::uint64_t>(silence_.count()))
    throw Error(Code::kInvalidArgument,
                fmt::format("{}: {} has a silence_timeout of {:g} s, process {} of {:g} s", path,
                            describe(record), static_cast<double>(record.silence) / kMilliseconds,
                            me_, static_cast<double>(silence_.count()) / kMilliseconds));
  return records_.emplace(process, std::move(record)).first->second;
}

bool JobFolder::has_ended(std::size_t process, const Names& names) const {
  if (names.contains(name_of("gone-", process))) return true;
  const auto record = record_of(process);
  return record && process != me_ && distributed::has_ended(*record);
}

bool JobFolder::is_silent(std::size_t process) const {
  if (!heartbeat_ || process == me_) return false;
  const std::uint64_t own = heartbeat_->count();
  const std::lock_guard lock(mutex_);
  return signs_.is_silent(process, path_ + "/" + name_of("here-", process), own);
}

void JobFolder::give_up(const std::vector<std::size_t>& missing) const {
  for (const std::size_t p : missing) write_new(path_ + "/" + name_of("gone-", p), {});
}

void JobFolder::check_records() const {
  for (std::size_t p = 0; p < count_; ++p) (void)record_of(p);
}

}  // namespace cairn::inline v0::distributed
