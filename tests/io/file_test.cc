#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <cairn/io/temporary_name.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::error_of;
using testing::FailsWith;
using testing::put_file;
using testing::TempDir;

std::string text_of(const std::string& path) {
  const Bytes bytes = read_file(path);
  return std::string(as_text(bytes));
}

std::string read_at(const File& file, std::uint64_t offset, std::size_t length) {
  Bytes out(length);
  file.read_into(offset, out);
  return std::string(as_text(out));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(File, ReadsRangesAndKnowsItsSize) {
  const TempDir dir;
  put_file(dir / "f", "0123456789");
  const File file = File::open(dir / "f");
  EXPECT_EQ(file.size(), 10U);
  EXPECT_EQ(file.path(), dir / "f");
  EXPECT_EQ(read_at(file, 0, 10), "0123456789");
  EXPECT_EQ(read_at(file, 3, 4), "3456");
  EXPECT_EQ(read_at(file, 10, 0), "");
  file.will_need(0, 10);
  file.will_need(~std::uint64_t{0}, 10);
}

TEST(File, AReadBeyondTheEndNamesBothBytes) {
  const TempDir dir;
  put_file(dir / "f", "0123456789");
  const File file = File::open(dir / "f");
  EXPECT_THAT(
      [&] { read_at(file, 8, 3); },
      FailsWith(Code::kOutOfRange, "f: the file ends at byte 10, but the read ends at byte 11"));
  EXPECT_THAT([&] { read_at(file, 100, 1); },
              FailsWith(Code::kOutOfRange, "ends at byte 10, but the read ends at byte 101"));
  EXPECT_THAT([&] { read_at(file, ~std::uint64_t{0}, 1); },
              FailsWith(Code::kOutOfRange, "beyond the largest possible file size"));
  EXPECT_THAT([&] { read_at(file, (std::uint64_t{1} << 63U) - 1, 1); },
              FailsWith(Code::kOutOfRange));
}

TEST(File, ScattersOneRangeOverManyDestinations) {
  const TempDir dir;
  std::string content;
  for (int i = 0; i < 3000; ++i) content += std::to_string(i) + ",";
  put_file(dir / "f", content);
  const File file = File::open(dir / "f");
  // More destinations than one call takes, of uneven sizes, empty ones among them.
  Bytes memory(content.size() - 7);
  std::vector<MutableByteView> parts;
  for (std::size_t at = 0, i = 0; at < memory.size(); ++i) {
    const std::size_t n = std::min(i % 5 == 0 ? 0 : i * 13 % 37, memory.size() - at);
    parts.push_back(MutableByteView(memory).subspan(at, n));
    at += n;
  }
  ASSERT_GT(parts.size(), 500U);
  file.read_scatter(7, parts);
  EXPECT_EQ(as_text(memory), content.substr(7));
  file.read_scatter(0, {});
  Bytes more(20);
  const MutableByteView beyond[] = {MutableByteView(more).first(10),
                                    MutableByteView(more).last(10)};
  EXPECT_THAT([&] { file.read_scatter(content.size() - 15, beyond); },
              FailsWith(Code::kOutOfRange, "the file ends at byte"));
  const MutableByteView nothing[] = {{}, {}};
  file.read_scatter(content.size(), nothing);
}

TEST(File, RefusesPathsThatAreNotFiles) {
  const TempDir dir;
  put_file(dir / "f", "x");
  EXPECT_THAT([&] { File::open(dir / "none"); }, FailsWith(Code::kNotFound, "none: no such file"));
  EXPECT_THAT([&] { File::open(dir / "f/below"); }, FailsWith(Code::kNotFound, "no such file"));
  EXPECT_THAT([&] { File::open(dir.path()); },
              FailsWith(Code::kDataLoss, "is a directory, a file is expected"));
  EXPECT_THAT([&] { File::open(std::string("a\0b", 3)); },
              FailsWith(Code::kInvalidArgument, "NUL"));
  EXPECT_FALSE(File::try_open(dir / "none"));
  EXPECT_FALSE(File::try_open(dir / "f/below"));
  EXPECT_FALSE(File::try_open(dir.path()));
  EXPECT_FALSE(File::try_open(dir / std::string(5000, 'x')));
  EXPECT_TRUE(File::try_open(dir / "f"));
}

TEST(File, ANamedPipeIsRefusedInsteadOfWaitedFor) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { File::open(dir / "pipe"); },
              FailsWith(Code::kDataLoss, "pipe: is not a regular file (it is a pipe)"));
  EXPECT_THAT([&] { MappedFile::open(dir / "pipe"); },
              FailsWith(Code::kDataLoss, "is not a regular file"));
}

