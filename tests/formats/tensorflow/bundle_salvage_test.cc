// bundle_salvage_test.cc -- checkpoints of TensorFlow whose index is damaged: the tensors in whole
// blocks come back as they were, and no others.
#include <cairn/base/errors.h>
#include <cairn/cairn.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/tensorflow/index/object_graph.h>
#include <cairn/formats/tensorflow/index/sstable_block.h>
#include <cairn/formats/tensorflow/index/sstable_writer.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <set>

#include "tests/formats/golden.h"
#include "tests/formats/raw/raw_table.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::TempDir;

const std::string kSalvagedFolder = testing::golden("tensorflow/tensorflow-2.21.0");

// The bytes of all leaves that can be read, strings with their lengths.
std::map<std::string, Bytes> values_of(const Checkpoint& checkpoint) {
  std::map<std::string, Bytes> values;
  const TensorList tensors = checkpoint.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].error.empty()) continue;
    const auto value = try_call([&] {
      if (!tensors[i].is_string()) return testing::read_whole(checkpoint, i);
      ByteWriter out;
      for (const std::string& text : checkpoint.read_strings(i))
        out.u64(text.size()).bytes(as_bytes(text));
      return std::move(out).take();
    });
    if (value) values.emplace(tensors[i].name, value.value());
  }
  return values;
}

// A golden checkpoint whose index has small blocks.
class SmallBlocks {
 public:
  SmallBlocks(const std::string& name, std::size_t block_bytes) : prefix_(dir_ / name) {
    for (const auto& file : fs::directory_iterator(kSalvagedFolder))
      if (file.path().filename().string().starts_with(name + ".data"))
        fs::copy(file.path(), dir_.path());
    const Bytes golden = read_file(kSalvagedFolder + "/" + name + ".index");
    MemoryTarget target;
    SstableWriter writer(target, {.block_bytes = block_bytes});
    read_sstable(golden.size(), testing::reader_of(golden),
                 [&](std::string_view key, ByteView value) { writer.add(key, value); });
    writer.finish();
    index_ = target.bytes();
    put(index_);
    values_ = values_of(*open(prefix_));
    const auto read = testing::reader_of(index_);
    const Bytes handles = read_sstable_block(read_sstable_footer(index_.size(), read).index, read);
    for (SstableEntries blocks{ByteView(handles)}; blocks.next();) {
      ByteReader in(blocks.value());
      blocks_.push_back(take_sstable_handle(in, index_.size()));
    }
  }

  void put(ByteView index) const { testing::put_file(prefix_ + ".index", index); }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] const Bytes& index() const { return index_; }
  [[nodiscard]] const std::map<std::string, Bytes>& values() const { return values_; }
  [[nodiscard]] const std::vector<SstableHandle>& blocks() const { return blocks_; }
  // The tensors whose entries, and those of their slices, lie outside this block.
  [[nodiscard]] std::set<std::string> names_outside(const SstableHandle* damaged) const {
    std::set<std::string> names;
    std::set<std::string> slices_lost;
    const auto read = testing::reader_of(index_);
    for (const SstableHandle& block : blocks_) {
      const Bytes contents = read_sstable_block(block, read);
      for (SstableEntries entries{ByteView(contents)}; entries.next();) {
        const bool is_lost = damaged != nullptr && damaged->offset == block.offset;
        if (values_.contains(entries.key()) && !is_lost) names.insert(entries.key());
        // A slice key: 0, then the name, which has no zeros here.
        if (entries.key().starts_with('\0') && is_lost)
          slices_lost.insert(entries.key().substr(1, entries.key().find('\0', 1) - 1));
      }
    }
    for (const std::string& name : slices_lost) names.erase(name);
    return names;
  }

 private:
  TempDir dir_;
  std::string prefix_;
  Bytes index_;
  std::map<std::string, Bytes> values_;
  std::vector<SstableHandle> blocks_;
};

TensorflowRemains salvage_small(const SmallBlocks& bundle) {
  return salvage_tensorflow(FileTree(), bundle.prefix(), {});
}

