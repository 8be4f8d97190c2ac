// bundle_reader_test.cc -- checkpoints that TensorFlow wrote, opened in every way they can be
// named; tensors whole, in part, in slices and in place; and what is damaged, cut short or missing.
#include <cairn/array/box.h>
#include <cairn/cairn.h>
#include <cairn/formats/tensorflow/read/bundle_locate.h>
#include <cairn/inspect.h>
#include <cairn/tensor_source.h>
#include <cairn/tensorflow.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/formats/golden.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::from_hex;
using testing::from_latin1;
using ::testing::HasSubstr;

const std::string kFolder = testing::golden("tensorflow/tensorflow-2.21.0");

void flatten_strings(const Json& json, std::vector<std::string>& out) {
  if (const auto* list = json.as_array()) {
    for (const Json& one : *list) flatten_strings(one, out);
    return;
  }
  out.push_back(from_latin1(*json.as_string()));
}

// All that a file of make_golden.py's says of a checkpoint.
void expect_values(const Checkpoint& checkpoint, const Json& expect) {
  for (const auto& [spelled, facts] : *expect.as_object()) {
    SCOPED_TRACE(spelled);
    const std::size_t i = checkpoint.index(from_latin1(spelled));
    const TensorInfo& info = checkpoint.tensors()[i];
    const auto& list = *facts.as_array();
    Shape shape;
    for (const Json& extent : *list[1].as_array()) shape.push_back(*extent.as_int64());
    EXPECT_EQ(info.shape, shape);
    if (info.is_string()) {
      if (list[2].as_array() == nullptr && list[2].as_string() == nullptr) continue;
      std::vector<std::string> strings;
      flatten_strings(list[2], strings);
      EXPECT_EQ(checkpoint.read_strings(i), strings);
      continue;
    }
    EXPECT_EQ(testing::read_whole(checkpoint, i), from_hex(*list[2].as_string()));
  }
}

TEST(BundleReader, ReadsEveryTypeAsTensorFlowDoes) {
  const auto checkpoint = open(kFolder + "/types");
  EXPECT_EQ(checkpoint->info().format, "tensorflow");
  expect_values(*checkpoint, testing::golden_json("tensorflow/tensorflow-2.21.0/types.json"));
  const TensorInfo& qint = checkpoint->info("qint16");
  EXPECT_EQ(qint.dtype, DType::kOpaque);
  EXPECT_EQ(qint.dtype_name, "qint16");
  EXPECT_EQ(checkpoint->read_string(checkpoint->index("text")), "hello");
  EXPECT_THAT(checkpoint->read_strings(checkpoint->index("texts")),
              ElementsAre("", std::string(300, 'a'), std::string("\0\xff", 2), "x"));
  EXPECT_TRUE(checkpoint->read_strings(checkpoint->index("no texts")).empty());
  EXPECT_FALSE(checkpoint->verify({}).damaged());
  EXPECT_TRUE(checkpoint->verify({}).unprotected.empty());
}

TEST(BundleReader, PutsSlicesTogetherAcrossFiles) {
  const auto checkpoint = open(kFolder + "/split");
  expect_values(*checkpoint, testing::golden_json("tensorflow/tensorflow-2.21.0/split.json"));
  const std::size_t a = checkpoint->index("a");
  Array whole = checkpoint->read("a");
  for (std::int64_t row = 0; row < 5; ++row) {
    for (std::int64_t column = 0; column < 7; ++column) {
      const Box box{{row, column}, {5 - row, 7 - column}};
      Array part = Array::allocate(DType::kFloat32, 4, box.shape);
      const ReadRequest request{a, box, part.mutable_view()};
      checkpoint->read({&request, 1}, {});
      Array expect = Array::allocate(DType::kFloat32, 4, box.shape);
      copy_elements(subview(whole.view(), box), expect.mutable_view());
      EXPECT_EQ(testing::to_bytes(part.bytes()), testing::to_bytes(expect.bytes()))
          << box_text(box);
    }
  }
  EXPECT_FALSE(checkpoint->try_view(a)) << "it lies in pieces";
  EXPECT_EQ(checkpoint->info("a").chunk_shape.size(), 2U);
}

