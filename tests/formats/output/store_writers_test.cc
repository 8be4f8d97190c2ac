// store_writers_test.cc -- files of each format are written to a store: the bytes are those of
// local files. The store fails at every request, or two saves write at once: readers find the old
// checkpoint, the new one, or an error.
#include <cairn/array/box.h>
#include <cairn/cairn.h>
#include <cairn/formats/output/write_to_place.h>
#include <cairn/io/file.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/faulty_store.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::FaultyStore;
using testing::ForwardingStore;
using testing::StoreFault;
using testing::TempDir;

constexpr std::int64_t kStoredTensors = 3;
constexpr std::chrono::milliseconds kNoLease{0};
constexpr std::chrono::milliseconds kLease{120'000};

struct StoredCase {
  const char* name;
  const char* file;
  int old_files, new_files;
  bool has_beside = false;  // files beside the tensors
};
void PrintTo(const StoredCase& c, std::ostream* out) { *out << c.name; }

const StoredCase kStoredCases[] = {
    {"npz", "m.npz", 1, 1},
    {"msgpack", "m.msgpack", 1, 1},
    {"safetensors", "m.safetensors", 1, 1},
    {"safetensors_set", "m.safetensors", 3, 3},
    {"safetensors_fewer", "m.safetensors", 3, 2},
    {"safetensors_set_to_one", "m.safetensors", 3, 1},
    {"safetensors_one_to_set", "m.safetensors", 1, 3},
    {"tensorflow", "m", 1, 1},
    {"tensorflow_set", "m", 3, 3},
    {"tensorflow_fewer", "m", 3, 2},
    {"torch", "m.pt", 1, 1},
    {"safetensors_beside", "m.safetensors", 1, 1, true},
    {"safetensors_set_beside", "m.safetensors", 3, 2, true},
};

bool ends(const StoredCase& c, const char* ending) {
  return std::string_view(c.file).ends_with(ending);
}

struct StoredSave {
  std::int64_t number = 1;  // all values of all tensors
  int files = 1;
  IfExists if_exists = IfExists::kReplace;
  std::int64_t elements = 40;
  std::function<void()> during = {};  // called once, while values are fetched
};

void write(const StoredCase& c, const OutputPlace& place, const StoredSave& save) {
  const std::vector<std::int64_t> values(save.elements, save.number);
  const ArrayView view =
      make_view(std::as_bytes(std::span(values)), DType::kInt64, {save.elements});
  const FetchFn from_memory = fetch_from(std::vector<ArrayView>(kStoredTensors, view));
  bool is_called = false;
  const FetchFn fetch = [&](std::span<const TensorPiece> pieces) {
    if (save.during && !std::exchange(is_called, true)) save.during();
    from_memory(pieces);
  };
  std::vector<TensorSource> tensors;
  std::vector<TensorFlowSource> keys;
  Tree::Dict dict;
  for (std::size_t i = 0; i < kStoredTensors; ++i) {
    tensors.push_back({"t" + std::to_string(i), DType::kInt64, {save.elements}, 0});
    TensorFlowSource& key = keys.emplace_back();
    key.key = tensors.back().name;
    key.dtype = DType::kInt64;
    key.shape = {save.elements};
    key.device = "/job:w/task:" + std::to_string(i % static_cast<std::size_t>(save.files));
    dict.emplace_back(tensors.back().name, Tree(SourceLeaf{.index = i}));
  }
  if (ends(c, ".npz")) return write_npz(place, tensors, fetch, {.if_exists = save.if_exists});
  if (ends(c, ".pt"))
    return write_torch(place, Tree(std::move(dict)), tensors, fetch, {.if_exists = save.if_exists});
  if (ends(c, ".msgpack"))
    return write_msgpack(place, Tree(std::move(dict)), tensors, fetch,
                         {.if_exists = save.if_exists});
  if (ends(c, ".safetensors")) {
    SafetensorsWriteOptions options{.if_exists = save.if_exists};
    const auto bytes = static_cast<std::uint64_t>(save.elements) * 8;
    if (save.files > 1) options.max_shard_bytes = save.files == 3 ? bytes : 2 * bytes;
    if (c.has_beside)
      options.beside = {{"config.json", std::to_string(save.number)}, {"tokenizer.json", ""}};
    write_safetensors(place, tensors, fetch, options);
    return;
  }
  TensorFlowWriteOptions options;
  options.if_exists = save.if_exists;
  options.object_graph = false;
  write_tensorflow(place, keys, fetch, options);
}

// A store of this test alone, in which saves write.
struct TestStore {
  TestStore() : url("memory://store_writers_" + std::to_string(stores++)) {}
  [[nodiscard]] StorePtr open() const { return open_store(url); }
  [[nodiscard]] OutputPlace place(const StoredCase& c,
                                  std::chrono::milliseconds lease = kLease) const {
    return {open(), url, c.file, lease};
  }
  [[nodiscard]] std::string file(const StoredCase& c, int files) const {
    const bool is_set = files > 1 && ends(c, ".safetensors");
    return url + "/" + c.file + (is_set ? ".index.json" : "");
  }
  [[nodiscard]] std::map<std::string, Bytes> values() const {
    std::map<std::string, Bytes> all;
    for (const ListEntry& entry : open()->list("")) all[entry.key] = *open()->read(entry.key, {});
    return all;
  }
  static inline int stores = 0;
  std::string url;
};

// The number of a checkpoint all of whose values are equal.
std::int64_t stored_number(const std::string& url) {
  const Tree tree = load(url);
  std::optional<std::int64_t> number;
  for (const TreeEntry& entry : flatten(tree)) {
    const Array& array = *entry.value.array();
    for (std::size_t i = 0; i < array.bytes().size(); i += sizeof(std::int64_t)) {
      std::int64_t value = 0;
      std::memcpy(&value, array.bytes().data() + i, sizeof(value));
      if (number && *number != value)
        ADD_FAILURE() << url << " holds a mixture of " << *number << " and " << value;
      number = value;
    }
  }
  return number.value();
}

class StoreWritersTest : public ::testing::TestWithParam<StoredCase> {};

TEST_P(StoreWritersTest, WritesTheBytesOfLocalFiles) {
  const StoredCase& c = GetParam();
  const TempDir dir;
  const TestStore store;
  for (const int files : {c.old_files, c.new_files}) {
    write(c, OutputPlace(dir.path() + "/" + c.file, {}), {.files = files});
    write(c, store.place(c), {.files = files});
    std::map<std::string, Bytes> local;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
      local[entry.path().filename().string()] = read_file(entry.path().string());
    EXPECT_EQ(store.values(), local);
    EXPECT_EQ(stored_number(store.file(c, files)), 1);
  }
}

TEST_P(StoreWritersTest, RefusesWhatExists) {
  const StoredCase& c = GetParam();
  const TestStore store;
  write(c, store.place(c), {.files = c.old_files});
  const auto before = store.values();
  EXPECT_THAT(
      [&] {
        write(c, store.place(c), {.number = 2, .files = c.new_files, .if_exists = IfExists::kFail});
      },
      FailsWith(Code::kAlreadyExists, "already exists"));
  EXPECT_EQ(store.values(), before);
}

TEST_P(StoreWritersTest, RefusesFolders) {
  const StoredCase& c = GetParam();
  const TestStore store;
  const std::string name = c.new_files > 1 && ends(c, ".safetensors") ? "m.safetensors.index.json"
                           : ends(c, "m")                             ? "m.index"
                                                                      : c.file;
  store.open()->write(name + "/x", as_bytes("x"));
  EXPECT_THAT([&] { write(c, store.place(c), {.files = c.new_files}); },
              FailsWith(Code::kAlreadyExists, "is a folder"));
}

// The store fails from one request on, for good, as when the process is killed; or one request
// fails, whether it has taken effect or not.
TEST_P(StoreWritersTest, FailingRequestsNeverLeaveAMixture) {
  const StoredCase& c = GetParam();
  for (const StoreFault kind :
       {StoreFault{.lasts = true, .reads = true},
        StoreFault{.lasts = true, .reads = true, .happens = true}, StoreFault{.reads = true},
        StoreFault{.reads = true, .happens = true}}) {
    bool failed = true;
    for (int n = 0; failed; ++n) {
      SCOPED_TRACE(n);
      ASSERT_LT(n, 200);
      const TestStore store;
      write(c, store.place(c), {.number = 1, .files = c.old_files});
      StoreFault fault = kind;
      fault.operation = n;
      const auto faulty = std::make_shared<FaultyStore>(store.open(), fault);
      const auto saved = try_call([&] {
        write(c, OutputPlace(faulty, store.url, c.file, kLease),
              {.number = 2, .files = c.new_files});
        return true;
      });
      failed = faulty->failed();
      if (!failed) {
        EXPECT_TRUE(saved.ok());
      }
      for (const int files : {c.old_files, c.new_files}) {
        const auto number = try_call([&] { return stored_number(store.file(c, files)); });
        if (number.ok()) {
          EXPECT_THAT(number.value(), ::testing::AnyOf(1, 2));
        } else {
          EXPECT_THAT(number.error().code(),
                      ::testing::AnyOf(Code::kFailedPrecondition, Code::kNotFound))
              << number.error().message();
        }
        if (saved.ok() && files == c.new_files) {
          EXPECT_EQ(stored_number(store.file(c, files)), 2);
        }
        if (c.has_beside && files == c.new_files && number.ok() && number.value() == 2) {
          EXPECT_EQ(as_text(ByteView(store.values().at("config.json"))), "2");
        }
      }
      write(c, store.place(c, kNoLease), {.number = 3, .files = c.new_files});
      EXPECT_EQ(stored_number(store.file(c, c.new_files)), 3);
    }
  }
}

TEST_P(StoreWritersTest, AnErrorOfTheSourceKeepsTheOldCheckpoint) {
  const StoredCase& c = GetParam();
  const TestStore store;
  write(c, store.place(c), {.files = c.old_files});
  const auto before = store.values();
  const auto fail = [] { throw Error(Code::kDataLoss, "the source is damaged"); };
  EXPECT_THAT(
      [&] { write(c, store.place(c), {.number = 2, .files = c.new_files, .during = fail}); },
      FailsWith(Code::kDataLoss, "the source is damaged"));
  EXPECT_EQ(store.values(), before);
}

TEST_P(StoreWritersTest, OneOfTwoNewSavesWins) {
  const StoredCase& c = GetParam();
  const TestStore store;
  const bool is_set = c.new_files > 1 || ends(c, "m");
  const auto save = [&](std::int64_t number, std::function<void()> during) {
    write(c, store.place(c),
          {.number = number,
           .files = c.new_files,
           .if_exists = IfExists::kFail,
           .during = std::move(during)});
  };
  const auto other = [&] { save(2, {}); };
  if (is_set) {
    // The index is taken from the beginning.
    save(1, [&] {
      EXPECT_THAT(other, FailsWith(Code::kAlreadyExists, "in progress, or was interrupted"));
      EXPECT_THAT([&] { open(store.file(c, c.new_files)); },
                  FailsWith(Code::kFailedPrecondition, "save that is in progress"));
    });
  } else {
    EXPECT_THAT([&] { save(1, other); }, FailsWith(Code::kAlreadyExists, "already exists"));
  }
  EXPECT_EQ(stored_number(store.file(c, c.new_files)), is_set ? 1 : 2);
}

TEST_P(StoreWritersTest, OneOfTwoReplacingSavesWins) {
  const StoredCase& c = GetParam();
  if (c.new_files == 1 && !ends(c, "m")) return;  // one file: the last one wins
  const TestStore store;
  const auto save = [&](std::int64_t number, std::chrono::milliseconds lease,
                        std::function<void()> during) {
    write(c, store.place(c, lease),
          {.number = number, .files = c.new_files, .during = std::move(during)});
  };
  save(1, kLease, {});
  save(2, kLease, [&] {
    EXPECT_THAT([&] { save(3, kLease, {}); },
                FailsWith(Code::kUnavailable, "another save to it was at work"));
  });
  EXPECT_EQ(stored_number(store.file(c, c.new_files)), 2);
  // The mark is old: the save that takes over wins, and the one that still lives finds it out.
  EXPECT_THAT([&] { save(4, kLease, [&] { save(5, kNoLease, {}); }); },
              FailsWith(Code::kUnavailable, "another save to it has begun meanwhile"));
  EXPECT_EQ(stored_number(store.file(c, c.new_files)), 5);
}

INSTANTIATE_TEST_SUITE_P(Formats, StoreWritersTest, ::testing::ValuesIn(kStoredCases),
                         [](const auto& each) { return std::string(each.param.name); });

// ---- files beside the tensors ----

// Remembers the keys in the order in which they get their values.
class RecordingStore : public ForwardingStore {
 public:
  explicit RecordingStore(StorePtr base) : ForwardingStore(std::move(base)) {}
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }

  void write(std::string_view key, ByteView value) override {
    keys_.emplace_back(key);
    ForwardingStore::write(key, value);
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    keys_.emplace_back(key);
    return ForwardingStore::replace_if(key, expected, value);
  }

 private:
  std::vector<std::string> keys_;
};