TEST(BundleSalvage, GivesTheTensorsOfWholeBlocks) {
  for (const char* name : {"types", "split", "objects-1"}) {
    const SmallBlocks bundle(name, 120);
    ASSERT_GT(bundle.blocks().size(), 2U);
    for (std::size_t at = 0; at < bundle.index().size(); ++at) {
      SCOPED_TRACE(std::string(name) + ", byte " + std::to_string(at));
      Bytes bad = bundle.index();
      bad[at] ^= std::byte{0x10};
      bundle.put(bad);
      const SstableHandle* damaged = nullptr;
      for (const SstableHandle& block : bundle.blocks())
        if (block.offset <= at && at < block.end()) damaged = &block;
      const TensorflowRemains remains = salvage_small(bundle);
      const auto found = values_of(*remains.checkpoint);
      for (const std::string& tensor : bundle.names_outside(damaged))
        ASSERT_TRUE(found.contains(tensor)) << tensor;
      for (const auto& [tensor, value] : found) {
        ASSERT_TRUE(bundle.values().contains(tensor)) << tensor;
        ASSERT_EQ(value, bundle.values().at(tensor)) << tensor;
      }
      ASSERT_EQ(remains.lacks_names, damaged != nullptr);
      if (damaged != nullptr) {
        ASSERT_FALSE(remains.notes.empty());
      }
    }
  }
}

TEST(BundleSalvage, NamesTheTensorsThatTheObjectsOfTheProgramHave) {
  const SmallBlocks bundle("objects-1", 120);
  std::size_t named = 0;
  for (const SstableHandle& block : bundle.blocks()) {
    Bytes bad = bundle.index();
    bad[block.offset] ^= std::byte{1};
    bundle.put(bad);
    const TensorflowRemains remains = salvage_small(bundle);
    const TensorList tensors = remains.checkpoint->tensors();
    const auto graph = std::ranges::find(tensors, kObjectGraphKey, &TensorInfo::name);
    if (graph == tensors.end()) continue;
    for (const auto& [name, value] : bundle.values()) {
      const auto found = std::ranges::find(tensors, name, &TensorInfo::name);
      if (!name.ends_with(kVariableSuffix)) continue;
      ASSERT_NE(found, tensors.end()) << name;
      if (found->error.empty()) continue;
      EXPECT_THAT(found->error, HasSubstr("objects name it"));
      ++named;
    }
  }
  EXPECT_GT(named, 0U);
}

TEST(BundleSalvage, FindsTheNumberOfDataFilesAndTheByteOrderWithoutAHeader) {
  const SmallBlocks bundle("types", 1);  // each entry has a block of its own
  Bytes bad = bundle.index();
  bad[4] ^= std::byte{1};  // in the first block, which has the header
  bundle.put(bad);
  TensorflowRemains remains = salvage_small(bundle);
  EXPECT_EQ(values_of(*remains.checkpoint), bundle.values());
  EXPECT_FALSE(remains.assumes_order);
  EXPECT_TRUE(remains.lacks_names);
  EXPECT_THAT(remains.notes, ::testing::Contains(HasSubstr("byte order is little-endian")));
  // A data file of another save.
  testing::put_file(bundle.prefix() + ".data-00001-of-00002", "x");
  EXPECT_THAT([&] { salvage_small(bundle); },
              FailsWith(Code::kDataLoss, "of 00001 and of 00002 files; keep those of one"));
  fs::remove(bundle.prefix() + ".data-00001-of-00002");
  fs::remove(bundle.prefix() + ".data-00000-of-00001");
  EXPECT_THAT([&] { salvage_small(bundle); },
              FailsWith(Code::kDataLoss, "no data files are beside it"));
}

TEST(BundleSalvage, RefusesAnIndexWithoutAWholeBlock) {
  const SmallBlocks bundle("types", 1U << 20U);
  Bytes bad = bundle.index();
  bad[4] ^= std::byte{1};
  bundle.put(bad);
  EXPECT_THAT([&] { salvage_small(bundle); },
              FailsWith(Code::kDataLoss, "no block with entries is whole"));
}

TEST(BundleSalvage, LosesASliceWhoseEntryIsLost) {
  const SmallBlocks bundle("split", 1);
  std::size_t partial = 0, without = 0;
  for (const SstableHandle& block : bundle.blocks()) {
    Bytes bad = bundle.index();
    bad[block.offset + 5] ^= std::byte{1};
    bundle.put(bad);
    const TensorflowRemains remains = salvage_small(bundle);
    const TensorList tensors = remains.checkpoint->tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_FALSE(tensors[i].name.starts_with('\0')) << "a slice is not a tensor";
      without += tensors[i].error.find("slices of it are there") != std::string::npos ? 1 : 0;
      if (!tensors[i].error.empty() || tensors[i].is_string()) continue;
      const auto read = try_call([&] { return testing::read_whole(*remains.checkpoint, i); });
      if (read) continue;
      EXPECT_THAT(read.error().message(), HasSubstr("the entry of the slice in the index is lost"));
      ++partial;
    }
  }
  EXPECT_GT(partial, 1U);
  EXPECT_EQ(without, 2U) << "of the entries with the lists of slices, one at a time";
}

}  // namespace
}  // namespace cairn