TEST(BundleReader, ReadsWhatIsThereOfAPartialTensor) {
  const auto checkpoint = open(kFolder + "/slices");
  const Bytes w = testing::read_whole(*checkpoint, checkpoint->index("w"));
  EXPECT_EQ(as_text(ByteView(w)).size(), 4800U);
  const std::size_t cube = checkpoint->index("cube");
  EXPECT_THAT([&] { testing::read_whole(*checkpoint, cube); },
              FailsWith(Code::kDataLoss, "cube: its slices hold 8 of the 60 elements"));
  Array part = Array::allocate(DType::kInt32, 4, {4, 1, 2});
  const ReadRequest request{cube, {{0, 1, 3}, {4, 1, 2}}, part.mutable_view()};
  checkpoint->read({&request, 1}, {});
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(reinterpret_cast<const std::int32_t*>(part.bytes().data())[i], 1);
  const VerifyReport report = checkpoint->verify({});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].tensor, "cube");
}

TEST(BundleReader, ReadsTheSlicesWhoseFilesAreThere) {
  const testing::TempDir dir;
  const testing::MemorySource values = [] {
    testing::MemorySource made;
    made.add_pattern("w", DType::kUint8, {6, 100}, 1);
    return made;
  }();
  std::vector<TensorFlowSource> sources = {{.key = "w", .dtype = DType::kUint8, .shape = {6, 100}}};
  const auto policy = std::make_shared<MaxShardSizePolicy>(100);
  const std::vector<ArrayView> views = {make_view(values.values[0], DType::kUint8, {6, 100})};
  write_tensorflow(dir / "x", sources, fetch_from(views),
                   {.like = TensorFlowWriteOptions::Like::kWrite,
                    .object_graph = false,
                    .sharding_callback = policy});
  std::filesystem::remove(dir / "x.data-00001-of-00006");
  std::filesystem::resize_file(dir / "x.data-00004-of-00006", 99);
  Bytes damaged = read_file(dir / "x.data-00005-of-00006");
  damaged[50] ^= std::byte{1};
  testing::put_file(dir / "x.data-00005-of-00006", damaged);

  const auto checkpoint = open(dir / "x");
  const auto read_row = [&](std::int64_t row, std::int64_t rows = 1) {
    Array part = Array::allocate(DType::kUint8, 1, {rows, 100});
    const ReadRequest request{0, {{row, 0}, {rows, 100}}, part.mutable_view()};
    checkpoint->read({&request, 1}, {});
    const auto from = values.values[0].begin() + row * 100;
    EXPECT_EQ(testing::to_bytes(part.bytes()), Bytes(from, from + rows * 100));
  };
  const CheckpointInfo info = checkpoint->info();
  ASSERT_EQ(info.missing.size(), 1U);
  EXPECT_EQ(info.missing[0].path, dir / "x.data-00001-of-00006");
  EXPECT_EQ(info.missing[0].record, dir / "x.index");
  EXPECT_EQ(info.warnings.back(), info.missing[0].text);
  // The variable cannot be read whole.
  EXPECT_TRUE(open(dir / "x", {.allow_missing = true})->tensors().empty());
  read_row(0);
  read_row(2, 2);
  EXPECT_THAT([&] { read_row(0, 2); },
              FailsWith(Code::kDataLoss, "x.data-00001-of-00006: no such file"));
  EXPECT_THAT([&] { read_row(4); },
              FailsWith(Code::kDataLoss, "its bytes 0 to 100 are beyond the end of " +
                                             dir / "x.data-00004-of-00006"));
  EXPECT_THAT([&] { read_row(5); }, FailsWith(Code::kDataLoss, "x.data-00005-of-00006, byte 0"));
  // All that is wrong, not the first alone.
  const VerifyReport report = checkpoint->verify({});
  ASSERT_EQ(report.findings.size(), 3U);
  for (const Finding& finding : report.findings) EXPECT_EQ(finding.tensor, "w");
}