TEST(StoreWriters, FilesBesideTheTensorsComeBeforeTheIndex) {
  for (const StoredCase& c : kStoredCases) {
    if (!c.has_beside) continue;
    SCOPED_TRACE(c.name);
    const TestStore store;
    const auto recording = std::make_shared<RecordingStore>(store.open());
    write(c, OutputPlace(recording, store.url, c.file, kLease),
          {.files = c.new_files, .if_exists = IfExists::kFail});
    EXPECT_EQ(recording->keys().back(),
              c.new_files > 1 ? "m.safetensors.index.json" : "m.safetensors");
    EXPECT_THAT(recording->keys(), ::testing::IsSupersetOf({"config.json", "tokenizer.json"}));
  }
}

TEST(StoreWriters, FilesBesideTheTensorsHaveNamesInTheirFolder) {
  const TestStore store;
  for (const char* name : {"", ".", "..", "a/b", "model.safetensors.index.json"})
    EXPECT_THAT(
        [&] {
          write_safetensors(store.place(kStoredCases[2]), {}, {}, {.beside = {{name, "x"}}});
        },
        FailsWith(Code::kInvalidArgument, "is not a name of a file beside safetensors files"));
  EXPECT_TRUE(store.values().empty());
}

// ---- large files ----

TEST(StoreWriters, LargeFilesAreAppended) {
  const std::int64_t elements = (std::int64_t{17} << 20) / 8;
  for (const StoredCase& c : {kStoredCases[0], kStoredCases[1], kStoredCases[2], kStoredCases[3]}) {
    SCOPED_TRACE(c.name);
    const TestStore store;
    const StoredSave save{.files = c.new_files, .if_exists = IfExists::kFail, .elements = elements};
    write(c, store.place(c), save);
    EXPECT_EQ(stored_number(store.file(c, c.new_files)), 1);
    EXPECT_THAT([&] { write(c, store.place(c), save); },
                FailsWith(Code::kAlreadyExists, "already exists"));
  }
}

