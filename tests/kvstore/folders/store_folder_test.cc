// store_folder_test.cc -- a prefix of a store as a folder: what it shows, which version it reads,
// and how often it asks the store.
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/kvstore/routing_store.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::UnorderedElementsAre;

// Counts the listings, each of which is a request to a real store.
class CountingStore : public RoutingStore {
 public:
  explicit CountingStore(StorePtr base) : base_(std::move(base)) {}
  std::vector<ListEntry> list(std::string_view prefix) const override {
    ++listings;
    return base_->list(prefix);
  }
  StoreListing list_level(std::string_view prefix) const override {
    ++listings;
    return base_->list_level(prefix);
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    ++listings;
    return base_->list_values(prefix, most);
  }
  mutable int listings = 0;

 protected:
  [[nodiscard]] Target find(std::string_view key) const override {
    return {base_.get(), std::string(key)};
  }

 private:
  StorePtr base_;
};

class StoreFolderTest : public ::testing::Test {
 protected:
  void put(const std::string& key, const std::string& text) { base_->write(key, as_bytes(text)); }
  [[nodiscard]] FolderPtr open() const { return StoreFolder::open(store_, "s3://b/run"); }
  static std::vector<std::string> names(const FolderHandle& folder, const std::string& path) {
    std::vector<std::string> names;
    for (const auto& [name, is_folder] : folder.list(path))
      names.push_back(is_folder ? name + "/" : name);
    std::ranges::sort(names);
    return names;
  }

  StorePtr base_ = make_memory_store();
  std::shared_ptr<CountingStore> store_ = std::make_shared<CountingStore>(base_);
};

TEST_F(StoreFolderTest, ShowsFoldersAndFilesWithOneListing) {
  for (const char* key : {"1/_METADATA", "1/d/x", "2/_METADATA", "top", "a", "a/b", "dir/"})
    put(key, key);
  const FolderPtr folder = open();
  EXPECT_THAT(names(*folder, "s3://b/run"), ElementsAre("1/", "2/", "a", "dir/", "top"))
      << "a value hides a folder of its name";
  EXPECT_THAT(names(*folder, "s3://b/run/1"), ElementsAre("_METADATA", "d/"));
  EXPECT_THAT(names(*folder, "s3://b/run/none"), ElementsAre());
  EXPECT_TRUE(folder->is_folder("s3://b/run/1/d"));
  EXPECT_FALSE(folder->is_folder("s3://b/run/top"));
  EXPECT_FALSE(folder->exists("s3://b/run/1/d/y"));
  EXPECT_EQ(folder->file_size("s3://b/run/1/_METADATA"), 11U);
  EXPECT_EQ(folder->kind_at("s3://b/run/1"), "a directory");
  EXPECT_THAT(names(*folder->open_below("s3://b/run/1"), "s3://b/run/1"),
              ElementsAre("_METADATA", "d/"));
  EXPECT_EQ(store_->listings, 1);
}

TEST_F(StoreFolderTest, SaysWhatIsNotThere) {
  EXPECT_THAT([&] { (void)open(); }, FailsWith(Code::kNotFound, "s3://b/run"));
  put("1/x", "y");
  const FolderPtr folder = open();
  EXPECT_THAT([&] { (void)folder->open_below("s3://b/run/2"); },
              FailsWith(Code::kNotFound, "run/2"));
  EXPECT_THAT([&] { (void)folder->open_file("s3://b/run/2"); },
              FailsWith(Code::kNotFound, "no such object"));
  EXPECT_THAT([&] { (void)folder->open_file("s3://b/run/1"); },
              FailsWith(Code::kDataLoss, "prefix of objects"));
  EXPECT_THAT([&] { (void)folder->try_open("s3://other/1"); }, FailsWith(Code::kInvalidArgument));
}

TEST_F(StoreFolderTest, ReadsTheVersionThatWasListed) {
  put("a", "old");
  put("b", "old");
  const FolderPtr folder = open();
  const File before = folder->open_file("s3://b/run/a");
  put("a", "new");
  Bytes out(3);
  EXPECT_THAT([&] { before.read_into(0, out); }, FailsWith(Code::kUnavailable, "replaced"));
  EXPECT_THAT([&] { (void)StoreFolder::of(*folder)->files()->read("a", {}); },
              FailsWith(Code::kUnavailable, "replaced"));
  base_->remove("b");
  EXPECT_THAT([&] { (void)folder->open_file("s3://b/run/b"); },
              FailsWith(Code::kUnavailable, "removed"));
  EXPECT_TRUE(folder->replaced());
}

