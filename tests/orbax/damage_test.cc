// damage_test.cc -- every file of a small checkpoint of each layout, truncated at every length and
// with every single bit flipped. Opening and reading everything must give exactly the saved bytes
// or a cairn::Error: no crash, no hang, and no other bytes wherever a checksum covers the damaged
// place. verify must then find what reading found.
#include <cairn/cairn.h>
#include <cairn/storage/kvstore.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/sanitizers.h"

namespace {

namespace fs = std::filesystem;
using cairn::Bytes;

// Instrumented builds are many times slower and look at a sample; the plain build looks at
// everything.
#ifdef NDEBUG
constexpr std::size_t kSample = cairn::testing::kSanitized ? 41 : 1;
#else
constexpr std::size_t kSample = 41;
#endif
constexpr unsigned kHangSeconds = 60;  // one attempt takes about a millisecond

fs::path golden() { return fs::path(CAIRN_GOLDEN_DIR) / "orbax" / "orbax-0.12.8"; }

// What a checkpoint says: for every leaf its kind, type, shape and bytes.
using Contents = std::map<std::string, std::string>;

std::unique_ptr<cairn::Checkpoint> open_one_thread(const fs::path& path) {
  cairn::OpenOptions options;
  options.resources.threads = 1;
  return cairn::open(path.string(), options);
}

Contents read_all(const fs::path& path) {
  const auto checkpoint = open_one_thread(path);
  Contents contents;
  const auto& tensors = checkpoint->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& t = tensors[i];
    auto& text = contents[t.name];
    text = t.typestr + " " + t.dtype_name + cairn::shape_text(t.shape) + " ";
    if (t.is_string()) text += checkpoint->read_string(i);
    if (t.is_array()) text += cairn::as_text(checkpoint->read(t.name).bytes());
  }
  return contents;
}

Bytes read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto bytes = cairn::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

// In place: a file that is cut to nothing first and then written again is flushed to the disk by
// some file systems.
void write_file(const fs::path& path, cairn::ByteView bytes) {
  if (!fs::exists(path)) std::ofstream{path};
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto text = cairn::as_text(bytes);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
  fs::resize_file(path, bytes.size());
}