TEST(File, WhatIsNotAFileIsNamed) {
  const TempDir dir;
  put_file(dir / "file", "x");
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(symlink("pipe", (dir / "to-pipe").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", (dir / "dangling").c_str()), 0);
  const std::tuple<std::string, std::string, bool> kinds[] = {
      {dir / "file", "a file", false},    {dir.path(), "a directory", false},
      {dir / "pipe", "a pipe", true},     {dir / "to-pipe", "a pipe", true},
      {"/dev/null", "a device", true},    {dir / "dangling", "a symbolic link", false},
      {dir / "nothing", "nothing", false}};
  for (const auto& [path, kind, special] : kinds) {
    EXPECT_EQ(kind_at(path), kind) << path;
    EXPECT_EQ(is_special_file(path), special) << path;
  }
  EXPECT_THAT([&] { File::open(dir / "dangling"); },
              FailsWith(Code::kNotFound, "no such file (it is a symbolic link to nowhere)"));
}

TEST(Error, ContextIsNotRepeated) {
  const TempDir dir;
  const std::string file = dir / "none";
  const auto open_in = [&](const std::string& where) {
    return error_of([&] { with_context([&] { return where; }, [&] { File::open(file); }); });
  };
  EXPECT_EQ(open_in(file).message(), file + ": no such file");
  EXPECT_EQ(open_in("the checkpoint").message(), "the checkpoint: " + file + ": no such file");
  EXPECT_EQ(open_in(dir.path()).message(), dir.path() + ": " + file + ": no such file");
}

TEST(File, KnowsThatItWasReplaced) {
  const TempDir dir;
  put_file(dir / "f", "old");
  const File file = File::open(dir / "f");
  EXPECT_FALSE(file.unlinked());
  put_file(dir / "g", "new");
  std::filesystem::rename(dir / "g", dir / "f");
  EXPECT_TRUE(file.unlinked());
  EXPECT_EQ(read_at(file, 0, 3), "old") << "what is open stays readable";
}

TEST(File, KnowsThatItWasWrittenTo) {
  const TempDir dir;
  const std::string path = dir / "x";
  put_file(path, "old!");
  const File file = File::open(path);
  EXPECT_EQ(read_at(file, 0, 4), "old!");
  EXPECT_FALSE(file.changed());
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  File other = File::open(path);
  other.report_changes_to(flag);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  put_file(path, "new!");
  EXPECT_TRUE(file.changed());
  const auto reports = FailsWith(Code::kUnavailable, "/x: another program wrote to it");
  EXPECT_THAT([&] { (void)read_at(file, 0, 4); }, reports);
  EXPECT_THAT([&] { (void)read_at(file, 3, 4); }, reports);  // as it would be beyond the end
  Bytes out(4);
  EXPECT_THAT([&] { file.read_scatter(0, std::vector{MutableByteView(out)}); }, reports);
  EXPECT_FALSE(*flag);
  File patient = File::open(path);
  patient.accept_changes();
  std::filesystem::last_write_time(path, {});
  EXPECT_EQ(read_at(patient, 0, 4), "new!");
  EXPECT_THAT([&] { other.check_unchanged(); }, reports);
  EXPECT_TRUE(*flag);
}

TEST(File, IsCurrentUntilItsNameIsAnothers) {
  const TempDir dir;
  put_file(dir / "x", "1");
  put_file(dir / "y", "2");
  const File file = File::open(dir / "x");
  EXPECT_NO_THROW(file.check_current());
  std::filesystem::rename(dir / "y", dir / "x");
  EXPECT_NO_THROW(file.check_unchanged());
  EXPECT_THAT([&] { file.check_current(); },
              FailsWith(Code::kUnavailable, "/x: was replaced or removed"));
  std::filesystem::remove(dir / "x");
  EXPECT_THAT([&] { file.check_current(); }, FailsWith(Code::kUnavailable, "was replaced"));
}

TEST(File, Moves) {
  const TempDir dir;
  put_file(dir / "a", "aa");
  put_file(dir / "b", "bb");
  File a = File::open(dir / "a");
  File b = File::open(dir / "b");
  b = std::move(a);
  EXPECT_EQ(read_at(b, 0, 2), "aa");
  const File c(std::move(b));
  EXPECT_EQ(read_at(c, 0, 2), "aa");
}

TEST(MappedFile, MapsWholeFilesEvenEmptyOnes) {
  const TempDir dir;
  put_file(dir / "f", "content");
  put_file(dir / "empty", "");
  const auto mapped = MappedFile::open(dir / "f");
  std::filesystem::remove(dir / "f");
  EXPECT_EQ(as_text(mapped->bytes()), "content") << "a mapping outlives the name";
  EXPECT_TRUE(MappedFile::open(dir / "empty")->bytes().empty());
  EXPECT_THAT([&] { MappedFile::open(dir / "none"); }, FailsWith(Code::kNotFound, "none"));
  EXPECT_THAT([&] { MappedFile::open(dir.path()); }, FailsWith(Code::kDataLoss, "directory"));
}

TEST(AtomicFile, AppearsOnlyAtItsCommit) {
  const TempDir dir;
  put_file(dir / "f", "old");
  AtomicFile file(dir / "f");
  file.append(as_bytes("new "));
  file.append(as_bytes("content"));
  EXPECT_EQ(file.size(), 11U);
  EXPECT_EQ(text_of(dir / "f"), "old");
  EXPECT_EQ(names_in(dir.path()).size(), 2U);
  EXPECT_THAT(names_in(dir.path()).at(1), ::testing::StartsWith("f.cairn-tmp-"));
  EXPECT_TRUE(is_temporary_name(names_in(dir.path()).at(1)));
  file.commit();
  EXPECT_EQ(text_of(dir / "f"), "new content");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"f"});
  EXPECT_THAT([&] { file.commit(); }, FailsWith(Code::kFailedPrecondition, "committed twice"));
  EXPECT_THAT([&] { file.append(as_bytes("x")); },
              FailsWith(Code::kFailedPrecondition, "written after its commit"));
}

