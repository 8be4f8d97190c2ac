// file_test.cc -- what is particular to folders, URLs and prefixes; the rest is in
// contract_test.cc.
#include <cairn/io/tree/local_folder.h>
#include <cairn/storage/kvstore.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::put_file;
using testing::TempDir;

std::string text_of(const KvStore& store, std::string_view key) {
  const auto bytes = store.read(key, {});
  return bytes ? std::string(as_text(*bytes)) : "(absent)";
}

TEST(FileStore, RefusesKeysThatAreNoRelativePaths) {
  const TempDir dir;
  const StorePtr store = open_file_store(dir.path());
  Bytes out(1);
  for (const std::string& key :
       {std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string(".."), std::string("a/../b"), std::string("a/./b"), std::string("../x"),
        std::string("a\0b", 3), std::string("/")}) {
    EXPECT_THAT([&] { (void)store->read(key, {}); },
                FailsWith(Code::kInvalidArgument, "it cannot name a file"))
        << key;
    EXPECT_THAT([&] { store->read_into(key, 0, out); }, FailsWith(Code::kInvalidArgument)) << key;
    EXPECT_THAT([&] { (void)store->map(key); }, FailsWith(Code::kInvalidArgument)) << key;
    EXPECT_THAT([&] { (void)store->size(key); }, FailsWith(Code::kInvalidArgument)) << key;
    EXPECT_THAT([&] { (void)store->locate(key); }, FailsWith(Code::kInvalidArgument)) << key;
    EXPECT_THAT([&] { store->write(key, {}); }, FailsWith(Code::kInvalidArgument)) << key;
    EXPECT_THAT([&] { store->remove(key); }, FailsWith(Code::kInvalidArgument)) << key;
  }
  EXPECT_NO_THROW(store->write("...", {})) << "three dots are a name like any other";
}

TEST(FileStore, KeysAreRelativePaths) {
  const TempDir dir;
  put_file(dir / "root/a/b", "content");
  const StorePtr store = open_file_store(dir / "root//");
  EXPECT_EQ(store->describe("a/b"), dir / "root/a/b");
  EXPECT_EQ(store->locate("a/b"), (Location{dir / "root/a/b", 0, 7}));
  store->write("c/d/e", as_bytes("new"));
  EXPECT_TRUE(std::filesystem::is_regular_file(dir / "root/c/d/e"));
}

TEST(FileStore, ReadsNoMoreThanIsExpected) {
  const TempDir dir;
  put_file(dir / "a", "four");
  std::filesystem::resize_file(dir / "a", std::uint64_t{8} << 30U);
  put_file(dir / "b", "four");
  for (const StorePtr& store : {open_file_store(dir.path()),
                                prefix_store(open_file_store(dir.path() + "/.."),
                                             dir.path().substr(dir.path().rfind('/') + 1) + "/")}) {
    EXPECT_THAT(
        [&] { (void)store->read_at_most("a", 1000); },
        FailsWith(Code::kDataLoss, "8589934592 bytes are stored, at most 1000 are expected"));
    EXPECT_EQ(as_text(store->read_at_most("b", 4).value()), "four");
    EXPECT_THAT([&] { (void)store->read_at_most("b", 3); }, FailsWith(Code::kDataLoss));
    EXPECT_EQ(store->read_at_most("c", 3), std::nullopt);
  }
}

std::vector<std::string> keys_of(const StorePtr& store) {
  std::vector<std::string> keys;
  for (const auto& entry : store->list("")) keys.push_back(entry.key);
  return keys;
}

TEST(FileStore, FollowsLinksToFoldersButNotWithoutEnd) {
  namespace fs = std::filesystem;
  const TempDir dir;
  put_file(dir / "blobs/w/0", "x");
  put_file(dir / "ckpt/a", "x");
  for (const char* name : {"first", "second"})
    fs::create_directory_symlink(dir / "blobs/w", dir / ("ckpt/" + std::string(name)));
  for (const StorePtr& store :
       {open_file_store(dir / "ckpt"), open_file_store(LocalFolder::open(dir / "ckpt"))})
    EXPECT_THAT(keys_of(store), ElementsAre("a", "first/0", "second/0"))
        << "one folder may have several names";
  // Back to where it is, and to a folder above it: everything there is listed already, or is none
  // of it.
  fs::create_directory_symlink(".", dir / "ckpt/self");
  fs::create_directory_symlink("/", dir / "ckpt/root");
  EXPECT_THAT(keys_of(open_file_store(dir / "ckpt")), ElementsAre("a", "first/0", "second/0"));
  // Of thirty folders with two links each there are a thousand million paths.
  for (int i = 0; i < 30; ++i) fs::create_directories(dir / ("ckpt/f" + std::to_string(i)));
  for (int i = 0; i < 29; ++i)
    for (const char* name : {"x", "y"})
      fs::create_directory_symlink("../f" + std::to_string(i + 1),
                                   dir / ("ckpt/f" + std::to_string(i) + "/" + name));
  EXPECT_THAT([&] { keys_of(open_file_store(dir / "ckpt")); },
              FailsWith(Code::kFailedPrecondition, "too many folders are behind symbolic links"));
}