// A copy of a golden checkpoint that goes away with the test.
class Copy {
 public:
  explicit Copy(const std::string& name)
      : root_(fs::temp_directory_path() /
              ("cairn-damage-" + name + "-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::copy(golden() / name, root_, fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(root_))
      if (entry.is_regular_file()) files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  [[nodiscard]] const fs::path& root() const { return root_; }
  [[nodiscard]] const std::vector<fs::path>& files() const { return files_; }

 private:
  fs::path root_;
  std::vector<fs::path> files_;
};

// Byte ranges of files that hold the values of an OCDBT database: only these have no checksum of
// the database's own.
struct ValueRanges {
  std::vector<cairn::Location> ranges;
  std::vector<fs::path> databases;

  explicit ValueRanges(const Copy& copy) {
    for (const auto& file : copy.files()) {
      if (file.filename() != "manifest.ocdbt") continue;
      databases.push_back(file.parent_path());
      const auto store = cairn::open_ocdbt(cairn::open_file_store(file.parent_path().string()));
      for (const auto& entry : store->list(""))
        if (const auto where = store->locate(entry.key)) ranges.push_back(*where);
    }
  }
  // Whether a checksum covers this byte: everything of a database that is not a value, and the
  // index of a shard.
  [[nodiscard]] bool covered(const fs::path& file, std::size_t offset, bool zarr3) const {
    const bool in_database =
        file.filename() == "manifest.ocdbt" || file.parent_path().filename() == "d";
    if (!in_database) return false;
    return std::none_of(ranges.begin(), ranges.end(), [&](const cairn::Location& r) {
      const auto end = r.offset + r.length - (zarr3 ? 20 : 0);
      return fs::equivalent(r.file, file) && offset >= r.offset && offset < end;
    });
  }
};

enum class Outcome { kSame, kError, kOther };

Outcome attempt(const fs::path& root, const Contents& expected) {
  ::alarm(kHangSeconds);  // a hang ends the program, loudly
  try {
    return read_all(root) == expected ? Outcome::kSame : Outcome::kOther;
  } catch (const cairn::Error& error) {
    EXPECT_FALSE(error.message().empty());
    return Outcome::kError;
  }
}

// What reading refused, verifying must not call good: a changed name may be that of a codec that
// nobody knows.
void expect_verify_agrees(const fs::path& root, const std::string& what) {
  try {
    EXPECT_NE(open_one_thread(root)->verify({}).verdict(), cairn::Verdict::kGood)
        << what << ": refused when read, passed by verify";
  } catch (const cairn::Error&) {  // refusing to open is a report
  }
}

// A hostile length must not make a reader ask for more memory than this.
void limit_memory() {
  if (cairn::testing::kSanitized) return;  // their shadow takes terabytes of addresses
  const rlimit limit{std::uint64_t{4} << 30U, RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}

class Damage : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { limit_memory(); }
  void TearDown() override { ::alarm(0); }

  const std::string name_ = GetParam();
  const bool zarr3_ = name_.find("zarr3") != std::string::npos || name_ == "tiny_v1";
  const Copy copy_{name_};
  const Contents expected_ = read_all(copy_.root());
  const ValueRanges values_{copy_};
};

TEST_P(Damage, TruncatedFilesAreNoticed) {
  std::size_t errors = 0;
  for (const auto& file : copy_.files()) {
    const Bytes good = read_file(file);
    for (std::size_t n = 0; n < good.size(); n += kSample) {
      write_file(file, cairn::ByteView(good).first(n));
      const auto what = file.string() + " truncated to " + std::to_string(n) + " of " +
                        std::to_string(good.size()) + " bytes";
      const auto outcome = attempt(copy_.root(), expected_);
      EXPECT_NE(outcome, Outcome::kOther) << what;
      if (outcome == Outcome::kError && ++errors % 7 == 0) expect_verify_agrees(copy_.root(), what);
    }
    write_file(file, good);
  }
  EXPECT_GT(errors, 0U);
  EXPECT_EQ(attempt(copy_.root(), expected_), Outcome::kSame);
}

TEST_P(Damage, FlippedBitsAreNoticedWhereAChecksumCoversThem) {
  std::size_t errors = 0;
  for (const auto& file : copy_.files()) {
    const Bytes good = read_file(file);
    for (std::size_t bit = 0; bit < 8 * good.size(); bit += kSample) {
      Bytes bad = good;
      bad[bit / 8] ^= std::byte{1} << (bit % 8);
      write_file(file, bad);
      const auto what = file.string() + ": bit " + std::to_string(bit % 8) + " of byte " +
                        std::to_string(bit / 8);
      const auto outcome = attempt(copy_.root(), expected_);
      if (outcome == Outcome::kOther) {
        EXPECT_FALSE(values_.covered(file, bit / 8, zarr3_)) << what << " changed what was read";
      }
      if (outcome == Outcome::kError && ++errors % 97 == 0)
        expect_verify_agrees(copy_.root(), what);
    }
    write_file(file, good);
  }
  EXPECT_GT(errors, 0U);
}

TEST_P(Damage, MissingFilesAreNoticed) {
  // Before _METADATA said that every chunk is stored, a missing one stood for the fill value.
  const bool chunks_are_promised = name_.starts_with("tiny_");
  for (const auto& file : copy_.files()) {
    const Bytes good = read_file(file);
    fs::remove(file);
    const auto outcome = attempt(copy_.root(), expected_);
    // Without either of these, names come from the database or the folders, which do not tell
    // kinds.
    const bool names = file.filename() == "_METADATA" || file.filename() == "checkpoint";
    if (!names && chunks_are_promised) {
      EXPECT_NE(outcome, Outcome::kOther) << file << " removed";
    }
    if (outcome == Outcome::kError) expect_verify_agrees(copy_.root(), file.string() + " removed");
    write_file(file, good);
  }
}

// The layouts: databases and folders, both Zarr versions, compressed and raw, a step root, version
// 1, the legacy files.
INSTANTIATE_TEST_SUITE_P(Layouts, Damage,
                         testing::Values("tiny_ocdbt_zarr2", "tiny_ocdbt_zarr3", "tiny_ocdbt_raw",
                                         "tiny_files_zarr2", "tiny_files_zarr3", "tiny_files_raw",
                                         "tiny_manager", "tiny_v1", "legacy_files",
                                         "legacy_all_inside", "no_metadata_ocdbt"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
