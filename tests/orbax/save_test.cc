// save_test.cc -- trees saved and loaded again in every layout; what is refused; what a crash and a
// replacement leave behind.
#include <cairn/cairn.h>
#include <cairn/codec/zstd_frame.h>
#include <cairn/io/file.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/open.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

namespace fs = std::filesystem;
using cairn::testing::FailsWith;
using cairn::testing::put_file;
using cairn::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tree array_of(DType dtype, Shape shape, int seed) {
  Array array = Array::allocate(dtype, std::move(shape));
  std::byte* data = array.mutable_view().data;
  for (std::size_t i = 0; i < array.bytes().size(); ++i)
    data[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(seed)) % 2);
  return Tree(std::move(array));
}

// Every kind of leaf and node; keys that are no words.
Tree small_tree() {
  return Tree(Tree::Dict{{"b", array_of(DType::kBfloat16, {3, 5}, 1)},
                         {"empty", Tree(Tree::Dict{})},
                         {"list", Tree(Tree::List{Tree(std::int64_t{7}), Tree(2.5), Tree(true),
                                                  Tree(std::string("t\u00e9xt")), Tree()})},
                         {"not a word 'of' \"any\"\n", array_of(DType::kInt4, {4}, 2)},
                         {"placeholder", Tree(Placeholder{})},
                         {"scalar", array_of(DType::kFloat32, {}, 3)},
                         {"zero", array_of(DType::kInt16, {0, 3}, 0)}});
}

bool same(const Tree& a, const Tree& b);
bool same_value(const Array& a, const Array& b) { return testing::same_array(a, b); }
template <class T>
bool same_value(const T& a, const T& b) {
  return a == b;
}
bool same_value(const Tree::List& a, const Tree::List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}
bool same_value(const Tree::Dict& a, const Tree::Dict& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same(x.second, y.second);
  });
}
bool same_value(const Tree::Tuple& a, const Tree::Tuple& b) { return same_value(a.items, b.items); }
bool same_value(const Tree::NamedTuple& a, const Tree::NamedTuple& b) {
  return a.name == b.name && same_value(a.fields, b.fields);
}
bool same_value(const CustomLeaf& a, const CustomLeaf& b) {
  return a.get<int>() != nullptr && *a.get<int>() == *b.get<int>();
}
bool same(const Tree& a, const Tree& b) {
  // A container without children and the empty node it is saved as are the same.
  const auto is_empty = [](const Tree& t) {
    return (t.dict() && t.dict()->empty()) || (t.list() && t.list()->empty());
  };
  if (is_empty(a) || is_empty(b))
    return flatten(a).front().value.value().index() == flatten(b).front().value.value().index();
  return a.value().index() == b.value().index() &&
         std::visit(
             [&](const auto& x) {
               return same_value(x, std::get<std::decay_t<decltype(x)>>(b.value()));
             },
             a.value());
}

struct SavedLayout {
  const char* name;
  SaveOptions options;
};
void PrintTo(const SavedLayout& layout, std::ostream* out) { *out << layout.name; }

SaveOptions with(bool ocdbt, bool zarr3, std::optional<std::string> item = {}, bool v1 = false) {
  SaveOptions options;
  options.use_ocdbt = ocdbt;
  options.use_zarr3 = zarr3;
  options.item = std::move(item);
  options.v1 = v1;
  return options;
}

class Save : public ::testing::TestWithParam<SavedLayout> {};

TEST_P(Save, ComesBackTheSame) {
  const TempDir dir;
  for (const Compression compression :
       {Compression(), Compression(Compression::kNone), Compression(Compression::kSmallest),
        Compression(Compression::kReproducible), Compression::zstd(5), Compression::blosc()}) {
    SaveOptions options = GetParam().options;
    options.compression = compression;
    options.if_exists = IfExists::kReplace;
    options.custom_metadata = R"({"k": [1, 2]})";
    options.item_metadata = "[3]";
    save(dir / "ckpt", small_tree(), options);
    const auto opened = open(dir / "ckpt");
    EXPECT_TRUE(same(opened->load(), small_tree()));
    EXPECT_EQ(opened->info().custom_metadata, R"({"k":[1,2]})");
    EXPECT_THAT(opened->info().item_metadata,
                ElementsAre(std::pair(options.item.value_or(""), "[3]")));
    const VerifyReport report = opened->verify({});
    EXPECT_FALSE(report.damaged());
    const bool checksums = compression.method != Compression::kNone &&
                           compression.method != Compression::Method::kBlosc;
    // Inline in a database, small values are covered by its checksums.
    EXPECT_EQ(report.unprotected.empty(), checksums || options.use_ocdbt);
  }
  EXPECT_THAT(list_directory(dir.path()).folders, ElementsAre("ckpt"));
}