TEST(FileStore, ReadsTheFolderThatIsHeldOpen) {
  const TempDir dir;
  put_file(dir / "a/x", "old");
  put_file(dir / "b/x", "new");
  const StorePtr store = open_file_store(LocalFolder::open(dir / "a"));
  std::filesystem::rename(dir / "a", dir / "c");
  std::filesystem::rename(dir / "b", dir / "a");
  EXPECT_EQ(text_of(*store, "x"), "old");
  EXPECT_EQ(store->size("x"), 3U);
  EXPECT_EQ(as_text(store->map("x").value().bytes), "old");
  EXPECT_THAT(keys_of(store), ElementsAre("x"));
  const auto location = store->locate("x");
  ASSERT_TRUE(location && location->folder);
  EXPECT_EQ(location->file, dir / "a/x");
  Bytes bytes(3);
  location->folder->open_file(location->file).read_into(0, bytes);
  EXPECT_EQ(as_text(bytes), "old");
  std::filesystem::remove(dir / "c/x");
  EXPECT_EQ(text_of(*open_file_store(location->folder), "x"), "(absent)");
  EXPECT_THAT([&] { location->folder->check_not_replaced(); }, FailsWith(Code::kUnavailable));
}

TEST(FileStore, AMissingFolderIsEmptyUntilWritten) {
  const TempDir dir;
  const StorePtr store = open_file_store(dir / "not/yet");
  EXPECT_TRUE(store->list("").empty());
  EXPECT_EQ(text_of(*store, "x"), "(absent)");
  store->remove("x");
  store->write("x", as_bytes("here"));
  EXPECT_EQ(text_of(*store, "x"), "here");
}

TEST(FileStore, AFolderIsNoValue) {
  const TempDir dir;
  put_file(dir / "a/b", "x");
  std::filesystem::create_directories(dir / "empty");
  const StorePtr store = open_file_store(dir.path());
  EXPECT_EQ(text_of(*store, "a"), "(absent)");
  EXPECT_FALSE(store->size("a"));
  EXPECT_FALSE(store->map("empty"));
  EXPECT_THAT(store->list(""), ElementsAre(ListEntry{"a/b", 1}));
  EXPECT_THAT([&] { store->write("a", as_bytes("x")); }, FailsWith(Code::kIo, "/a: cannot rename"));
  EXPECT_THAT([&] { store->write("a/b/c", as_bytes("x")); },
              FailsWith(Code::kIo, "/a/b: cannot make the folder"));
  EXPECT_THAT(store->list(""), ElementsAre(ListEntry{"a/b", 1})) << "and nothing is left behind";
}

TEST(FileStore, APipeIsNotAMissingValue) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  const StorePtr store = open_file_store(dir.path());
  const auto refused = FailsWith(Code::kDataLoss, "pipe: is not a regular file (it is a pipe)");
  EXPECT_THAT([&] { (void)store->size("pipe"); }, refused);
  EXPECT_THAT([&] { (void)store->locate("pipe"); }, refused);
  EXPECT_THAT([&] { (void)store->read("pipe", {}); }, refused);
}

TEST(FileStore, ListSortsByTheWholeKeyNotFolderByFolder) {
  const TempDir dir;
  for (const char* name : {"a/x", "a-b", "a.b/y", "a0"}) put_file(dir / name, "");
  EXPECT_THAT(open_file_store(dir.path())->list(""),
              ElementsAre(ListEntry{"a-b", 0}, ListEntry{"a.b/y", 0}, ListEntry{"a/x", 0},
                          ListEntry{"a0", 0}));
}

