// Meeting through files: what else may be in the folder, and what may go wrong with it.
#include <cairn/distributed.h>
#include <cairn/distributed/coordinator/job_folder.h>
#include <cairn/distributed/coordinator/message.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/distributed/coordinator_contract.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::kLong;
using testing::kShort;
using testing::put_file;
using testing::TempDir;
using testing::text_of;

FilesJob job_in(const TempDir& folder, std::size_t process, std::size_t count,
                const std::string& run_id = "") {
  return {.directory = folder.path(),
          .process_index = process,
          .process_count = count,
          .run_id = run_id,
          .join_timeout = kLong};
}

// Runs each process's part in a thread of its own.
void run_job(const TempDir& folder, std::size_t count,
             const std::function<void(Coordinator&)>& part) {
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < count; ++p)
    threads.emplace_back([&, p] { part(*files_coordinator(job_in(folder, p, count))); });
  for (std::thread& thread : threads) thread.join();
}

// Where the processes of the only run meet.
std::string distributed_folder(const TempDir& folder) {
  for (const std::string& name : names_in(folder / ".cairn-job"))
    if (name.starts_with("run-")) return folder / ".cairn-job/" + name;
  return "";
}

std::size_t files_below(const std::string& folder) {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    found += entry.is_regular_file() ? 1 : 0;
  return found;
}

