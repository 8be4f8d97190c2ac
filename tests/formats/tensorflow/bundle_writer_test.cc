// bundle_writer_test.cc -- TensorFlow checkpoints byte for byte as TensorFlow wrote them, however
// they are fetched and by however many.
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/formats/tensorflow/index/bundle_strings.h>
#include <cairn/formats/tensorflow/write/bundle_writer.h>
#include <cairn/tensorflow.h>
#include <gmock/gmock.h>

#include "tests/formats/golden.h"
#include "tests/formats/raw/raw_table.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::file_names;
using testing::golden;
using testing::MemorySource;
using testing::TempDir;

const distributed::ProcessGroup kAlone{MultiprocessingOptions()};

struct Bundle {
  std::vector<BundleSource> sources;
  std::vector<Bytes> values;  // of those that are fetched
  BundlePlan plan;

  void add(BundleSource source, Bytes bytes, std::size_t file = 0) {
    plan.resize(std::max(plan.size(), file + 1));
    plan[file].push_back({sources.size(), {}});
    sources.push_back(std::move(source));
    values.push_back(std::move(bytes));
  }
  [[nodiscard]] FetchFn fetch() const {
    std::vector<ArrayView> views;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::size_t size = bundle_type(sources[i].type)->size;
      views.push_back({values[i].data(), DType::kOpaque, size, sources[i].shape,
                       c_strides(sources[i].shape, size)});
    }
    return fetch_from(views);
  }
  std::vector<std::string> write(const std::string& prefix, const BundleWriteOptions& options = {},
                                 const distributed::ProcessGroup& group = kAlone) const {
    return write_bundle({prefix, {}}, sources, plan, fetch(), group, options);
  }
};

BundleIndex index_of(const std::string& path) {
  const Bytes table = read_file(path);
  return read_bundle_index(table.size(), testing::reader_of(table));
}

// What a golden bundle of one data file holds, in the order of the file.
Bundle golden_bundle(const std::string& prefix) {
  const Bytes data = read_file(prefix + ".data-00000-of-00001");
  struct Found {
    BundleSource source;
    BundleEntry entry;
  };
  std::vector<Found> found;
  for (const BundleTensor& tensor : index_of(prefix + ".index").tensors) {
    if (tensor.entry.slices.empty())
      found.push_back({{tensor.name, tensor.entry.dtype, tensor.entry.shape}, tensor.entry});
    for (const BundlePart& part : tensor.parts) {
      Found& slice =
          found.emplace_back(Found{{tensor.name, tensor.entry.dtype, part.box.shape}, part.entry});
      slice.source.full_shape = tensor.entry.shape;
      slice.source.origin = part.box.origin;
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::pair(a.entry.offset, a.entry.size) < std::pair(b.entry.offset, b.entry.size);
  });
  Bundle bundle;
  for (Found& one : found) {
    const ByteView bytes = ByteView(data).subspan(static_cast<std::size_t>(one.entry.offset),
                                                  static_cast<std::size_t>(one.entry.size));
    if (one.entry.dtype == kBundleString) {
      const SstableReadFn read = testing::reader_of(bytes);
      const BundleStrings strings = read_bundle_strings(
          static_cast<std::uint64_t>(element_count(one.entry.shape)), bytes.size(), false, read);
      ByteReader in(bytes.subspan(strings.start));
      for (const std::uint64_t length : strings.lengths)
        one.source.strings.emplace_back(in.text(length));
    }
    bundle.add(std::move(one.source), testing::to_bytes(bytes));
  }
  return bundle;
}

TEST(BundleWriter, WritesTheBytesOfTensorFlow) {
  const std::string folder = golden("tensorflow/tensorflow-2.21.0/");
  Bundle bundle = golden_bundle(folder + "types");
  // TensorFlow's objects are not written; the golden files may end with one.
  EXPECT_GT(bundle.sources.size(), 20U);
  for (const std::uint64_t memory : {std::uint64_t{1} << 30U, std::uint64_t{1}}) {
    const TempDir dir;
    EXPECT_THAT(bundle.write(dir / "x", {.resources = {.memory = memory}}),
                ElementsAre(dir / "x.data-00000-of-00001", dir / "x.index"));
    EXPECT_EQ(read_file(dir / "x.data-00000-of-00001"),
              read_file(folder + "types.data-00000-of-00001"));
    EXPECT_EQ(read_file(dir / "x.index"), read_file(folder + "types.index"));
  }
}

