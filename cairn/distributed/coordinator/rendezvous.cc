// rendezvous.cc -- how the processes of a job agree on the folder of their run, and how they remove
// the files of earlier runs.
#include <cairn/base/json/json.h>
#include <cairn/distributed/coordinator/collective.h>
#include <cairn/distributed/coordinator/job_folder.h>
#include <cairn/distributed/coordinator/wait.h>
#include <cairn/error.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace cairn::inline v0::distributed {
namespace {

// bytes; enough for a million processes
constexpr std::uint64_t kMostOfAnAdmission = std::uint64_t{1} << 28U;
constexpr std::size_t kMostOfAnId = 64;

struct Admission {
  std::string run;
  std::vector<std::string> admitted;  // nonces
};

std::string admission_text(const Admission& admission) {
  JsonArray admitted(admission.admitted.begin(), admission.admitted.end());
  Json json;
  json.set("run", admission.run);
  json.set("admitted", std::move(admitted));
  return to_text(json, JsonStyle::kPython);
}

bool is_run_id(std::string_view id) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !id.empty() && id.size() <= kMostOfAnId &&
         id.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::optional<Admission> read_admission(const std::string& path) {
  const auto text = try_read_touched(path, kMostOfAnAdmission);
  if (!text) return std::nullopt;
  return with_context([&] { return path; },
                      [&] {
                        const Json json = parse_json(*text, {.max_depth = 4});
                        const Json* run = json.find("run");
                        const Json* admitted = json.find("admitted");
                        if (run == nullptr || run->as_string() == nullptr ||
                            !is_run_id(*run->as_string()) || admitted == nullptr ||
                            admitted->as_array() == nullptr)
                          throw Error(Code::kDataLoss, "is not an admission to a run");
                        Admission admission{*run->as_string(), {}};
                        for (const Json& nonce : *admitted->as_array()) {
                          if (nonce.as_string() == nullptr)
                            throw Error(Code::kDataLoss, "admits a process that is not a string");
                          admission.admitted.push_back(*nonce.as_string());
                        }
                        return std::optional<Admission>(std::move(admission));
                      });
}

std::optional<ProcessRecord> try_read_record(const std::string& path) {
  const auto text = try_read_touched(path, kMaxRecordBytes);
  if (!text) return std::nullopt;
  return with_context([&] { return path; },
                      [&] { return std::optional<ProcessRecord>(parse_record(*text)); });
}

// Returns true if a run has had processes and all of them have ended; false if that is unknown.
bool is_over(const std::string& run) {
  std::size_t ended = 0;
  const Names names = names_in(run);
  for (const std::string& name : names) {
    if (!name.starts_with("here-")) continue;
    const auto record = try_read_record(run + "/" + name);
    if (!names.contains("gone-" + name.substr(5)) && (!record || !has_ended(*record))) return false;
    ++ended;
  }
  return ended > 0;
}

// Returns whether this file or folder belongs to processes that are known to have ended.
bool is_leftover(const std::string& folder, const std::string& name) {
  if (is_temporary_name(name)) return false;
  if (name.starts_with("run-")) return is_over(folder + "/" + name);
  const auto record =
      name.starts_with("join-") ? try_read_record(folder + "/" + name) : std::nullopt;
  return record && has_ended(*record);
}

void remove_leftovers(const std::string& folder) {
  for (const std::string& name : names_in(folder)) {
    // An unreadable file may belong to a running job. A file that cannot be removed does no harm.
    (void)try_call([&] {
      const bool leftover = is_leftover(folder, name);
      if (leftover) remove_tree(folder + "/" + name);
      return leftover;
    });
  }
}

// Makes the folder, and then calls `make`, which makes something in it. Tries again if the last
// process of an earlier run removes the empty folder in between.
template <class Make>
void make_in(const std::string& folder, Make make) {
  constexpr int kMostTries = 10;
  for (int tries = 1;; ++tries) {
    try {
      make_directories(folder);
      make();
      return;
    } catch (const Error& e) {
      if (e.code() != Code::kNotFound || tries == kMostTries) throw;
    }
  }
}

std::string run_folder(const std::string& folder, const std::string& id) {
  return folder + "/run-" + id;
}

// Process 0: makes up a run id and answers every request until all processes have joined.
class Host {
 public:
  Host(std::string folder, const FilesJob& job)
      : folder_(std::move(folder)), job_(job), admission_{random_id(), {}} {}

  std::unique_ptr<JobFolder> gather() {
    make_directories(folder_);
    remove_leftovers(folder_);
    const std::string run = run_folder(folder_, admission_.run);
    make_in(folder_, [&] { make_directories(run); });
    auto mine = std::make_unique<JobFolder>(run, job_);
    if (job_.process_count == 1) return mine;
    std::vector<std::size_t> missing = others();
    try {
      wait_for(missing, run);
    } catch (...) {
      mine->give_up(missing);  // else the processes that have joined would wait for the others
      throw;
    }
    return mine;
  }