TEST(BundleReader, KnowsTheProgramsObjects) {
  const auto checkpoint = open(kFolder);
  expect_values(*checkpoint, testing::golden_json("tensorflow/tensorflow-2.21.0/objects.json"));
  EXPECT_EQ(checkpoint->info().path, kFolder + "/objects-1");
  EXPECT_EQ(checkpoint->info().step, 1);
  const std::string tree = render_tree(*checkpoint, Paint::kPlain);
  EXPECT_THAT(tree, HasSubstr("├── kernel  float32 (3, 4)"));
  EXPECT_THAT(tree, HasSubstr("shared  → model/layer1"));
  EXPECT_THAT(tree, HasSubstr("itself  → model"));
  EXPECT_THAT(tree, HasSubstr("a/b.c"));
  EXPECT_THAT(tree, HasSubstr("m of model/layer1/kernel  float32 (3, 4)"));
  EXPECT_THAT(tree, HasSubstr("table-keys  strings (1,)"));
  EXPECT_THAT(tree, HasSubstr("save_counter  int64 ()"));
}

TEST(BundleReader, DrawsTheKeysWhereTheObjectsAreDamaged) {
  const testing::TempDir dir;
  const auto copied = [&](const std::string& name) {
    fs::copy_file(kFolder + "/" + name, dir.path() + "/" + name);
    return dir.path() + "/" + name;
  };
  copied("objects-1.index");
  const std::string data = copied("objects-1.data-00000-of-00001");
  Bytes bytes = read_file(data);
  const ByteView name = as_bytes("layer1");
  const auto at = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
  ASSERT_NE(at, bytes.end());
  *at ^= std::byte{1};
  testing::put_file(data, as_text(bytes));
  const std::string tree = render_tree(*open(dir.path() + "/objects-1"), Paint::kPlain);
  EXPECT_THAT(tree,
              HasSubstr("the program's objects cannot be read: _CHECKPOINTABLE_OBJECT_GRAPH: "));
  EXPECT_THAT(tree, HasSubstr("save_counter  int64 ()"));
}

TEST(BundleReader, FindsTensorsByEveryNameTheyHave) {
  const auto checkpoint = open(kFolder);
  const std::size_t kernel = checkpoint->index("model/layer1/kernel/.ATTRIBUTES/VARIABLE_VALUE");
  for (const char* name : {"model/layer1/kernel", "model/shared/kernel", "model.shared.kernel",
                           "model/itself/itself/layer1/kernel"})
    EXPECT_EQ(checkpoint->index(name), kernel) << name;
  EXPECT_EQ(checkpoint->index("model/named/a.Sb..c/bias"),
            checkpoint->index("model/named/a.Sb..c/bias/.ATTRIBUTES/VARIABLE_VALUE"));
  EXPECT_EQ(checkpoint->index("model.blocks.1.bias"), checkpoint->index("model/blocks/1/bias"));
  EXPECT_THAT([&] { static_cast<void>(checkpoint->index("model/layer9")); },
              FailsWith(Code::kNotFound, "no tensor is named"));
}

TEST(BundleReader, HasATreeWithoutLossWhereVariablesHaveSlots) {
  const auto checkpoint = open(kFolder);
  const KeyPath& kernel = checkpoint->info("model/layer1/kernel/.ATTRIBUTES/VARIABLE_VALUE").path;
  EXPECT_EQ(path_text(kernel), "['model']['layer1']['kernel']['.ATTRIBUTES']['VARIABLE_VALUE']")
      << "its slots are below it";
  EXPECT_EQ(path_text(checkpoint->info("model/named/a.Sb..c/bias").path),
            "['model']['named']['a/b.c']['bias']");
  EXPECT_EQ(flatten(checkpoint->load()).size(), checkpoint->tensors().size() + 3)
      << "of an array of four strings each is a leaf";
}