TEST_P(Save, CutsIntoChunksAndFiles) {
  const TempDir dir;
  SaveOptions options = GetParam().options;
  options.chunk_bytes = 96;
  options.target_file_bytes = 512;
  options.resources.threads = 3;
  const Tree tree(Tree::Dict{{"w", array_of(DType::kFloat32, {16, 24}, 1)},
                             {"x", array_of(DType::kUint8, {1000}, 5)}});
  save(dir / "ckpt", tree, options);
  const auto opened = open(dir / "ckpt");
  EXPECT_TRUE(same(opened->load(), tree));
  const auto& chunk = opened->info("w").chunk_shape;
  EXPECT_LE(chunk[0] * chunk[1] * 4, 96);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Save,
                         ::testing::Values(SavedLayout{"orbax", with(true, false)},
                                           SavedLayout{"zarr3", with(true, true)},
                                           SavedLayout{"files", with(false, false)},
                                           SavedLayout{"files3", with(false, true)},
                                           SavedLayout{"item", with(true, false, "default")},
                                           SavedLayout{"v1", with(true, true, "state", true)}),
                         [](const auto& layout) { return layout.param.name; });

// Elements that look like bfloat16 weights: the upper bytes repeat, the lower ones are random.
Tree weights(std::int64_t count) {
  Array array = Array::allocate(DType::kUint16, {count});
  std::mt19937 bits(7);
  std::byte* data = array.mutable_view().data;
  for (std::size_t i = 0; i < array.bytes().size(); i += 2) {
    data[i] = static_cast<std::byte>(bits());
    data[i + 1] = static_cast<std::byte>(0x3c + bits() % 4);
  }
  return Tree(std::move(array));
}

std::uint64_t stored_bytes(const std::string& path) {
  std::uint64_t sum = 0;
  const auto checkpoint = open(path);
  for (const TensorInfo& tensor : checkpoint->tensors()) sum += tensor.stored_nbytes;
  return sum;
}

