// output_file_test.cc -- what a file that is written may replace.
#include <cairn/io/output_file.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;

TEST(OutputFile, NothingAndRegularFilesAreReplaceable) {
  const testing::TempDir dir;
  check_replaceable_file(dir / "new");
  check_replaceable_file(dir / "no/such/folder/new");
  std::ofstream(dir / "file") << "old";
  check_replaceable_file(dir / "file");
  fs::permissions(dir / "file", fs::perms::none);
  check_replaceable_file(dir / "file");
  EXPECT_THAT([] { check_replaceable_file(""); }, FailsWith(Code::kInvalidArgument, "empty"));
}

TEST(OutputFile, EverythingElseIsNamed) {
  const testing::TempDir dir;
  fs::create_directory(dir / "folder");
  fs::create_symlink("folder", dir / "to-folder");
  fs::create_symlink("nowhere", dir / "dangling");
  std::ofstream(dir / "file") << "old";
  fs::create_symlink("file", dir / "to-file");
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT((dir / "socket").size(), sizeof(address.sun_path));
  std::strncpy(address.sun_path, (dir / "socket").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(server);
  const std::pair<std::string, std::string> kinds[] = {{"folder", "a directory"},
                                                       {"to-folder", "a symbolic link"},
                                                       {"dangling", "a symbolic link"},
                                                       {"to-file", "a symbolic link"},
                                                       {"pipe", "a pipe"},
                                                       {"socket", "a socket"}};
  for (const auto& entry : kinds) {
    const std::string says =
        entry.first + ": is " + entry.second + ", not a regular file; it is not replaced";
    EXPECT_THAT([&] { check_replaceable_file(dir / entry.first); },
                FailsWith(Code::kAlreadyExists, says));
  }
  EXPECT_THAT([] { check_replaceable_file("/dev/null"); },
              FailsWith(Code::kAlreadyExists, "/dev/null: is a device"));
}

TEST(OutputFile, OneFileHasManyNames) {
  const testing::TempDir dir;
  std::ofstream(dir / "file") << "x";
  std::ofstream(dir / "other") << "x";
  fs::create_hard_link(dir / "file", dir / "second");
  fs::create_symlink("file", dir / "link");
  EXPECT_TRUE(is_same_file(dir / "file", dir / "./file"));
  EXPECT_TRUE(is_same_file(dir / "file", dir / "second"));
  EXPECT_TRUE(is_same_file(dir / "link", dir / "second"));
  EXPECT_FALSE(is_same_file(dir / "file", dir / "other"));
  EXPECT_FALSE(is_same_file(dir / "file", dir / "missing"));
  EXPECT_FALSE(is_same_file(dir / "missing", dir / "missing"));
}

}  // namespace
}  // namespace cairn