TEST(BundleReader, OpensHoweverItIsNamed) {
  const auto opens = [&](const std::string& path) { return open(path)->info().path; };
  EXPECT_EQ(opens(kFolder + "/split.index"), kFolder + "/split");
  EXPECT_EQ(opens(kFolder + "/split.data-00003-of-00005"), kFolder + "/split");
  EXPECT_EQ(opens(kFolder + "/checkpoint"), kFolder + "/objects-1");
  EXPECT_EQ(opens(kFolder + "/saved"), kFolder + "/saved/variables/variables");
  EXPECT_EQ(opens(kFolder + "/saved/variables"), kFolder + "/saved/variables/variables");
  EXPECT_EQ(open(kFolder, {.step = 1})->info().path, kFolder + "/objects-1");
  EXPECT_THAT([&] { open(kFolder, {.step = 2}); },
              FailsWith(Code::kNotFound, "has no checkpoint of step 2; it has objects-1, slices"));
  EXPECT_THAT([&] { open(kFolder + "/objects-1", {.step = 2}); },
              FailsWith(Code::kInvalidArgument, "not that of step 2"));
  EXPECT_THAT([&] { open(kFolder, {.item = "x"}); },
              FailsWith(Code::kInvalidArgument, "an item was requested"));
  EXPECT_THAT([&] { open_tensorflow(kFolder + "/nothing"); },
              FailsWith(Code::kNotFound, "not a TensorFlow checkpoint"));
  EXPECT_FALSE(is_tensorflow(kFolder + "/types.json"));
  EXPECT_FALSE(is_tensorflow("/nonexistent/x"));
  EXPECT_FALSE(is_tensorflow(""));
}

TEST(BundleReader, SaysWhichCheckpointsThereAreWhereNoneIsNamed) {
  const testing::TempDir dir;
  for (const char* name : {"a-1", "a-2"})
    for (const char* end : {".index", ".data-00000-of-00001"})
      fs::copy_file(kFolder + "/types" + end, dir.path() + "/" + name + end);
  EXPECT_THAT(
      [&] { open(dir.path()); },
      FailsWith(Code::kInvalidArgument,
                "has several checkpoints and no state file that names the latest: a-1, a-2"));
  EXPECT_EQ(open(dir.path(), {.step = 2})->info().path, dir.path() + "/a-2");
  testing::put_file(dir.path() + "/checkpoint", "model_checkpoint_path: \"a-3\"\n");
  EXPECT_THAT([&] { open(dir.path()); },
              FailsWith(Code::kNotFound,
                        "the latest checkpoint is a-3, which has no index; there are a-1, a-2"));
}

class Damaged : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& entry : fs::directory_iterator(kFolder))
      if (entry.is_regular_file())
        fs::copy_file(entry.path(), dir_.path() + "/" + entry.path().filename().string());
  }
  [[nodiscard]] std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
  void flip(const std::string& name, std::size_t bit) const {
    Bytes bytes = read_file(at(name));
    bytes[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
    testing::put_file(at(name), bytes);
  }
  testing::TempDir dir_;
};

TEST_F(Damaged, EveryBitOfTheDataIsNoticedByWhoeverReadsIt) {
  const std::size_t bits = 8 * fs::file_size(at("types.data-00000-of-00001"));
  for (std::size_t bit = 0; bit < bits; bit += 7) {
    flip("types.data-00000-of-00001", bit);
    const auto checkpoint = open(at("types"));
    const VerifyReport report = checkpoint->verify({});
    ASSERT_EQ(report.findings.size(), 1U) << bit;
    const std::size_t i = checkpoint->index(report.findings[0].tensor);
    if (checkpoint->tensors()[i].is_string()) {
      EXPECT_THROW(static_cast<void>(checkpoint->read_strings(i)), Error) << bit;
    } else {
      EXPECT_THAT([&] { testing::read_whole(*checkpoint, i); },
                  FailsWith(Code::kDataLoss, "its bytes are damaged"));
    }
    flip("types.data-00000-of-00001", bit);
  }
}