TEST(FilesCoordinator, SaysWhichPlacesAndIdsThereAre) {
  const TempDir folder = TempDir::in_memory();
  const auto starting = [&](FilesJob job) { return [job] { files_coordinator(job); }; };
  EXPECT_THAT(starting(job_in(folder, 0, 0)),
              FailsWith(Code::kInvalidArgument, "at least one process"));
  EXPECT_THAT(starting(job_in(folder, 3, 3)),
              FailsWith(Code::kInvalidArgument, "process index 3 is out of range for a job of 3"));
  for (const std::string& id :
       {std::string("a/b"), std::string(65, 'x'), std::string("a b"), std::string("a\0", 2)})
    EXPECT_THAT(starting(job_in(folder, 0, 1, id)),
                FailsWith(Code::kInvalidArgument, "is not a run id"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FilesCoordinator, NamesWhoDoesNotJoin) {
  const TempDir folder = TempDir::in_memory();
  // Who has joined is not left waiting for those who have not.
  std::thread second([&] {
    const auto job = files_coordinator(job_in(folder, 2, 4));
    EXPECT_THAT([&] { job->barrier("b", kLong); },
                FailsWith(Code::kUnavailable, "ended before arriving"));
  });
  while (!names_in(folder / ".cairn-job").contains("join-2")) std::this_thread::yield();
  FilesJob first = job_in(folder, 0, 4);
  first.join_timeout = std::chrono::seconds(3);
  EXPECT_THAT([&] { files_coordinator(first); },
              FailsWith(Code::kUnavailable,
                        "processes 1, 3 did not arrive before process 0 timed out after 3 s"));
  second.join();
  FilesJob other = job_in(folder, 1, 4);
  other.join_timeout = kShort;
  EXPECT_THAT([&] { files_coordinator(other); },
              FailsWith(Code::kUnavailable, "process 0 did not arrive before process 1 timed out"));
  EXPECT_EQ(files_below(folder.path()), 0U);
}

// So that who is killed from then on is known to have ended.
TEST(FilesCoordinator, ProcessesLeaveTheirRecordBeforeOthersWait) {
  const TempDir folder = TempDir::in_memory();
  const std::string meet = folder / ".cairn-job";
  FilesJob job = job_in(folder, 0, 2);
  job.join_timeout = std::chrono::seconds(3);
  std::thread first([&] {
    EXPECT_THAT([&] { files_coordinator(job); },
                FailsWith(Code::kUnavailable, "process 1 did not arrive"));
  });
  while (!names_in(meet).contains("invite")) std::this_thread::yield();
  std::string run;
  for (const std::string& name : names_in(meet))
    if (name.starts_with("run-")) run = meet + "/" + name;
  EXPECT_TRUE(names_in(run).contains("here-0"));
  first.join();

  std::thread second([&] { EXPECT_NO_THROW(files_coordinator(job_in(folder, 1, 2))); });
  while (!names_in(meet).contains("join-1")) std::this_thread::yield();
  const std::string nonce = distributed::read_record(meet + "/join-1").nonce;
  std::filesystem::create_directories(meet + "/run-r");
  put_file(meet + "/new", R"({"run": "r", "admitted": [")" + nonce + R"("]})");
  std::filesystem::rename(meet + "/new", meet + "/invite");
  while (names_in(meet).contains("join-1")) std::this_thread::yield();
  EXPECT_TRUE(names_in(meet + "/run-r").contains("here-1"));
  second.join();
}

TEST(FilesCoordinator, ATimeOutNamesWhoIsMissing) {
  const TempDir folder = TempDir::in_memory();
  run_job(folder, 4, [](Coordinator& job) {
    if (job.process_index() == 1) {
      EXPECT_THAT([&] { job.barrier("save", kShort); },
                  FailsWith(Code::kUnavailable,
                            "'save': processes 0, 2, 3 did not arrive before process 1"));
    }
    job.barrier("end", kLong);
  });
}

TEST(FilesCoordinator, AProcessThatEndsIsNotWaitedFor) {
  const TempDir folder = TempDir::in_memory();
  run_job(folder, 3, [](Coordinator& job) {
    job.barrier("begin", kLong);
    if (job.process_index() == 1) return;
    EXPECT_THAT([&] { job.barrier("b", kLong); },
                FailsWith(Code::kUnavailable, "'b': process 1 ended before arriving"));
  });
}

TEST(FilesCoordinator, ManyNamesLeaveFewFiles) {
  const TempDir folder = TempDir::in_memory();
  run_job(folder, 3, [&](Coordinator& job) {
    for (int step = 0; step < 50; ++step)
      job.all_gather("save of step " + std::to_string(step), as_bytes("x"), kLong);
    job.barrier("count", kLong);
    // Marks, and what the last two collectives have left: three messages and a decision each.
    if (job.process_index() == 0) {
      EXPECT_LE(files_below(folder.path()), 3U + 4U * 3U);
    }
    job.barrier("end", kLong);
  });
}

TEST(FilesCoordinator, ALongCollectiveKeepsItsFiles) {
  const TempDir folder = TempDir::in_memory();
  run_job(folder, 2, [&](Coordinator& job) {
    // Process 1 comes to "slow" first and last: what happens meanwhile must not remove its files.
    std::thread slow([&] {
      if (job.process_index() == 0) job.barrier("go", kLong);
      EXPECT_EQ(text_of(job.broadcast("slow", as_bytes("kept"), 1, kLong)), "kept");
    });
    if (job.process_index() == 1) {
      for (int i = 0; i < 20; ++i) job.barrier("busy", kLong);
      job.barrier("go", kLong);
    } else {
      for (int i = 0; i < 20; ++i) job.barrier("busy", kLong);
    }
    slow.join();
  });
}

// Each of them is a value of some size, and the process may be in another collective for long.
TEST(FilesCoordinator, DeliveriesAreRemovedAsTheyGo) {
  const TempDir folder = TempDir::in_memory();
  run_job(folder, 2, [&](Coordinator& job) {
    job.barrier("begin", kLong);
    std::thread slow([&] {
      if (job.process_index() == 0) job.barrier("slow", kLong);
    });
    const std::size_t other = 1 - job.process_index();
    for (int i = 0; i < 30; ++i)
      job.exchange("d", as_bytes("x"), {{&other, 1}, {&other, 1}}, kLong);
    // Marks, what has begun or ended last, and what the last two deliveries have left.
    if (job.process_index() == 1) {
      EXPECT_LE(files_below(folder.path()), 2U + 2U * 3U + 2U * 3U);
      job.barrier("slow", kLong);
    }
    slow.join();
  });
}

TEST(FilesCoordinator, AFailedCollectiveLeavesNoValues) {
  const TempDir folder = TempDir::in_memory();
  run_job(folder, 3, [&](Coordinator& job) {
    const std::vector<std::size_t> none;
    for (int i = 0; i < 3; ++i) {
      if (job.process_index() == 2)
        job.abort("d", "no more");
      else
        EXPECT_THAT(
            [&] {
              job.exchange("d", as_bytes("x"), {none, none}, kLong);
            },
            FailsWith(Code::kUnavailable, "process 2 aborted"));
    }
    job.barrier("end", kLong);
    for (const std::string& name : names_in(distributed_folder(folder)))
      EXPECT_FALSE(name.starts_with("m-d-")) << name;
    job.barrier("all have looked", kLong);
  });
}

// A disk that is full, a quota.
TEST(FilesCoordinator, AProcessThatCannotWriteFailsAllAtOnce) {
  const TempDir folder = TempDir::in_memory();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = 20000;
  run_job(folder, 2, [&](Coordinator& job) {
    job.barrier("begin", kLong);
    if (job.process_index() == 0) {
      EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
      EXPECT_THAT([&] { job.all_gather("g", Bytes(50000), kLong); },
                  FailsWith(Code::kIo, "File too large"));
      EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    } else {
      EXPECT_THAT([&] { job.all_gather("g", {}, kLong); },
                  FailsWith(Code::kUnavailable, "'g': process 0 aborted: /"));
    }
    EXPECT_EQ(job.all_gather("g", {}, kLong).size(), 2U);
  });
}

TEST(FilesCoordinator, AFolderThatIsRemovedIsNoticed) {
  const TempDir folder = TempDir::in_memory();
  run_job(folder, 2, [&](Coordinator& job) {
    job.barrier("begin", kLong);
    if (job.process_index() == 0) {
      EXPECT_THAT([&] { job.barrier("b", kLong); },
                  FailsWith(Code::kUnavailable, "another program removed it"));
    } else {
      const std::string run = distributed_folder(folder);
      const auto has_come = [](const std::string& name) {
        return name.starts_with("m-b-") && !is_temporary_name(name);
      };
      while (true) {
        const auto names = names_in(run);
        if (std::any_of(names.begin(), names.end(), has_come)) break;
        std::this_thread::yield();
      }
      // The other one may leave, and clear up behind itself, as soon as something is gone.
      std::error_code error;
      do std::filesystem::remove_all(folder / ".cairn-job", error);
      while (error);
    }
  });
}

TEST(FilesCoordinator, AFolderThatWasRemovedBeforeIsNoticed) {
  const TempDir folder = TempDir::in_memory();
  std::atomic<bool> has_left = false;
  run_job(folder, 2, [&](Coordinator& job) {
    job.barrier("begin", kLong);
    if (job.process_index() == 0) {
      has_left = true;
      while (file_exists(folder / ".cairn-job")) std::this_thread::yield();
      EXPECT_THAT([&] { job.barrier("b", kLong); },
                  FailsWith(Code::kUnavailable, "another program removed it"));
    } else {
      while (!has_left) std::this_thread::yield();
      std::error_code error;
      do std::filesystem::remove_all(folder / ".cairn-job", error);
      while (error);
    }
  });
}

TEST(FilesCoordinator, LeftoversOfAnEarlierRunDoNotConfuse) {
  const TempDir folder = TempDir::in_memory();
  const std::string meet = folder / ".cairn-job";
  distributed::ProcessRecord dead = distributed::record_of_this_process(job_in(folder, 1, 2));
  dead.started += 1;
  const std::string dead_text = distributed::record_text(dead);
  distributed::ProcessRecord far = dead;  // of another host: nobody here knows whether it lives
  far.pid_space = "another";
  put_file(meet + "/invite", R"({"run": "old", "admitted": [")" + dead.nonce + R"("]})");
  put_file(meet + "/join-1", dead_text);
  put_file(meet + "/join-7", dead_text);
  put_file(meet + "/run-old/here-0", dead_text);
  put_file(meet + "/run-old/m-end-123-0-0", "junk");
  put_file(meet + "/run-far/here-0", distributed::record_text(far));
  put_file(meet + "/run-odd/here-0", "what is this?");
  put_file(meet + "/note", "somebody's");
  for (int again = 0; again < 3; ++again)
    run_job(folder, 2, [](Coordinator& job) {
      EXPECT_EQ(job.all_gather("end", as_bytes("x"), kLong).size(), 2U);
    });
  EXPECT_EQ(names_in(meet), (distributed::Names{"note", "run-far", "run-odd"}));
}

TEST(FilesCoordinator, ARunIdIsUsedOnce) {
  const TempDir folder = TempDir::in_memory();
  const auto first = files_coordinator(job_in(folder, 0, 2, "r"));
  EXPECT_THAT(
      [&] { files_coordinator(job_in(folder, 0, 2, "r")); },
      FailsWith(Code::kAlreadyExists, "here-0: process 0 (pid " + std::to_string(getpid())));
}

TEST(FilesCoordinator, ProcessesAgreeOnTheirNumber) {
  const TempDir folder = TempDir::in_memory();
  const auto first = files_coordinator(job_in(folder, 0, 2, "r"));
  std::thread other([&] {
    const auto second = files_coordinator(job_in(folder, 1, 3, "r"));
    EXPECT_THAT([&] { second->barrier("b", kLong); },
                FailsWith(Code::kInvalidArgument,
                          "belongs to a job of 2 processes, process 1 to one of 3"));
  });
  EXPECT_THAT(
      [&] { first->barrier("b", kLong); },
      FailsWith(Code::kInvalidArgument, "belongs to a job of 3 processes, process 0 to one of 2"));
  other.join();
}

// Else one takes for dead who gives signs as seldom as it was told to.
TEST(FilesCoordinator, ProcessesAgreeOnTheSilence) {
  const TempDir folder = TempDir::in_memory();
  const auto first = files_coordinator(job_in(folder, 0, 2, "r"));
  std::thread other([&] {
    FilesJob job = job_in(folder, 1, 2, "r");
    job.silence_timeout = std::chrono::milliseconds(1500);
    const auto second = files_coordinator(job);
    EXPECT_THAT(
        [&] { second->barrier("b", kLong); },
        FailsWith(Code::kInvalidArgument, "has a silence_timeout of 120 s, process 1 of 1.5 s"));
  });
  EXPECT_THAT(
      [&] { first->barrier("b", kLong); },
      FailsWith(Code::kInvalidArgument, "has a silence_timeout of 1.5 s, process 0 of 120 s"));
  other.join();
}

TEST(FilesCoordinator, APlaceIsTakenOnce) {
  const TempDir folder = TempDir::in_memory();
  std::thread one([&] {
    EXPECT_THAT([&] { files_coordinator(job_in(folder, 1, 2)); },
                FailsWith(Code::kAlreadyExists, "another process is also process 1"));
  });
  while (names_in(folder / ".cairn-job").count("join-1") == 0) std::this_thread::yield();
  std::thread two([&] { files_coordinator(job_in(folder, 1, 2))->barrier("b", kLong); });
  one.join();
  files_coordinator(job_in(folder, 0, 2))->barrier("b", kLong);
  two.join();
}

TEST(FilesCoordinator, ASecondJobInTheFolderIsNoticed) {
  const TempDir folder = TempDir::in_memory();
  std::thread one([&] {
    EXPECT_THAT([&] { files_coordinator(job_in(folder, 0, 2)); },
                FailsWith(Code::kFailedPrecondition, "another process 0 started a run"));
  });
  while (names_in(folder / ".cairn-job").count("invite") == 0) std::this_thread::yield();
  FilesJob second = job_in(folder, 0, 2);
  second.join_timeout = std::chrono::seconds(1);
  EXPECT_THAT([&] { files_coordinator(second); },
              FailsWith(Code::kUnavailable, "process 1 did not arrive"));
  one.join();
}

// A file of the job's folder, damaged, while process 0 waits in all_gather("g"): what it says.
void expect_refused(const std::string& name, std::string_view text, Code code,
                    const std::string& message) {
  SCOPED_TRACE(name);
  const TempDir folder = TempDir::in_memory();
  const std::string run = folder / ".cairn-job/run-r";
  const auto job = files_coordinator(job_in(folder, 0, 2, "r"));
  std::thread waiting([&] {
    EXPECT_THAT([&] { job->all_gather("g", as_bytes("x"), kLong); }, FailsWith(code, message));
  });
  const auto mine = [&] {
    for (const std::string& found : names_in(run))
      if (found.starts_with("m-") && found.ends_with("-0-0-0-0")) return found;
    return std::string();
  };
  while (mine().empty()) std::this_thread::yield();
  std::string place = mine();
  place.replace(place.size() - 5, 1, "1");
  put_file(run + "/here-1", name == "here"
                                ? text
                                : distributed::record_text(
                                      distributed::record_of_this_process(job_in(folder, 1, 2))));
  put_file(run + "/new",
           name == "message" ? text : as_text(distributed::encode_message({1, 2, 0, "g", {}})));
  std::filesystem::rename(run + "/new", run + "/" + place);
  waiting.join();
}

TEST(FilesCoordinator, FilesThatNoCoordinatorWroteAreNamed) {
  const auto message = [](const distributed::Message& m) {
    return std::string(as_text(distributed::encode_message(m)));
  };
  expect_refused("message", "", Code::kDataLoss, "/m-g-");
  expect_refused("message", "hello, world", Code::kDataLoss, "the magic bytes are wrong");
  expect_refused("message", message({1, 2, 0, "g", {}}).substr(0, 50), Code::kDataLoss,
                 "crc32c mismatch");
  expect_refused("message", message({1, 2, 0, "other", {}}), Code::kDataLoss,
                 "is process 1's message to 'other', round 0");
  expect_refused("message", message({1, 2, 5, "g", {}}), Code::kDataLoss, "round 5");
  expect_refused("message", message({0, 2, 0, "g", {}}), Code::kDataLoss, "is process 0's message");
  expect_refused("here", "not a process record", Code::kDataLoss, "/here-1");
  expect_refused("here", std::string(1U << 20U, ' '), Code::kDataLoss, "/here-1");
}

// Process 1, which has given it, comes to the next one, and must not wait there for who could not
// read.
TEST(FilesCoordinator, AProcessThatCannotReadAnExchangeAbortsTheNext) {
  const TempDir folder = TempDir::in_memory();
  const std::string run = folder / ".cairn-job/run-r";
  const auto job = files_coordinator(job_in(folder, 0, 2, "r"));
  const std::size_t other = 1;
  std::thread waiting([&] {
    EXPECT_THAT(
        [&] {
          job->exchange("g", {}, {{}, {&other, 1}}, kLong);
        },
        FailsWith(Code::kDataLoss, "the magic bytes are wrong"));
  });
  const auto file = [&](std::string_view beginning) {
    for (const std::string& found : names_in(run))
      if (found.starts_with(beginning) && !is_temporary_name(found)) return found;
    return std::string();
  };
  while (file("m-g-").empty()) std::this_thread::yield();
  std::string place = file("m-g-");
  place.replace(place.size() - 5, 1, "1");
  put_file(run + "/here-1",
           distributed::record_text(distributed::record_of_this_process(job_in(folder, 1, 2))));
  put_file(run + "/new", "not a message");
  std::filesystem::rename(run + "/new", run + "/" + place);
  waiting.join();
  std::string next = file("d-g-");
  next.back() = '1';
  const auto decided = distributed::decode_message(read_file(run + "/" + next));
  EXPECT_THAT(std::string(as_text(decided.value)),
              ::testing::HasSubstr("process 0 aborted: " + run));
}

TEST(FilesCoordinator, DamagedInvitationsAndRequestsAreNamed) {
  const TempDir folder = TempDir::in_memory();
  const std::string invite = folder / ".cairn-job/invite";
  for (const std::string text :
       {"", "{", "[]", R"({"run": "../../x", "admitted": []})", R"({"run": "a", "admitted": 1})",
        R"({"run": "a", "admitted": [1]})"}) {
    put_file(invite, text);
    EXPECT_THAT([&] { files_coordinator(job_in(folder, 1, 2)); },
                FailsWith(Code::kDataLoss, invite))
        << text;
  }
  put_file(folder / ".cairn-job/join-1", "{}");
  EXPECT_THAT([&] { files_coordinator(job_in(folder, 0, 2)); },
              FailsWith(Code::kDataLoss, "/join-1: not a process record"));
}

TEST(FilesCoordinator, ValuesHaveALimit) {
  const TempDir folder = TempDir::in_memory();
  FilesJob job = job_in(folder, 0, 1);
  job.max_message_bytes = 10;
  const auto alone = files_coordinator(job);
  EXPECT_EQ(alone->all_gather("g", as_bytes("0123456789"), kShort).size(), 1U);
  EXPECT_THAT(
      [&] { alone->all_gather("g", as_bytes("0123456789a"), kShort); },
      FailsWith(Code::kInvalidArgument, "a value of 11 bytes exceeds the message limit of 10"));
}

TEST(FilesCoordinator, ATooLongValueFailsAllAtOnce) {
  const TempDir folder = TempDir::in_memory();
  const auto part = [&](std::size_t me, std::string_view value, Code code,
                        const std::string& message) {
    FilesJob job = job_in(folder, me, 2);
    job.max_message_bytes = 10;
    const auto mine = files_coordinator(job);
    EXPECT_THAT([&] { mine->all_gather("g", as_bytes(value), kLong); }, FailsWith(code, message));
    EXPECT_EQ(mine->all_gather("g", as_bytes("x"), kLong).size(), 2U);
  };
  std::thread other([&] {
    part(1, "0123456789a", Code::kInvalidArgument,
         "'g': a value of 11 bytes exceeds the message limit of 10");
  });
  part(0, "", Code::kUnavailable,
       "'g': process 1 aborted: 'g': a value of 11 bytes exceeds the message limit of 10");
  other.join();
}

TEST(FilesCoordinator, AFolderThatCannotBeWrittenIsNamed) {
  const TempDir folder = TempDir::in_memory();
  put_file(folder / "file", "x");
  FilesJob job = job_in(folder, 0, 1);
  job.directory = folder / "file";
  EXPECT_THAT([&] { files_coordinator(job); },
              FailsWith(Code::kIo, "/file: cannot make the folder"));
}

}  // namespace
}  // namespace cairn