TEST(SaveTree, ReproducibleAndSmallestDoNotDependOnTime) {
  const TempDir dir;
  const Tree tree(Tree::Dict{{"small", weights(5000)}, {"w", weights(1 << 20)}});
  SaveOptions options;
  int reports = 0;
  options.observer = [&](const Event& event) { reports += event.name == "save.compression"; };
  options.compression = Compression::kReproducible;
  save(dir / "a", tree, options);
  options.resources.threads = 1;
  save(dir / "b", tree, options);
  options.compression = Compression::kSmallest;
  save(dir / "c", tree, options);
  EXPECT_EQ(reports, 0);
  const std::uint64_t whole = 2 * (5000 + (1U << 20U));
  EXPECT_EQ(stored_bytes(dir / "a"), stored_bytes(dir / "b"));
  EXPECT_LT(stored_bytes(dir / "a"), whole * 3 / 4);
  EXPECT_LT(stored_bytes(dir / "c"), whole * 3 / 4);
  // Bytes without any pattern become raw blocks.
  Array noise = Array::allocate(DType::kUint8, {300'000});
  std::mt19937 bits(8);
  for (std::size_t i = 0; i < noise.bytes().size(); ++i)
    noise.mutable_view().data[i] = static_cast<std::byte>(bits());
  save(dir / "d", Tree(std::move(noise)), options);
  EXPECT_LE(stored_bytes(dir / "d"), raw_zstd_frame_size(300'000));
}

Tree noise(std::int64_t count) {
  Array array = Array::allocate(DType::kUint8, {count});
  std::mt19937 bits(9);
  for (std::size_t i = 0; i < array.bytes().size(); ++i)
    array.mutable_view().data[i] = static_cast<std::byte>(bits());
  return Tree(std::move(array));
}

// In Zarr v3, the elements of an array choose its codecs, and not the speed of the store.
TEST(SaveTree, Zarr3StoresWhatDoesNotShrinkWithACrc32c) {
  const Tree tree(Tree::Dict{{"noise", noise(300'000)},
                             {"scalar", array_of(DType::kFloat32, {}, 3)},
                             {"w", weights(1 << 18)},
                             {"zero", array_of(DType::kInt16, {0, 3}, 0)}});
  constexpr const char* kZstd = R"({"configuration":{"checksum":false,"level":3},"name":"zstd"})";
  constexpr const char* kCrc32c = R"({"name":"crc32c"}],"index_codecs":)";
  const struct {
    Compression compression;
    bool has_crc32c;
  } kCases[] = {{{}, true},
                {Compression::kReproducible, true},
                {Compression::kSmallest, false},
                {Compression::zstd(3), false},
                {Compression::kNone, false}};
  for (const auto& of : kCases) {
    const TempDir dir;
    SaveOptions options = with(false, true);
    options.compression = of.compression;
    save(dir / "a", tree, options);
    EXPECT_TRUE(same(load(dir / "a"), tree));
    for (const char* name : {"noise", "scalar", "w", "zero"}) {
      const bool has_crc32c = of.has_crc32c && name[0] == 'n';  // the others shrink or are small
      const Bytes metadata = read_file(dir / "a" + "/" + name + "/zarr.json");
      const std::string text(as_text(metadata));
      EXPECT_EQ(text.find(kCrc32c) != std::string::npos, has_crc32c) << text;
      EXPECT_EQ(text.find(kZstd) != std::string::npos,
                !has_crc32c && of.compression.method != Compression::kNone)
          << text;
    }
    // the elements, a crc32c, and the shard's index with another one
    if (of.has_crc32c) {
      EXPECT_EQ(fs::file_size(dir / "a" + "/noise/c/0"), 300'000U + 4 + 20);
    }
  }
}

TEST(SaveTree, ReportsArraysWithACrc32cAsIncompressible) {
  const TempDir dir;
  std::map<std::string, std::int64_t, std::less<>> sizes;
  SaveOptions options = with(true, true);
  options.observer = [&](const Event& event) {
    if (event.name != "save.compression") return;
    for (const EventAttribute& attribute : event.attributes)
      if (const auto* number = std::get_if<std::int64_t>(&attribute.value))
        sizes.emplace(attribute.name, *number);
  };
  save(dir / "ckpt", noise(3'000'000), options);
  EXPECT_EQ(sizes["incompressible_bytes"], 3'000'000);
  EXPECT_EQ(sizes["compressed_bytes"] + sizes["raw_bytes"], 0);
}

TEST(SaveTree, ReportsWhatWasCompressed) {
  const TempDir dir;
  std::map<std::string, std::int64_t, std::less<>> sizes;
  std::string reason;
  SaveOptions options;
  options.observer = [&](const Event& event) {
    if (event.name != "save.compression") return;
    for (const EventAttribute& attribute : event.attributes) {
      if (const auto* number = std::get_if<std::int64_t>(&attribute.value))
        sizes.emplace(attribute.name, *number);
      if (attribute.name == "reason") reason = std::get<std::string_view>(attribute.value);
    }
  };
  Array zeros = Array::allocate(DType::kFloat32, {1 << 20});
  std::fill_n(zeros.mutable_view().data, zeros.bytes().size(), std::byte{0});
  save(dir / "ckpt", Tree(Tree::Dict{{"w", weights(1 << 20)}, {"z", Tree(std::move(zeros))}}),
       options);
  EXPECT_EQ(sizes["compressed_bytes"] + sizes["raw_bytes"], 6 << 20);
  EXPECT_EQ(sizes["incompressible_bytes"], 0);
  EXPECT_THAT(reason, HasSubstr("the store "));
  EXPECT_THAT(reason, HasSubstr(" compress"));
}

TEST(SaveTree, BareLeavesAndTreesWithoutArrays) {
  const TempDir dir;
  for (const Tree& tree : {array_of(DType::kFloat32, {4}, 1), Tree(std::string("only text")),
                           Tree(Tree::List{Tree(), Tree(Tree::Dict{})})}) {
    SaveOptions options;
    options.if_exists = IfExists::kReplace;
    save(dir / "ckpt", tree, options);
    EXPECT_TRUE(same(load(dir / "ckpt"), tree));
  }
  EXPECT_FALSE(file_exists(dir / "ckpt/manifest.ocdbt"));
}

TEST(SaveTree, RefusesBeforeItWritesAnything) {
  const TempDir dir;
  const auto refused = [&](const Tree& tree, const SaveOptions& options) {
    save(dir / "ckpt", tree, options);
  };
  const Tree leaf(std::int64_t{1});
  const Tree twice(Tree::Dict{{"a.b", leaf}, {"a", Tree(Tree::Dict{{"b", leaf}})}});
  EXPECT_THAT([&] { refused(twice, {}); }, FailsWith(Code::kInvalidArgument, "'a.b'"));
  const Tree tilde(Tree::Dict{{"a~b", Tree(std::string("x"))}});
  EXPECT_THAT([&] { refused(tilde, {}); }, FailsWith(Code::kInvalidArgument, "'a~b'"));
  const Tree nested(Tree::Dict{{"a", Tree(std::string("x"))}, {"a/b", Tree(std::string("y"))}});
  EXPECT_THAT([&] { refused(nested, {}); }, FailsWith(Code::kInvalidArgument, "'a/b'"));
  const Tree broken(Tree::Dict{{"\xff", leaf}});
  EXPECT_THAT([&] { refused(broken, {}); }, FailsWith(Code::kInvalidArgument, "UTF-8"));
  const Tree opaque(Tree::Dict{{"o", Tree(Array::allocate(DType::kOpaque, 3, {2}))}});
  EXPECT_THAT([&] { refused(opaque, {}); },
              FailsWith(Code::kUnimplemented, "o: cannot write arrays of opaque"));
  const Tree bytes(Tree::Dict{{"o", Tree(Bytes(3))}});
  EXPECT_THAT([&] { refused(bytes, {}); },
              FailsWith(Code::kInvalidArgument, "o: bytes cannot be stored"));
  const Tree complex(Tree::Dict{{"o", Tree(std::complex<double>(1, 2))}});
  EXPECT_THAT(
      [&] { refused(complex, {}); },
      FailsWith(Code::kInvalidArgument, "'o': no type handler is registered for the type complex"));
  const Tree unknown(Tree::Dict{{"o", Tree(CustomLeaf::of(1))}});
  EXPECT_THAT([&] { refused(unknown, {}); },
              FailsWith(Code::kInvalidArgument, "'o': no type handler is registered"));
  SaveOptions options;
  options.v1 = true;
  EXPECT_THAT([&] { refused(leaf, options); }, FailsWith(Code::kInvalidArgument, "item"));
  options = {};
  options.item = "a/b";
  EXPECT_THAT([&] { refused(leaf, options); }, FailsWith(Code::kInvalidArgument, "'a/b'"));
  options = {};
  options.chunk_bytes = 4;
  EXPECT_THAT([&] { refused(leaf, options); }, FailsWith(Code::kInvalidArgument, ""));
  options = {};
  for (const char* text : {"{", "[1]", "null"}) {
    options = {};
    options.custom_metadata = text;
    EXPECT_THAT([&] { refused(leaf, options); },
                FailsWith(Code::kInvalidArgument, "the checkpoint's custom metadata"));
  }
  for (const char* text : {"{", "null"}) {
    options = {};
    options.item_metadata = text;
    EXPECT_THAT([&] { refused(leaf, options); },
                FailsWith(Code::kInvalidArgument, "the item metadata"));
  }
  EXPECT_THAT([&] { save("", leaf, {}); }, FailsWith(Code::kInvalidArgument, "empty"));
  EXPECT_THAT([&] { save("/", leaf, {}); }, FailsWith(Code::kInvalidArgument, "root"));
  EXPECT_THAT([&] { save("http://127.0.0.1:1/x", leaf, {}); },
              FailsWith(Code::kUnimplemented, "read"));
  EXPECT_THAT([&] { save(dir / "x.orbax-checkpoint-tmp", leaf, {}); },
              FailsWith(Code::kInvalidArgument, "unfinished"));
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(SaveTree, ReplacesOnlyCheckpoints) {
  const TempDir dir;
  const Tree one(std::int64_t{1});
  const Tree two(std::int64_t{2});
  SaveOptions replace;
  replace.if_exists = IfExists::kReplace;
  save(dir / "ckpt", one, {});
  EXPECT_THAT([&] { save(dir / "ckpt", two, {}); }, FailsWith(Code::kAlreadyExists, "ckpt"));
  EXPECT_TRUE(same(load(dir / "ckpt"), one));
  save(dir / "ckpt", two, replace);
  EXPECT_TRUE(same(load(dir / "ckpt"), two));
  put_file(dir / "home/letter.txt", as_bytes("dear"));
  EXPECT_THAT([&] { save(dir / "home", two, replace); },
              FailsWith(Code::kAlreadyExists, "without the files of a checkpoint"));
  EXPECT_THAT([&] { save(dir / "home/letter.txt", two, replace); },
              FailsWith(Code::kAlreadyExists, "is a file"));
  EXPECT_TRUE(file_exists(dir / "home/letter.txt"));
  fs::create_directory(dir / "empty");
  save(dir / "empty/", two, replace);
  EXPECT_TRUE(same(load(dir / "empty"), two));
  EXPECT_THAT(list_directory(dir.path()).folders, ElementsAre("ckpt", "empty", "home"));
}

TEST(SaveTree, NamesTheFileThatCannotBeWritten) {
  const TempDir dir;
  put_file(dir / "file", as_bytes("x"));
  EXPECT_THAT([&] { save(dir / "file/ckpt", Tree(std::int64_t{1}), {}); },
              FailsWith(Code::kIo, "file"));
}

TEST(SaveTree, SavesBelowALinkedFolder) {
  const TempDir dir;
  fs::create_directory(dir / "real");
  fs::create_directory_symlink(dir / "real", dir / "link");
  for (const bool replaces : {false, true}) {
    save(dir / "link/ckpt", small_tree(),
         {.if_exists = replaces ? IfExists::kReplace : IfExists::kFail});
    EXPECT_TRUE(same(open(dir / "real/ckpt")->load(), small_tree()));
    EXPECT_THAT(list_directory(dir / "real").folders, ElementsAre("ckpt"));
  }
  fs::create_directory_symlink(dir / "real/ckpt", dir / "linked");
  save(dir / "linked/below/ckpt", Tree(std::int64_t{1}));
  EXPECT_TRUE(fs::exists(dir / "real/ckpt/below/ckpt"));
}

TEST(PendingDirectory, RemovesWhatACrashHasLeft) {
  const TempDir dir;
  put_file(dir / "ckpt.orbax-checkpoint-tmp/_sharding", as_bytes("x"));
  {
    const PendingDirectory pending(dir / "ckpt", IfExists::kFail);
    EXPECT_EQ(pending.path(), dir / "ckpt.orbax-checkpoint-tmp");
    EXPECT_TRUE(fs::is_empty(pending.path()));
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));  // not committed
}

TEST(PendingDirectory, LeavesWhatIsNotACheckpoints) {
  const TempDir dir;
  put_file(dir / "ckpt.orbax-checkpoint-tmp/precious", as_bytes("x"));
  EXPECT_THAT([&] { PendingDirectory(dir / "ckpt", IfExists::kReplace); },
              FailsWith(Code::kAlreadyExists, "precious"));
  EXPECT_TRUE(fs::exists(dir / "ckpt.orbax-checkpoint-tmp/precious"));
}

TEST(PendingDirectory, RefusesASecondSaveToOnePath) {
  const TempDir dir;
  const PendingDirectory pending(dir / "ckpt", IfExists::kFail);
  EXPECT_THAT([&] { PendingDirectory(dir / "ckpt", IfExists::kReplace); },
              FailsWith(Code::kUnavailable, "another save to this path"));
  EXPECT_TRUE(fs::exists(pending.path()));
}

TEST(PendingDirectory, IsLeftAloneByCleanWhateverItsName) {
  const TempDir dir;
  for (const char* name :
       {"ckpt", "x.safetensors", "x-00001-of-00002.safetensors", "x.data-00000-of-00001"}) {
    const PendingDirectory pending(dir / name, IfExists::kFail);
    for (const CleanMode mode : {CleanMode::kShow, CleanMode::kRemove})
      for (const CleanedPath& cleaned : clean_leftovers(dir.path(), {.mode = mode}))
        EXPECT_TRUE(cleaned.outcome == CleanOutcome::kInUse || !fs::is_directory(cleaned.path))
            << cleaned.path;
    EXPECT_TRUE(fs::exists(pending.path())) << name;
  }
}

// A killed deletion of one item leaves the file that it was writing.
TEST(Clean, RemovesTheFilesOfADeletion) {
  const TempDir dir;
  save(dir / "run/1", Tree{{"x", 1}}, {.item = "state", .v1 = true});
  const std::string left = dir / "run/1/.orbax-delete-ab12cd34";
  testing::put_file(left, "{");
  testing::put_file(dir / "run/.orbax-delete-mine", "somebody's");  // not in a checkpoint
  for (const char* path : {"run", "run/1"}) {
    testing::put_file(left, "{");
    const auto shown = clean_leftovers(dir / path, {.mode = CleanMode::kShow});
    ASSERT_EQ(shown.size(), 1U);
    EXPECT_EQ(shown.front().path, left);
    EXPECT_EQ(shown.front().bytes, 1U);
    EXPECT_TRUE(fs::exists(left));
    ASSERT_EQ(clean_leftovers(dir / path).size(), 1U);
    EXPECT_FALSE(fs::exists(left));
  }
  EXPECT_TRUE(fs::exists(dir / "run/.orbax-delete-mine"));
  EXPECT_EQ(load(dir / "run/1"), (Tree{{"x", 1}}));
  // The whole checkpoint is replaced with it.
  testing::put_file(left, "{");
  save(dir / "run/1", Tree{{"x", 2}}, {.if_exists = IfExists::kReplace});
  EXPECT_EQ(load(dir / "run/1"), (Tree{{"x", 2}}));
  EXPECT_FALSE(fs::exists(left));
}

// A deletion that runs holds a lock on the file.
TEST(Clean, LeavesTheFileOfADeletionInProgress) {
  const TempDir dir;
  save(dir / "run/1", Tree{{"x", 1}}, {.item = "state", .v1 = true});
  const std::string left = dir / "run/1/.orbax-delete-ab12cd34";
  testing::put_file(left, "{");
  const int fd = ::open(left.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  for (const CleanMode mode : {CleanMode::kShow, CleanMode::kRemove})
    EXPECT_EQ(clean_leftovers(dir / "run", {.mode = mode}).at(0).outcome, CleanOutcome::kInUse);
  EXPECT_TRUE(fs::exists(left));
  ::close(fd);
  EXPECT_EQ(clean_leftovers(dir / "run").at(0).outcome, CleanOutcome::kRemoved);
}

// A temporary folder is one, whatever its name begins with.
TEST(Clean, RefusesAForeignFileInASaveNamedLikeADeletion) {
  const TempDir dir;
  save(dir / "run/1", Tree{{"x", 1}}, {.item = "state", .v1 = true});
  const std::string left = dir / "run/1/.orbax-delete-x.orbax-checkpoint-tmp";
  fs::create_directories(left);
  testing::put_file(left + "/notes.txt", "somebody's");
  const auto cleaned = clean_leftovers(dir / "run");
  ASSERT_EQ(cleaned.size(), 1U);
  EXPECT_EQ(cleaned.front().outcome, CleanOutcome::kRefused);
  EXPECT_TRUE(fs::exists(left + "/notes.txt"));
  fs::remove(left + "/notes.txt");
  ASSERT_EQ(clean_leftovers(dir / "run").size(), 1U);
  EXPECT_FALSE(fs::exists(left));
}

TEST(PendingDirectory, NoticesThatItsDirectoryWasReplaced) {
  const TempDir dir;
  PendingDirectory pending(dir / "ckpt", IfExists::kFail);
  fs::remove_all(pending.path());
  fs::create_directory(pending.path());
  EXPECT_THAT([&] { pending.commit(); },
              FailsWith(Code::kFailedPrecondition, "was removed or replaced"));
  EXPECT_FALSE(fs::exists(dir / "ckpt"));
}

TEST(PendingDirectory, BringsBackWhatAReplacementHadSetAside) {
  const TempDir dir;
  save(dir / "ckpt", Tree(std::int64_t{1}), {});
  fs::rename(dir / "ckpt", dir / "ckpt.orbax-checkpoint-tmp-old");
  EXPECT_THAT([&] { PendingDirectory(dir / "ckpt", IfExists::kFail); },
              FailsWith(Code::kAlreadyExists, "ckpt"));
  EXPECT_TRUE(same(load(dir / "ckpt"), Tree(std::int64_t{1})));
  EXPECT_THAT(list_directory(dir.path()).folders, ElementsAre("ckpt"));
}

TEST(PendingDirectory, OneOfTwoCommitsWins) {
  const TempDir dir;
  PendingDirectory pending(dir / "ckpt", IfExists::kFail);
  put_file(pending.path() + "/file", as_bytes("late"));
  put_file(dir / "ckpt/file", as_bytes("first"));
  EXPECT_THAT([&] { pending.commit(); }, FailsWith(Code::kAlreadyExists, "ckpt"));
  EXPECT_EQ(as_text(read_file(dir / "ckpt/file")), "first");
}

// An array's folder may lie in that of another one; see test_folders_in_folders, which compares
// the same names with Orbax.
TEST(Save, AFolderInPlaceOfAFileIsRefusedBeforeAnythingIsWritten) {
  const Shape one{4};
  const Shape two{2, 3};
  const Shape none;
  const struct {
    bool zarr3;
    Shape outer;
    std::string inner, file;  // "": allowed
  } kCases[] = {{false, one, "x/0", "0"},
                {false, one, "x/0/z", "0"},
                {false, one, "x/7", ""},
                {false, one, "x/y", ""},
                {false, one, "x/0.0", ""},
                {false, one, "x/c/0", ""},
                {false, two, "x/0.0", "0.0"},
                {false, two, "x/0", ""},
                {false, none, "x/0", "0"},
                {false, one, "x/.zarray", ".zarray"},
                {false, one, "x/.zarray/y", ".zarray"},
                {false, one, "x/zarr.json", ""},
                {true, one, "x/c/0", "c/0"},
                {true, one, "x/c/1", ""},
                {true, one, "x/c", ""},
                {true, one, "x/0", ""},
                {true, two, "x/c/0", ""},
                {true, two, "x/c/0/0/q", "c/0/0"},
                {true, none, "x/c", "c"},
                {true, none, "x/c/q", "c"},
                {true, one, "x/zarr.json", "zarr.json"},
                {true, one, "x/.zarray", ""}};
  for (const auto& c : kCases) {
    const TempDir dir = TempDir::in_memory();
    const Tree tree{{"x", array_of(DType::kFloat32, c.outer, 1)},
                    {c.inner, array_of(DType::kFloat32, {2}, 2)}};
    SaveOptions options;
    options.use_ocdbt = false;
    options.use_zarr3 = c.zarr3;
    const std::string what = c.inner + " in " + shape_text(c.outer);
    if (c.file.empty()) {
      save_orbax(dir / "a", tree, options);
      const auto saved = open(dir / "a");
      EXPECT_EQ(saved->load(), tree) << what;
      EXPECT_EQ(verify(dir / "a").verdict(true), Verdict::kGood) << what;
      for (const TensorInfo& tensor : saved->tensors())
        EXPECT_GT(tensor.stored_nbytes, 0U) << tensor.name << " of " << what;
      continue;
    }
    EXPECT_THAT([&] { save_orbax(dir / "a", tree, options); },
                FailsWith(Code::kInvalidArgument, "the folder of the parameter '" + c.inner +
                                                      "' would take the place of the file '" +
                                                      c.file + "' of the parameter 'x'"))
        << what;
    EXPECT_TRUE(fs::is_empty(dir.path())) << what;
    options.use_ocdbt = true;
    save_orbax(dir / "a", tree, options);
    EXPECT_EQ(open(dir / "a")->load(), tree) << what;
  }
}

TEST(Save, NamesThatNoFolderCanHaveAreRefusedBeforeAnythingIsWritten) {
  SaveOptions options;
  options.use_ocdbt = false;
  for (const char* name : {"x//0", "x/./0", "../x", "/x"}) {
    const TempDir dir = TempDir::in_memory();
    const Tree tree{{"a", array_of(DType::kFloat32, {2}, 1)},
                    {name, array_of(DType::kFloat32, {2}, 2)}};
    EXPECT_THAT(
        [&] { save_orbax(dir / "a", tree, options); },
        FailsWith(Code::kInvalidArgument, "the parameter name '" + std::string(name) + "' has "))
        << name;
    EXPECT_TRUE(fs::is_empty(dir.path())) << name;
  }
}

}  // namespace
}  // namespace cairn::orbax