TEST_F(Damaged, ATensorThatIsReadInPartIsCheckedWhole) {
  flip("slices.data-00000-of-00001", 8 * 4799);  // the last byte of w
  const auto checkpoint = open(at("slices"));
  const std::size_t w = checkpoint->index("w");
  Array row = Array::allocate(DType::kFloat32, 4, {1, 3});
  const ReadRequest first{w, {{0, 0}, {1, 3}}, row.mutable_view()};
  checkpoint->read({&first, 1}, {});  // of the slice that is sound
  const ReadRequest second{w, {{100, 0}, {1, 3}}, row.mutable_view()};
  EXPECT_THAT([&] { checkpoint->read({&second, 1}, {}); }, FailsWith(Code::kDataLoss, "w: "));
  flip("types.data-00000-of-00001", 0);
  const auto types = open(at("types"));
  const std::string name = types->verify({}).findings.at(0).tensor;
  EXPECT_THAT([&] { static_cast<void>(types->try_view(types->index(name))); },
              FailsWith(Code::kDataLoss, "its bytes are damaged"));
}

TEST_F(Damaged, EveryBitOfTheIndexIsNoticed) {
  const std::size_t bits = 8 * fs::file_size(at("split.index"));
  for (std::size_t bit = 0; bit < bits; bit += 5) {
    flip("split.index", bit);
    EXPECT_THROW(static_cast<void>(open_tensorflow(at("split"))), Error) << bit;
    flip("split.index", bit);
  }
}

TEST_F(Damaged, WithoutADataFileTheOthersCanBeRead) {
  fs::remove(at("split.data-00001-of-00005"));
  const auto checkpoint = open(at("split"));
  EXPECT_TRUE(checkpoint->info("a/.ATTRIBUTES/VARIABLE_VALUE").is_described())
      << "other slices of it are there";
  EXPECT_EQ(checkpoint->read("c").bytes().size(), 4U);
  EXPECT_THAT([&] { static_cast<void>(checkpoint->read("a")); },
              FailsWith(Code::kDataLoss, "split.data-00001-of-00005"));
  const VerifyReport report = checkpoint->verify({});
  ASSERT_TRUE(report.damaged());
  EXPECT_EQ(report.findings[0].tensor, "a/.ATTRIBUTES/VARIABLE_VALUE");
}

TEST_F(Damaged, CutAnywhereIsNoticed) {
  const std::string data = at("types.data-00000-of-00001");
  const Bytes whole = read_file(data);
  for (std::size_t n = 0; n < whole.size(); n += 13) {
    testing::put_file(data, ByteView(whole).first(n));
    EXPECT_TRUE(open(at("types"))->verify({}).damaged()) << n;
  }
  const Bytes index = read_file(at("types.index"));
  testing::put_file(data, whole);
  for (std::size_t n = 0; n < index.size(); ++n) {
    testing::put_file(at("types.index"), ByteView(index).first(n));
    EXPECT_THAT([&] { open(at("types")); }, FailsWith(Code::kDataLoss, "types.index")) << n;
  }
}

TEST(BundleReader, ViewsWhatIsAligned) {
  const auto checkpoint = open(kFolder + "/types");
  std::size_t viewed = 0;
  for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
    const auto view = checkpoint->try_view(i);
    if (!view) continue;
    ++viewed;
    EXPECT_EQ(testing::to_bytes(view->bytes()), testing::read_whole(*checkpoint, i))
        << checkpoint->tensors()[i].name;
  }
  EXPECT_GE(viewed, 8U);
}

}  // namespace
}  // namespace cairn