TEST(StoreWriters, OfTwoLargeNewFilesOneWins) {
  const std::int64_t elements = (std::int64_t{17} << 20) / 8;
  const StoredCase& c = kStoredCases[2];
  const TestStore store;
  const auto other = [&] {
    write(c, store.place(c), {.number = 2, .if_exists = IfExists::kFail, .elements = elements});
  };
  EXPECT_THAT(
      [&] {
        write(c, store.place(c),
              {.if_exists = IfExists::kFail, .elements = elements, .during = other});
      },
      FailsWith(Code::kAlreadyExists, "already exists"));
  EXPECT_EQ(stored_number(store.file(c, 1)), 2);
}

// ---- what the store lists ----

// Loses the end of what is written.
class CuttingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    const bool is_data = value.size() > 100;
    return ForwardingStore::replace_if(key, expected,
                                       is_data ? value.first(value.size() - 1) : value);
  }
};

TEST(StoreWriters, SizesAreCompared) {
  for (const StoredCase& c : {kStoredCases[2], kStoredCases[3], kStoredCases[8]}) {
    SCOPED_TRACE(c.name);
    const TestStore store;
    const auto cutting = std::make_shared<CuttingStore>(store.open());
    EXPECT_THAT(
        [&] {
          write(c, OutputPlace(cutting, store.url, c.file, kLease),
                {.files = c.new_files, .if_exists = IfExists::kFail});
        },
        FailsWith(Code::kDataLoss, "but the store lists"));
    EXPECT_TRUE(store.values().empty());
  }
}