TEST(FileStore, ListLooksOnlyWhereThePrefixCanBe) {
  if (geteuid() == 0) {
    // The superuser may look everywhere, so count instead: a folder that was looked into has a
    // younger access time.
    const TempDir dir;
    put_file(dir / "other/deep/x", "");
    put_file(dir / "wanted/y", "");
    const auto mark = [&](const std::string& path) {
      const timespec times[] = {{1, 0}, {2, 0}};
      ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    };
    mark(dir / "other");
    mark(dir / "other/deep");
    EXPECT_THAT(open_file_store(dir.path())->list("wanted/"),
                ElementsAre(ListEntry{"wanted/y", 0}));
    EXPECT_THAT(open_file_store(dir.path())->list("want"), ElementsAre(ListEntry{"wanted/y", 0}));
    struct stat status {};
    ASSERT_EQ(stat((dir / "other").c_str(), &status), 0);
    EXPECT_EQ(status.st_atim.tv_sec, 1);
  } else {
    const TempDir dir;
    put_file(dir / "other/x", "");
    put_file(dir / "wanted/y", "");
    ASSERT_EQ(chmod((dir / "other").c_str(), 0), 0);
    const StorePtr store = open_file_store(dir.path());
    EXPECT_THAT(store->list("wanted/"), ElementsAre(ListEntry{"wanted/y", 0}));
    EXPECT_THAT([&] { (void)store->list(""); },
                FailsWith(Code::kIo, "other: cannot list the folder"));
    ASSERT_EQ(chmod((dir / "other").c_str(), 0700), 0);
  }
}

TEST(FileStore, FollowsLinksButNotInCircles) {
  const TempDir dir;
  put_file(dir / "elsewhere/f", "linked");
  put_file(dir / "root/a/own", "own");
  std::filesystem::create_symlink(dir / "elsewhere", dir / "root/folder");
  std::filesystem::create_symlink(dir / "elsewhere/f", dir / "root/file");
  std::filesystem::create_symlink("..", dir / "root/a/up");
  std::filesystem::create_symlink("nowhere", dir / "root/dangling");
  std::filesystem::create_symlink("self", dir / "root/a/self");
  const StorePtr store = open_file_store(dir / "root");
  EXPECT_EQ(text_of(*store, "folder/f"), "linked");
  EXPECT_EQ(text_of(*store, "file"), "linked");
  EXPECT_EQ(text_of(*store, "dangling"), "(absent)");
  std::filesystem::remove(dir / "root/a/self");
  EXPECT_THAT(store->list(""),
              ElementsAre(ListEntry{"a/own", 3}, ListEntry{"file", 6}, ListEntry{"folder/f", 6}));
}

TEST(FileStore, ALinkToItselfIsAnError) {
  const TempDir dir;
  std::filesystem::create_symlink("self", dir / "self");
  const StorePtr store = open_file_store(dir.path());
  EXPECT_THAT([&] { (void)store->read("self", {}); },
              FailsWith(Code::kDataLoss, "self: cannot open the file"));
  EXPECT_THAT([&] { (void)store->list(""); }, FailsWith(Code::kIo, "self: cannot stat it"));
}

TEST(FileStore, SeesWhatOthersReplaceOrDelete) {
  const TempDir dir;
  put_file(dir / "f", "first");
  const StorePtr store = open_file_store(dir.path());
  EXPECT_EQ(text_of(*store, "f"), "first");
  put_file(dir / "g", "second");
  std::filesystem::rename(dir / "g", dir / "f");
  EXPECT_EQ(text_of(*store, "f"), "second");
  put_file(dir / "f", "in place");
  EXPECT_EQ(text_of(*store, "f"), "in place");
  std::filesystem::remove(dir / "f");
  EXPECT_EQ(text_of(*store, "f"), "(absent)");
}

TEST(FileStore, AStaleLockFileDoesNoHarm) {
  const TempDir dir;
  put_file(dir / "k", "old");
  put_file(dir / "k.__lock", std::string(10000, 'x'));
  const StorePtr store = open_file_store(dir.path());
  EXPECT_TRUE(store->replace_if("k", as_bytes("old"), as_bytes("new")));
  EXPECT_EQ(text_of(*store, "k"), "new");
  EXPECT_THAT(store->list(""), ElementsAre(ListEntry{"k", 3}));
}

// As another program would hold it.
class HeldLock {
 public:
  explicit HeldLock(std::string path)
      : path_(std::move(path)), fd_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    EXPECT_EQ(fcntl(fd_, F_OFD_SETLK, &whole), 0);
  }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  ~HeldLock() { close(fd_); }
  // What TensorStore does: the lock file becomes the value.
  void become(const std::string& target, std::string_view value) {
    EXPECT_EQ(pwrite(fd_, value.data(), value.size(), 0), static_cast<ssize_t>(value.size()));
    EXPECT_EQ(rename(path_.c_str(), target.c_str()), 0);
  }

 private:
  std::string path_;
  int fd_;
};

