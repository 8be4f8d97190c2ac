// Every file of a small database cut at every length, and every bit of it flipped: what is read is
// exactly what was written, or there is an error that names a place. Nothing covers the bytes of
// out-of-line values, so only those may change unnoticed.
#include <cairn/storage/kvstore.h>
#include <gtest/gtest.h>

#include "tests/ocdbt/support.h"
#include "tests/support/damage.h"

namespace cairn::ocdbt {
namespace {

using Items = std::map<std::string, std::string>;

class DamagedDatabase : public ::testing::TestWithParam<std::string> {
 protected:
  DamagedDatabase() {
    const auto golden = open_file_store(testing::golden_path(GetParam()));
    for (const auto& entry : golden->list(""))
      base_->write(entry.key, golden->read(entry.key, {}).value());
    whole_ = testing::contents(*open_ocdbt(base_));
  }
  // Nullopt: an Error, which names something.
  std::optional<Items> read() {
    try {
      return testing::contents(*open_ocdbt(base_));
    } catch (const Error& e) {
      EXPECT_NE(e.message().find("memory://"), std::string::npos) << e.message();
      return std::nullopt;
    }
  }
  void expect_whole_or_error(const std::string& what) {
    const auto items = read();
    EXPECT_EQ(items.value_or(whole_), whole_) << what;
  }
  // The bytes that hold values of the newest version.
  std::map<std::string, std::vector<bool>> value_bytes() {
    const auto store = open_ocdbt(open_file_store(testing::golden_path(GetParam())));
    const std::string root = testing::golden_path(GetParam()) + "/";
    std::map<std::string, std::vector<bool>> found;
    for (const auto& [key, value] : whole_)
      if (const auto location = store->locate(key)) {
        auto& bytes = found[location->file.substr(root.size())];
        bytes.resize(std::max<std::size_t>(bytes.size(), location->offset + location->length));
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(location->offset), location->length,
                    true);
      }
    return found;
  }

  StorePtr base_ = make_memory_store();
  Items whole_;
};

TEST_P(DamagedDatabase, EveryTruncation) {
  for (const auto& entry : base_->list("")) {
    const Bytes good = base_->read(entry.key, {}).value();
    cairn::testing::for_each_truncation(good, [&](ByteView bad, const std::string& what) {
      base_->write(entry.key, bad);
      expect_whole_or_error(entry.key + " " + what);
    });
    base_->write(entry.key, good);
  }
}

TEST_P(DamagedDatabase, EveryFile) {
  for (const auto& entry : base_->list("")) {
    const Bytes good = base_->read(entry.key, {}).value();
    base_->remove(entry.key);
    // A database without manifest.ocdbt is an empty one; a numbered one without its newest state is
    // the one before.
    if (!entry.key.starts_with("manifest.")) expect_whole_or_error(entry.key + " removed");
    base_->write(entry.key, good);
  }
}

TEST_P(DamagedDatabase, EveryBit) {
  const auto values = value_bytes();
  for (const auto& entry : base_->list("")) {
    const Bytes good = base_->read(entry.key, {}).value();
    const auto at = values.find(entry.key);
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      if (at != values.end() && bit / 8 < at->second.size() && at->second[bit / 8]) continue;
      base_->write(entry.key, cairn::testing::with_bit_flipped(good, bit));
      expect_whole_or_error(entry.key + " bit " + std::to_string(bit));
    }
    base_->write(entry.key, good);
  }
}

INSTANTIATE_TEST_SUITE_P(TensorStore, DamagedDatabase,
                         ::testing::Values("plain", "merged", "fast_zstd", "emptied"),
                         [](const auto& database) { return database.param; });

}  // namespace
}  // namespace cairn::ocdbt