// ---- places ----

TEST(StoreWriters, ReadOnlyAndIncompleteUrlsAreRefused) {
  for (const char* url : {"http://h/m.npz", "https://h/m.npz", "hf://o/n/m.npz"})
    EXPECT_THAT([&] { write_npz(url, {}, {}, {}); },
                FailsWith(Code::kUnimplemented, "can only be read"));
  for (const char* url : {"s3://bucket", "memory://NAME", "s3://bucket/m.npz/"})
    EXPECT_THAT([&] { write_npz(url, {}, {}, {}); },
                FailsWith(Code::kInvalidArgument, "the name of the file to write is missing"));
}

TEST(StoreWriters, AnArchiveWhoseArraysChangeIsRefused) {
  const TestStore store;
  std::int64_t value = 0;
  const FetchFn fetch = [&](std::span<const TensorPiece> pieces) {
    ++value;
    for (const TensorPiece& piece : pieces) std::memcpy(piece.out.data(), &value, piece.out.size());
  };
  EXPECT_THAT(
      [&] {
        write_npz(store.url + "/m.npz", {{"a", DType::kInt64, {1}, 0}}, fetch, {});
      },
      FailsWith(Code::kUnavailable, "has changed while it was written"));
  EXPECT_TRUE(store.values().empty());
}

TEST(StoreWriters, TheStateFileOfTensorFlowKeepsWhatOthersWrote) {
  const TestStore store;
  const StoredCase& c = kStoredCases[7];
  write(c, store.place(c), {});
  write(c, OutputPlace(store.open(), store.url, "n", kLease), {.number = 2});
  const std::string state(as_text(store.values().at("checkpoint")));
  EXPECT_EQ(state,
            "model_checkpoint_path: \"n\"\nall_model_checkpoint_paths: \"m\"\n"
            "all_model_checkpoint_paths: \"n\"\n");
  EXPECT_EQ(stored_number(store.url), 2);
}

}  // namespace
}  // namespace cairn