TEST(AtomicFile, WritesAWholeFileInOneCall) {
  const TempDir dir;
  put_file(dir / "f", "an older text");
  write_file_atomically(dir / "f", as_bytes("new"));
  EXPECT_EQ(text_of(dir / "f"), "new");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"f"});
}

TEST(AtomicFile, OnlyItsOwnNamesAreTemporary) {
  for (const char* name : {"f", "", "f.cairn-tmp-", ".cairn-tmp-12", "f.cairn-tmp-12.txt",
                           "f.cairn-tmp-xyz", "f.tmp-12"})
    EXPECT_FALSE(is_temporary_name(name)) << name;
  EXPECT_TRUE(is_temporary_name("f.cairn-tmp-0123456789abcdef"));
}

TEST(AtomicFile, ALockDoesNotBeginWithTheNameOfItsTarget) {
  EXPECT_EQ(lock_name("f"), ".f.cairn-tmp-0");
  EXPECT_EQ(lock_name("/a/.f"), "/a/..f.cairn-tmp-0");
  for (const char* target : {"f", ".f", "..f", "f.cairn-tmp-0"}) {
    EXPECT_TRUE(is_temporary_name(lock_name(target))) << target;
    EXPECT_EQ(temporary_target(lock_name(target)), target);
    EXPECT_EQ(temporary_target(temporary_name(target, "12")), target);
  }
  EXPECT_EQ(temporary_target("..cairn-tmp-0"), ".");
}

TEST(AtomicFile, LeavesNothingWithoutACommit) {
  const TempDir dir;
  put_file(dir / "f", "old");
  {
    AtomicFile file(dir / "f");
    file.append(as_bytes("new"));
  }
  EXPECT_EQ(text_of(dir / "f"), "old");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"f"});
}

TEST(AtomicFile, WritesAnywhereAndFillsGapsWithZeros) {
  const TempDir dir;
  AtomicFile file(dir / "f");
  file.write_at(5, as_bytes("later"));
  file.write_at(0, as_bytes("ab"));
  EXPECT_EQ(file.size(), 10U);
  file.append(as_bytes("!"));
  file.commit();
  EXPECT_EQ(text_of(dir / "f"), std::string("ab\0\0\0later!", 11));
}

