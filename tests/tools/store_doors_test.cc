// store_doors_test.cc -- the doors that read take URLs of stores; those that write refuse them, and
// make nothing on this machine.
#include <cairn/convert.h>
#include <cairn/inspect.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/orbax/aggregate_handler.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/open.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/random_bytes.h"
#include "tests/support/temp_dir.h"
#include "tests/support/upload.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::TempDir;

// Saves a tree on this machine and uploads it. Returns it.
Tree upload_saved(const std::string& url, CommitProtocol protocol = CommitProtocol::kAtomicRename,
                  const Tree& tree = Tree::Dict{{"w", Array::from<float>({1, 2, 3, 4}, {2, 2})},
                                                {"n", "text"}}) {
  const TempDir dir;
  Checkpointer checkpointer({.commit_protocol = protocol});
  checkpointer.save(dir / "ckpt", {.item = tree});
  testing::upload(dir / "ckpt", url);
  return tree;
}

TEST(StoreDoors, ReadWhatWasSaved) {
  const Tree tree = upload_saved("memory://doors/ckpt");
  EXPECT_EQ(load("memory://doors/ckpt"), tree);
  EXPECT_EQ(Checkpointer().restore("memory://doors/ckpt"), tree);
  EXPECT_EQ(PyTreeCheckpointHandler().restore("memory://doors/ckpt/"), tree);
  EXPECT_TRUE(is_orbax("memory://doors/ckpt"));
  EXPECT_FALSE(is_orbax("memory://doors/none"));
  EXPECT_THAT([] { (void)load("memory://doors/none"); },
              FailsWith(Code::kNotFound, "memory://doors/none"));
  EXPECT_THAT([] { (void)Checkpointer().restore("memory://doors/none"); },
              FailsWith(Code::kNotFound, "memory://doors/none"));
}

TEST(StoreDoors, WhatHasNoMarkerAndNoCommitTimeIsUnfinished) {
  upload_saved("memory://unfinished/ckpt", CommitProtocol::kCommitMarker);
  const StorePtr store = open_store("memory://unfinished/ckpt");
  store->remove("commit_success.txt");
  (void)load("memory://unfinished/ckpt");  // it has its commit time
  store->write("_CHECKPOINT_METADATA", as_bytes(R"({"init_timestamp_nsecs": 5})"));
  EXPECT_THAT([] { (void)load("memory://unfinished/ckpt"); },
              FailsWith(Code::kFailedPrecondition, "commit_success.txt"));
  EXPECT_THAT([] { (void)Checkpointer().restore("memory://unfinished/ckpt"); },
              FailsWith(Code::kFailedPrecondition, "commit_success.txt"));
  (void)load("memory://unfinished/ckpt", {.allow_uncommitted = true});
}

// Puts zeros in place of the data, as many as before.
void replace_data(const std::string& url) {
  const StorePtr store = open_store(url);
  for (const ListEntry& entry : store->list("d/")) store->write(entry.key, Bytes(entry.size));
}

TEST(StoreDoors, WhatIsReplacedWhileItIsReadIsNeverAMixture) {
  Bytes noise(std::size_t{4} << 20U);  // more than is kept of a file
  testing::fill_random(noise, 1);
  const Array large =
      Array::from<std::uint8_t>({reinterpret_cast<const std::uint8_t*>(noise.data()), noise.size()},
                                {static_cast<std::int64_t>(noise.size())});
  upload_saved("memory://replaced/ckpt", CommitProtocol::kAtomicRename, Tree::Dict{{"w", large}});
  const auto checkpoint = open("memory://replaced/ckpt");
  replace_data("memory://replaced/ckpt");
  EXPECT_THAT([&] { (void)checkpoint->load(); }, FailsWith(Code::kUnavailable, "replaced"));
}

TEST(StoreDoors, WhatWasReadBeforeItIsReplacedIsWhatItWas) {
  const Tree tree = upload_saved("memory://kept/ckpt");
  const auto checkpoint = open("memory://kept/ckpt");  // reads all of a small file
  replace_data("memory://kept/ckpt");
  const auto loaded = try_call([&] { return checkpoint->load(); });
  EXPECT_TRUE(loaded ? loaded.value() == tree : loaded.error().code() == Code::kUnavailable);
}

// A web server can only be read.
TEST(StoreDoors, ThatWriteRefuseWebServers) {
  const TempDir dir;
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  const Tree tree = Tree::Dict{{"w", std::int64_t{1}}};
  upload_saved("memory://written/ckpt");
  const auto source = open("memory://written/ckpt");
  const std::string url = "http://127.0.0.1:1/ckpt";
  const std::vector<std::pair<const char*, std::function<void()>>> doors = {
      {"save", [&] { save(url, tree); }},
      {"save_orbax", [&] { save_orbax(url, tree); }},
      {"Checkpointer", [&] { Checkpointer().save(url, {.item = tree}); }},
      {"AsyncCheckpointer", [&] { AsyncCheckpointer().save(url, {.item = tree}); }},
      {"PyTreeCheckpointHandler", [&] { PyTreeCheckpointHandler().save(url, {.item = tree}); }},
      {"MsgpackHandler", [&] { MsgpackHandler().serialize(url, tree); }},
      {"reshard", [&] { (void)reshard(*source, url, {.orbax = {.chunk_bytes = 8}}); }},
      {"export_leaf", [&] { (void)export_leaf(*source, 0, {}, url); }},
      {"compact_databases", [&] { (void)compact_databases(url); }}};
  for (const auto& [name, door] : doors) {
    SCOPED_TRACE(name);
    EXPECT_THAT(door, FailsWith(Code::kUnimplemented, "can only be read"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  std::filesystem::current_path(here);
}

}  // namespace
}  // namespace cairn