TEST_F(StoreFolderTest, AFileOutlivesItsFolderAndItsStore) {
  put("a", "kept");
  const File file = open()->open_file("s3://b/run/a");
  const std::weak_ptr<KvStore> base = base_;
  store_.reset();
  base_.reset();
  Bytes out(4);
  file.read_into(0, out);
  EXPECT_EQ(as_text(out), "kept");
  EXPECT_FALSE(base.expired());
}

TEST_F(StoreFolderTest, ListsManyStepsWithoutWhatIsInThem) {
  for (int step = 0; step < 300; ++step)
    for (const char* file : {"a", "b", "d/c", "d/e"}) put(std::to_string(step) + "/" + file, "x");
  const FolderPtr folder = open();
  EXPECT_EQ(folder->list("s3://b/run").size(), 300U);
  EXPECT_TRUE(folder->is_folder("s3://b/run/7"));
  EXPECT_EQ(store_->listings, 2);  // the first page, which was not all, and the level
  const FolderPtr step = folder->open_below("s3://b/run/7");
  EXPECT_THAT(names(*step, "s3://b/run/7/d"), ElementsAre("c", "e"));
  EXPECT_EQ(store_->listings, 3);
}

TEST_F(StoreFolderTest, FindsManyValuesInFoldersOfTheirOwn) {
  for (int i = 0; i < 1500; ++i) put("p" + std::to_string(i) + "/0.0", "x");
  const FolderPtr folder = open();
  const StorePtr files = StoreFolder::of(*folder)->files();
  for (int i = 0; i < 1500; ++i) ASSERT_EQ(files->size("p" + std::to_string(i) + "/0.0"), 1U);
  EXPECT_EQ(files->list("p1/").size(), 1U);
  EXPECT_LE(store_->listings, 3);
}

TEST_F(StoreFolderTest, IsForReading) {
  put("a", "0123456789");
  const FolderPtr folder = open();
  const StorePtr files = files_of(folder);
  EXPECT_EQ(as_text(*files->read("a", {2, 3})), "234");
  EXPECT_EQ(as_text(files->map("a")->bytes), "0123456789");
  const auto place = files->locate("a");
  EXPECT_EQ(place->file, "s3://b/run/a");
  Bytes out(2);
  place->folder->open_file(place->file).read_into(8, out);
  EXPECT_EQ(as_text(out), "89");
  EXPECT_THAT([&] { files->write("a", out); }, FailsWith(Code::kUnimplemented, "for reading"));
  EXPECT_THAT([&] { files->remove("a"); }, FailsWith(Code::kUnimplemented, "for reading"));
  EXPECT_EQ(files->read("none", {}), std::nullopt);
  EXPECT_THAT([&] { (void)files->read("a", {8, 5}); }, FailsWith(Code::kOutOfRange, "run/a"));
  EXPECT_THAT([&] { (void)files->read_at_most("a", 9); }, FailsWith(Code::kDataLoss, "run/a"));
}

TEST(Urls, AreToldFromPaths) {
  EXPECT_TRUE(is_store_url("s3://b/k"));
  EXPECT_TRUE(is_store_url("GS://b"));
  EXPECT_FALSE(is_store_url("/a/s3://b"));
  EXPECT_FALSE(is_store_url("file:///a"));
  EXPECT_FALSE(is_store_url("a:b"));
  EXPECT_THAT([] { (void)is_store_url("ftp://host/x"); },
              FailsWith(Code::kUnimplemented, "scheme 'ftp'"));
  EXPECT_EQ(normal_path("s3://b/k//"), "s3://b/k");
  EXPECT_EQ(normal_path("file:///a/b"), "/a/b");
  EXPECT_THAT([] { (void)normal_path("s3://"); },
              FailsWith(Code::kInvalidArgument, "the name of the store is missing"));
  EXPECT_THAT([] { (void)local_path("s3://b/k"); }, FailsWith(Code::kUnimplemented, "local path"));
}

}  // namespace
}  // namespace cairn