TEST(AtomicFile, GrowsByAHole) {
  const TempDir dir;
  AtomicFile file(dir / "f");
  file.append(as_bytes("abc"));
  file.extend(2);
  EXPECT_EQ(file.size(), 3U);
  file.extend(5);
  EXPECT_EQ(file.size(), 5U);
  file.append(as_bytes("d"));
  EXPECT_THAT([&] { file.extend(~std::uint64_t{0}); }, FailsWith(Code::kOutOfRange));
  file.commit();
  EXPECT_EQ(text_of(dir / "f"), std::string("abc\0\0d", 6));
  EXPECT_THAT([&] { file.extend(9); }, FailsWith(Code::kFailedPrecondition, "after its commit"));
}

TEST(AtomicFile, ManyThreadsMayWriteTheirParts) {
  const TempDir dir;
  AtomicFile file(dir / "f");
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t)
    threads.emplace_back([&file, t] {
      for (std::size_t i = 0; i < 50; ++i)
        file.write_at((i * 8 + t) * 3, as_bytes(std::string(3, static_cast<char>('a' + t))));
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(file.size(), 1200U);
  file.commit();
  std::string expected;
  for (int i = 0; i < 50; ++i) expected += "aaabbbcccdddeeefffggghhh";
  EXPECT_EQ(text_of(dir / "f"), expected);
}

TEST(AtomicFile, FailuresNameThePath) {
  const TempDir dir;
  EXPECT_THAT([&] { AtomicFile(dir / "no/folder"); },
              FailsWith(Code::kNotFound, "no/folder: cannot write it: there is no folder"));
  std::filesystem::create_directories(dir / "taken/below");
  AtomicFile file(dir / "taken");
  EXPECT_THAT([&] { file.commit(); },
              FailsWith(Code::kIo, "taken: cannot rename the finished file to it"));
}

TEST(ReadFile, RefusesMoreThanAllowedBeforeReading) {
  const TempDir dir;
  put_file(dir / "f", "0123456789");
  EXPECT_EQ(read_file(dir / "f", 10).size(), 10U);
  EXPECT_THAT([&] { read_file(dir / "f", 9); },
              FailsWith(Code::kDataLoss, "10 bytes, at most 9 are expected"));
  EXPECT_THAT([&] { read_file(dir / "g"); }, FailsWith(Code::kNotFound, "g: no such file"));
}

TEST(FileCalls, TheErrorOfTheSystemChoosesTheCode) {
  const auto fails_with = [](int error) {
    return error_of([&] { fail_file_call("/f", "do it", error); }).code();
  };
  EXPECT_EQ(fails_with(ENOENT), Code::kNotFound);
  EXPECT_EQ(fails_with(EEXIST), Code::kAlreadyExists);
  EXPECT_EQ(fails_with(ENOTEMPTY), Code::kAlreadyExists);
  for (const int error : {EACCES, EIO, EISDIR, ELOOP, ENOSPC, ENOTDIR})
    EXPECT_EQ(fails_with(error), Code::kIo);
  EXPECT_THAT([] { fail_file_call("/f", "do it", ELOOP, Code::kDataLoss); },
              FailsWith(Code::kDataLoss, "/f: cannot do it: Too many levels of symbolic links"));
}

TEST(Paths, Existence) {
  const TempDir dir;
  put_file(dir / "f", "x");
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  EXPECT_TRUE(file_exists(dir / "f"));
  EXPECT_TRUE(file_exists(dir.path()));
  EXPECT_TRUE(file_exists(dir / "dangling")) << "a link takes the name, whatever it leads to";
  EXPECT_FALSE(file_exists(dir / "g"));
  EXPECT_TRUE(directory_exists(dir.path()));
  EXPECT_FALSE(directory_exists(dir / "f"));
}

TEST(Paths, MakesMissingFoldersOnly) {
  const TempDir dir;
  make_directories(dir / "a/b//c/");
  EXPECT_TRUE(directory_exists(dir / "a/b/c"));
  make_directories(dir / "a/b/c");
  put_file(dir / "f", "x");
  EXPECT_THAT([&] { make_directories(dir / "f/below"); },
              FailsWith(Code::kIo, "/f: cannot make the folder: Not a directory"));
  EXPECT_EQ(try_call([&] { return make_directories(dir / "f/below"), 0; }).error().error_number(),
            ENOTDIR);
}

}  // namespace
}  // namespace cairn