 private:
  [[nodiscard]] std::vector<std::size_t> others() const {
    std::vector<std::size_t> all(job_.process_count - 1);
    std::iota(all.begin(), all.end(), 1);
    return all;
  }

  void wait_for(std::vector<std::size_t>& missing, const std::string& run) {
    const std::string admission = folder_ + "/invite";
    const auto deadline = deadline_after(job_.join_timeout);
    write_file_atomically(admission, as_bytes(admission_text(admission_)));
    Backoff backoff;
    while (true) {
      missing = answer(run);
      const bool too_late = !missing.empty() && Clock::now() >= deadline;
      if (missing.empty() || too_late) unlink(admission.c_str());
      if (missing.empty()) return;
      if (too_late)
        throw Error(Code::kUnavailable,
                    folder_ + ": " + timed_out_text(missing, 0, job_.join_timeout));
      backoff.wait(deadline);
    }
  }

  // Answers the processes that wait; returns the processes that have not joined yet.
  std::vector<std::size_t> answer(const std::string& run) {
    const Names here = names_in(run);
    const Names waiting = names_in(folder_);
    std::vector<std::size_t> missing;
    std::vector<std::string> admitted;
    for (std::size_t p = 1; p < job_.process_count; ++p) {
      if (here.contains("here-" + std::to_string(p))) continue;
      missing.push_back(p);
      const std::string join = "join-" + std::to_string(p);
      if (!waiting.contains(join)) continue;
      if (const auto record = try_read_record(folder_ + "/" + join))
        admitted.push_back(record->nonce);
    }
    const auto current = read_admission(folder_ + "/invite");
    if (!current || current->run != admission_.run)
      throw Error(Code::kFailedPrecondition, folder_ + ": another process 0 started a run here");
    if (admitted != admission_.admitted) {
      admission_.admitted = std::move(admitted);
      write_file_atomically(folder_ + "/invite", as_bytes(admission_text(admission_)));
    }
    return missing;
  }

  std::string folder_;
  const FilesJob& job_;
  Admission admission_;
};

// Enters the folder of a run that process 0 has announced.
std::unique_ptr<JobFolder> enter(const std::string& run, const FilesJob& job) {
  try {
    return std::make_unique<JobFolder>(run, job);
  } catch (const Error& e) {
    if (e.code() != Code::kNotFound) throw;
    throw Error(Code::kUnavailable, run + ": process 0 timed out before process " +
                                        std::to_string(job.process_index) + " arrived");
  }
}

// Any other process: waits until process 0 has answered exactly this request.
std::unique_ptr<JobFolder> ask(const std::string& folder, const FilesJob& job) {
  const ProcessRecord record = record_of_this_process(job);
  const std::string join = folder + "/join-" + std::to_string(job.process_index);
  const auto deadline = deadline_after(job.join_timeout);
  const auto request = [&] {
    make_in(folder, [&] { write_file_atomically(join, as_bytes(record_text(record))); });
  };
  request();
  Backoff backoff;
  while (true) {
    const auto admission = read_admission(folder + "/invite");
    const bool admitted =
        admission && std::find(admission->admitted.begin(), admission->admitted.end(),
                               record.nonce) != admission->admitted.end();
    if (admitted) {
      auto mine = enter(run_folder(folder, admission->run), job);
      unlink(join.c_str());
      return mine;
    }
    const auto waiting = try_read_record(join);
    if (waiting && waiting->nonce != record.nonce)
      throw Error(Code::kAlreadyExists, join + ": another process is also " + describe(*waiting));
    // Process 0 may have removed the request, taking it for the file of an earlier run that this
    // request had just replaced.
    if (!waiting) request();
    if (Clock::now() >= deadline) {
      unlink(join.c_str());
      const std::vector<std::size_t> missing = {0};
      throw Error(Code::kUnavailable,
                  folder + ": " + timed_out_text(missing, job.process_index, job.join_timeout));
    }
    backoff.wait(deadline);
  }
}

}  // namespace

std::unique_ptr<JobFolder> JobFolder::join(const FilesJob& job) {
  if (job.process_count == 0) throw Error(Code::kInvalidArgument, "a job has at least one process");
  if (job.process_index >= job.process_count)
    throw Error(Code::kInvalidArgument, "process index " + std::to_string(job.process_index) +
                                            " is out of range for a job of " +
                                            std::to_string(job.process_count) +
                                            (job.process_count == 1 ? " process" : " processes"));
  if (!job.run_id.empty() && !is_run_id(job.run_id))
    throw Error(
        Code::kInvalidArgument,
        "'" + job.run_id + "' is not a run id: expected 1 to 64 letters, digits, '.', '_', '-'");
  const std::string folder = job.directory + "/.cairn-job";
  if (!job.run_id.empty()) {
    const std::string run = run_folder(folder, job.run_id);
    std::unique_ptr<JobFolder> mine;
    make_in(folder, [&] {
      make_directories(run);
      mine = std::make_unique<JobFolder>(run, job);
    });
    return mine;
  }
  return job.process_index == 0 ? Host(folder, job).gather() : ask(folder, job);
}

}  // namespace cairn::inline v0::distributed