// Values of many types and sizes, strings and an empty tensor among them, in three files.
Bundle varied() {
  Bundle bundle;
  const auto pattern = [](std::size_t size, std::size_t seed) {
    MemorySource made;
    made.add_pattern("", DType::kUint8, {static_cast<std::int64_t>(size)}, seed);
    return made.values[0];
  };
  bundle.add({"a", 1, {300, 50}}, pattern(60'000, 1));
  bundle.add({"empty", 2, {3, 0}}, {}, 1);
  bundle.add({"scalar", 9, {}}, pattern(8, 2), 1);
  bundle.add({"text",
              kBundleString,
              {2, 2},
              0,
              {"", "b", std::string(3'000'000, 'x'), std::string("\0\xff", 2)}},
             {}, 2);
  bundle.add({"low", 29, {1000}}, pattern(1000, 3), 2);
  return bundle;
}

std::vector<Bytes> contents(const std::vector<std::string>& files) {
  std::vector<Bytes> bytes;
  for (const std::string& file : files) bytes.push_back(read_file(file));
  return bytes;
}

TEST(BundleWriter, IsTheSameHoweverMuchMemoryAndHoweverManyProcesses) {
  const Bundle bundle = varied();
  const TempDir dir;
  const auto want = contents(bundle.write(dir / "one"));
  EXPECT_EQ(want[2].back() & std::byte{0xf0}, std::byte{0})
      << "the high bits of 4-bit elements are zero";
  EXPECT_EQ(contents(bundle.write(dir / "small", {.resources = {.memory = 5000}})), want);
  for (const std::size_t count : {2U, 3U}) {
    std::vector<std::vector<std::string>> files(count);
    const std::string prefix = dir / ("by" + std::to_string(count));
    const auto errors =
        testing::run_as_processes(count, [&](const std::shared_ptr<Coordinator>& coordinator) {
          const distributed::ProcessGroup group({.coordinator = coordinator});
          files[coordinator->process_index()] =
              bundle.write(prefix, {.resources = {.memory = 50'000}}, group);
        });
    for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
    EXPECT_EQ(contents(files[0]), want);
    EXPECT_EQ(files[1], files[0]);
  }
  EXPECT_EQ(file_names(dir.path()).find("tmp"), std::string::npos);
}

TEST(BundleWriter, WritesPartsOfSources) {
  Bundle whole;
  Bytes values;
  for (int i = 0; i < 60; ++i) values.push_back(static_cast<std::byte>(i));
  whole.add({"w", 4, {3, 4, 5}}, values);
  std::vector<std::string> texts;
  for (int i = 0; i < 6; ++i) texts.push_back("text " + std::to_string(i));
  whole.add({"t", kBundleString, {2, 3}, 0, texts}, {});
  whole.plan = {{{0, Box{{0, 0, 0}, {3, 1, 5}}}, {1, Box{{0, 1}, {2, 2}}}},
                {{0, Box{{1, 1, 2}, {2, 3, 2}}}, {1, Box{{0, 0}, {2, 1}}}}};
  const TempDir dir;
  const auto files = whole.write(dir / "x", {.resources = {.memory = 7}});
  const BundleIndex index = index_of(files.back());
  ASSERT_EQ(index.tensors.size(), 2U);
  for (const BundleTensor& tensor : index.tensors) {
    ASSERT_EQ(tensor.parts.size(), 2U);
    for (const BundlePart& part : tensor.parts) {
      const Bytes data = read_file(files[static_cast<std::size_t>(part.entry.shard)]);
      const ByteView stored = ByteView(data).subspan(static_cast<std::size_t>(part.entry.offset),
                                                     static_cast<std::size_t>(part.entry.size));
      if (tensor.name == "t") continue;
      EXPECT_EQ(part.entry.crc32c, crc32c_masked(crc32c(stored)));
      std::size_t at = 0;
      for (std::int64_t i = 0; i < part.box.shape[0]; ++i)
        for (std::int64_t j = 0; j < part.box.shape[1]; ++j)
          for (std::int64_t k = 0; k < part.box.shape[2]; ++k)
            ASSERT_EQ(stored[at++], static_cast<std::byte>((part.box.origin[0] + i) * 20 +
                                                           (part.box.origin[1] + j) * 5 +
                                                           part.box.origin[2] + k));
    }
  }
  const Bytes second = read_file(files[1]);
  EXPECT_THAT(std::string(as_text(second)), ::testing::EndsWith("text 0text 3"));
}

TEST(BundleWriter, WritesMoreFilesThanMayBeOpen) {
  Bundle bundle;
  for (std::size_t i = 0; i < 600; ++i)
    bundle.add({"t" + std::to_string(i), 6, {2}}, {static_cast<std::byte>(i), std::byte{1}}, i);
  const TempDir dir = TempDir::in_memory();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  std::mutex mutex;
  const auto files =
      bundle.write(dir / "x", {.progress = [&](std::uint64_t done, std::uint64_t total) {
                     const std::lock_guard lock(mutex);
                     seen.emplace_back(done, total);
                   }});
  ASSERT_EQ(files.size(), 601U);
  EXPECT_EQ(files[599], dir / "x.data-00599-of-00600");
  for (const BundleTensor& tensor : index_of(files.back()).tensors) {
    const Bytes data = read_file(files[static_cast<std::size_t>(tensor.entry.shard)]);
    EXPECT_EQ("t" + std::to_string(tensor.entry.shard), tensor.name);
    EXPECT_EQ(tensor.entry.crc32c, crc32c_masked(crc32c(data)));
  }
  EXPECT_EQ(std::max_element(seen.begin(), seen.end())->first, 1200U);
  for (const auto& [done, total] : seen) EXPECT_EQ(total, 1200U);
}

TEST(BundleWriter, RefusesWhatIsNoCheckpoint) {
  const TempDir dir;
  const auto write = [&](const std::vector<BundleSource>& sources, BundlePlan plan) {
    write_bundle({dir / "x", {}}, sources, plan, [](auto) {}, kAlone, {});
  };
  const BundleSource a{"a", 4, {4}};
  BundleSource slice{"a", 4, {2}};
  slice.full_shape = {4};
  slice.origin = {2};
  EXPECT_THAT(
      [&] {
        write({a, a}, {{{0, {}}, {1, {}}}});
      },
      FailsWith(Code::kInvalidArgument, "tensor 'a': two tensors have this name"));
  EXPECT_THAT(
      [&] {
        write({a, slice}, {{{0, {}}, {1, {}}}});
      },
      FailsWith(Code::kInvalidArgument, "two tensors have this name"));
  EXPECT_THAT(
      [&] {
        write({slice, a}, {{{0, {}}, {1, {}}}});
      },
      FailsWith(Code::kInvalidArgument, "two tensors have this name"));
  EXPECT_THAT(
      [&] {
        write({slice, slice}, {{{0, {}}, {1, {}}}});
      },
      FailsWith(Code::kInvalidArgument, "two slices of it are equal"));
  EXPECT_THAT(
      [&] {
        write({{"", 4, {4}}}, {{{0, {}}}});
      },
      FailsWith(Code::kInvalidArgument, "has no name"));
  EXPECT_THAT(
      [&] {
        write({{"s", kBundleString, {2}, 0, {"one"}}}, {{{0, {}}}});
      },
      FailsWith(Code::kInvalidArgument, "1 strings"));
  EXPECT_EQ(file_names(dir.path()), "");
}

TEST(BundleWriter, LeavesNothingBehindWhenASourceFails) {
  const Bundle bundle = varied();
  const TempDir dir;
  int calls = 0;
  const FetchFn failing = [&](std::span<const TensorPiece> pieces) {
    if (++calls == 2) throw Error(Code::kDataLoss, "a: chunk 7 is damaged");
    bundle.fetch()(pieces);
  };
  EXPECT_THAT(
      [&] {
        write_bundle({dir / "x", {}}, bundle.sources, bundle.plan, failing, kAlone,
                     {.resources = {.memory = 20'000}});
      },
      FailsWith(Code::kDataLoss, "chunk 7"));
  EXPECT_EQ(file_names(dir.path()), "");
}

// ---- the public functions ----
Tree small_tree() {
  Array array = Array::allocate(DType::kFloat32, {2, 3});
  auto* values = reinterpret_cast<float*>(array.mutable_view().data);
  for (int i = 0; i < 6; ++i) values[i] = static_cast<float>(i);
  return Tree(Tree::Dict{{"w", Tree(std::move(array))},
                         {"n", Tree(Tree::List{Tree(true), Tree(std::int64_t{7}), Tree(1.5),
                                               Tree(std::complex<double>(1, 2))})},
                         {"t", Tree(std::string("text"))},
                         {"b", Tree(Bytes{std::byte{0}, std::byte{255}})}});
}

TEST(WriteTensorflow, WritesATree) {
  const TempDir dir;
  const auto files = write_tensorflow(dir / "new/folder/ckpt", small_tree());
  EXPECT_EQ(file_names(dir / "new/folder"), "checkpoint ckpt.data-00000-of-00001 ckpt.index ");
  std::map<std::string, std::pair<std::int32_t, Shape>> found;
  for (const BundleTensor& tensor : index_of(files.back()).tensors)
    found[tensor.name] = {tensor.entry.dtype, tensor.entry.shape};
  const std::string suffix = "/.ATTRIBUTES/VARIABLE_VALUE";
  EXPECT_THAT(found, ElementsAre(std::pair("_CHECKPOINTABLE_OBJECT_GRAPH", std::pair(7, Shape())),
                                 std::pair("b" + suffix, std::pair(7, Shape())),
                                 std::pair("n/0" + suffix, std::pair(10, Shape())),
                                 std::pair("n/1" + suffix, std::pair(9, Shape())),
                                 std::pair("n/2" + suffix, std::pair(2, Shape())),
                                 std::pair("n/3" + suffix, std::pair(18, Shape())),
                                 std::pair("save_counter" + suffix, std::pair(9, Shape())),
                                 std::pair("t" + suffix, std::pair(7, Shape())),
                                 std::pair("w" + suffix, std::pair(1, Shape{2, 3}))));
}

TEST(WriteTensorflow, RefusesWhatTensorFlowHasNothingFor) {
  const TempDir dir;
  const auto refuses = [&](const Tree& tree, const char* text) {
    EXPECT_THAT([&] { write_tensorflow(dir / "x", tree); },
                FailsWith(Code::kInvalidArgument, text));
  };
  refuses(Tree(Tree::Dict{{"a", Tree()}}), "a: TensorFlow cannot store this leaf");
  refuses(Tree(Tree::Dict{{"a", Tree(Placeholder())}}), "a: TensorFlow cannot store this leaf");
  refuses(Tree(Tree::Dict{{"a", Tree(Tree::Dict{})}}), "a: TensorFlow cannot store this leaf");
  refuses(Tree(Tree::Dict{{"a", Tree(Array::allocate(DType::kFloat8E3m4, {2}))}}),
          "TensorFlow has no element type for float8_e3m4");
  refuses(Tree(Tree::Dict{{"\xff", Tree(true)}}), "not UTF-8");
  EXPECT_THAT([&] { write_tensorflow(dir / "x", {}, [](auto) {}, {.object_graph = false}); },
              FailsWith(Code::kInvalidArgument, "there is no tensor"));
  for (const char* folder : {"/", "/.", "/..", "/x/"})
    EXPECT_THAT([&] { write_tensorflow(dir.path() + folder, small_tree()); },
                FailsWith(Code::kInvalidArgument, "names a folder"))
        << folder;
  EXPECT_THAT([&] { write_tensorflow("..", small_tree()); },
              FailsWith(Code::kInvalidArgument, "'..' names a folder"));
  EXPECT_EQ(file_names(dir.path()), "");
}

TEST(WriteTensorflow, KeysAreEscaped) {
  EXPECT_EQ(
      tensorflow_key({{"a/b", KeyType::kDict}, {"0", KeyType::kSequence}, {"..x", KeyType::kDict}}),
      "a.Sb/0/....x/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(tensorflow_key({}), "/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(tensorflow_dtype(DType::kFloat16), "half");
  EXPECT_EQ(tensorflow_dtype(DType::kFloat8E8m0fnu), std::nullopt);
  EXPECT_EQ(tensorflow_dtype(DType::kOpaque), std::nullopt);
}

}  // namespace
}  // namespace cairn