TEST(FileStore, AConditionalWriteWaitsForTheLockAndSeesWhatItsHolderWrote) {
  const TempDir dir;
  put_file(dir / "k", "old");
  const StorePtr store = open_file_store(dir.path());
  auto held = std::make_unique<HeldLock>(dir / "k.__lock");
  std::atomic<bool> done = false;
  bool replaced = true;
  std::thread writer([&] {
    replaced = store->replace_if("k", as_bytes("old"), as_bytes("new"));
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  held->become(dir / "k", "theirs");
  held.reset();
  writer.join();
  EXPECT_FALSE(replaced);
  EXPECT_EQ(text_of(*store, "k"), "theirs");
  EXPECT_THAT(store->list(""), ElementsAre(ListEntry{"k", 6}));
}

TEST(FileStore, UnsyncedWritesAreWritesToo) {
  const TempDir dir;
  const StorePtr store = open_file_store(dir.path(), Durability::kUnsynced);
  store->write("a", as_bytes("1"));
  EXPECT_TRUE(store->replace_if("a", as_bytes("1"), as_bytes("2")));
  const auto appender = store->append("b");
  const ByteView part[] = {as_bytes("3")};
  appender->append(part);
  appender->commit();
  EXPECT_EQ(text_of(*open_file_store(dir.path()), "a"), "2");
  EXPECT_EQ(text_of(*open_file_store(dir.path()), "b"), "3");
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

TEST(FileStore, KeepsABoundedNumberOfFilesOpen) {
  const TempDir dir;
  const StorePtr store = open_file_store(dir.path());
  for (int i = 0; i < 200; ++i) put_file(dir / ("f" + std::to_string(i)), std::to_string(i));
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 200; ++i)
      EXPECT_EQ(text_of(*store, "f" + std::to_string(i)), std::to_string(i));
  EXPECT_GT(open_descriptors(), before) << "files stay open for the next read";
  EXPECT_LE(open_descriptors(), before + 64);
}

TEST(OpenStore, PathsAndUrls) {
  const TempDir dir;
  put_file(dir / "a b%#?/f", "x");
  EXPECT_EQ(text_of(*open_store(dir / "a b%#?"), "f"), "x");
  EXPECT_EQ(text_of(*open_store("file://" + (dir / "a%20b%25%23%3f")), "f"), "x");
  EXPECT_EQ(text_of(*open_store("FILE://localhost" + (dir / "a%20b%25%23%3F/")), "f"), "x");
  const StorePtr memory = open_store("memory://");
  memory->write("k", as_bytes("v"));
  EXPECT_EQ(text_of(*memory, "k"), "v");
  EXPECT_EQ(text_of(*open_store("memory://"), "k"), "(absent)") << "each is a new one";
}

TEST(OpenStore, AStoreInMemoryHasAName) {
  open_store("memory://named/a")->write("b/k", as_bytes("v"));
  EXPECT_EQ(text_of(*open_store("memory://named"), "a/b/k"), "v");
  EXPECT_EQ(text_of(*open_store("memory://named/a/b/"), "k"), "v");
  EXPECT_EQ(text_of(*open_store("memory://other"), "a/b/k"), "(absent)");
}

TEST(OpenStore, Refuses) {
  EXPECT_THAT([] { open_store("ftp://host/x"); },
              FailsWith(Code::kUnimplemented, "no store for ftp://"));
  EXPECT_THAT([] { open_store("s3://"); }, FailsWith(Code::kInvalidArgument, "s3://"));
  EXPECT_THAT([] { open_store(""); }, FailsWith(Code::kInvalidArgument, "empty"));
  EXPECT_THAT([] { open_store("file://"); }, FailsWith(Code::kInvalidArgument, "absolute path"));
  EXPECT_THAT([] { open_store("file://host/x"); },
              FailsWith(Code::kInvalidArgument, "absolute path"));
  EXPECT_THAT([] { open_store("file:///a?b"); }, FailsWith(Code::kInvalidArgument, "%3F"));
  EXPECT_THAT([] { open_store("file:///a%2"); }, FailsWith(Code::kInvalidArgument, "hexadecimal"));
  EXPECT_THAT([] { open_store("file:///a%zz"); }, FailsWith(Code::kInvalidArgument, "hexadecimal"));
  EXPECT_THAT([] { open_store("file:///a%00"); }, FailsWith(Code::kInvalidArgument, "NUL"));
}

TEST(PrefixStore, IsAViewOfItsBase) {
  const StorePtr base = make_memory_store();
  base->write("p/a", as_bytes("1"));
  base->write("q", as_bytes("2"));
  const StorePtr view = prefix_store(base, "p/");
  EXPECT_EQ(text_of(*view, "a"), "1");
  EXPECT_EQ(text_of(*view, "q"), "(absent)");
  EXPECT_EQ(view->describe("a"), "memory://p/a");
  view->write("b", as_bytes("3"));
  EXPECT_EQ(text_of(*base, "p/b"), "3");
  view->remove("a");
  EXPECT_THAT(base->list(""), ElementsAre(ListEntry{"p/b", 1}, ListEntry{"q", 1}));
}

}  // namespace
}  // namespace cairn
