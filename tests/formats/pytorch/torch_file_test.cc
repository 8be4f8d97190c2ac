// torch_file_test.cc -- what torch.save wrote, of every type and stride; any box of it; the records
// beside the tensors; and files that are damaged.
#include <cairn/base/json/json.h>
#include <cairn/checkpoint.h>
#include <cairn/convert.h>
#include <cairn/formats/detect.h>
#include <cairn/open.h>
#include <cairn/pytorch.h>
#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/random_box.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::put_file;
using testing::read_whole;
using testing::TempDir;

const std::string kTorchGolden = "pytorch/torch-2.13.0/";
const std::string kTorchCorpus = "../../fuzz/corpus/pytorch/";

// Reads what can be read; whether anything could not be.
bool reads_all(const Checkpoint& checkpoint) {
  bool all = true;
  for (std::size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    if (!checkpoint.tensors()[i].is_array()) continue;
    try {
      read_whole(checkpoint, i);
    } catch (const Error&) {
      all = false;
    }
  }
  return all;
}

TEST(TorchFile, ReadsEveryTypeAndStrideThatPytorchWrote) {
  const Json expected = testing::golden_json(kTorchGolden + "expected.json");
  for (const auto& [name, rows] : *expected.as_object()) {
    const auto checkpoint =
        open_pytorch(golden(kTorchGolden + name + (name == "export" ? ".pt2" : ".pt")));
    EXPECT_EQ(checkpoint->info().format, "pytorch");
    for (const Json& row : *rows.as_array()) {
      const std::string& leaf = testing::text_of(row, "name");
      SCOPED_TRACE(name + ": " + leaf);
      const std::size_t index = checkpoint->index(leaf);
      const TensorInfo& info = checkpoint->tensors()[index];
      EXPECT_EQ(info.dtype_name, testing::text_of(row, "dtype"));
      EXPECT_EQ(info.shape, testing::shape_of(row));
      const Bytes bytes = testing::from_hex(testing::text_of(row, "hex"));
      EXPECT_EQ(info.nbytes, bytes.size());
      EXPECT_EQ(read_whole(*checkpoint, index), bytes);
      if (const auto view = checkpoint->try_view(index)) {
        EXPECT_EQ(testing::to_bytes(view->bytes()), bytes);
      }
    }
    const VerifyReport report = checkpoint->verify({});
    EXPECT_FALSE(report.damaged());
    EXPECT_EQ(report.unprotected.empty(), name != "legacy");  // which has no checksums
  }
}

TEST(TorchFile, ReadsAnyBoxOfAnyStride) {
  std::mt19937 random(6);
  const auto checkpoint = open_pytorch(golden(kTorchGolden + "tensors.pt"));
  for (int round = 0; round < 600; ++round) {
    const std::size_t index = random() % checkpoint->tensors().size();
    const TensorInfo& info = checkpoint->tensors()[index];
    testing::check_box(*checkpoint, index, testing::random_box(random, info.shape));
  }
}

TEST(TorchFile, KeepsWhatIsBesideTheTensors) {
  const auto checkpoint = open(golden(kTorchGolden + "objects.pt"));
  const Tree tree = checkpoint->load();
  EXPECT_EQ(tree.at("epoch"), Tree(3));
  EXPECT_EQ(tree.at("loss"), Tree(0.25));
  EXPECT_EQ(tree.at("name"), Tree("\xc3\xa4"));
  EXPECT_EQ(tree.at("done"), Tree(false));
  EXPECT_EQ(tree.at("none"), Tree());
  EXPECT_EQ(tree.at("tuple"), Tree(Tree::Tuple{{Tree(1), Tree(Tree::List{Tree(2.5)})}}));
  EXPECT_EQ(tree.at("dtype"), Tree("torch.bfloat16"));
  EXPECT_EQ(tree.at("device"), Tree("cuda:1"));
  EXPECT_EQ(tree.at("bytes"), Tree(Bytes{std::byte{0}, std::byte{0xff}}));
  EXPECT_EQ(tree.at("complex"), Tree(std::complex<double>(1, 2)));
  EXPECT_EQ(tree.at("big"), Tree(std::uint64_t{1} << 63U));
  EXPECT_EQ(tree.at("array").array()->shape(), Shape({2, 3}));
  EXPECT_EQ(tree.at("sparse.size"), Tree(Tree::Tuple{{Tree(3), Tree(3)}}));
  EXPECT_EQ(tree.at("module").dict()->size(), 2U);
  const std::vector<DictKeyTypes> types = checkpoint->key_types();
  ASSERT_EQ(types.size(), 1U);
  EXPECT_EQ(types[0], (DictKeyTypes{.dict = {"optimizer", "state"}, .type = "int"}));
  EXPECT_THAT(checkpoint->info().facts, ::testing::Contains(std::pair<std::string, std::string>(
                                            "tied",
                                            "module.0.weight = model.0.weight, "
                                            "module.0.bias = model.0.bias, "
                                            "module.1.weight = model.1.weight, "
                                            "module.1.bias = model.1.bias, "
                                            "module.1.running_mean = model.1.running_mean, "
                                            "module.1.running_var = model.1.running_var, "
                                            "module.1.num_batches_tracked = "
                                            "model.1.num_batches_tracked")));
  const VerifyReport report = checkpoint->verify({});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_THAT(report.findings[0].message,
              HasSubstr("may run any code: it imports numpy._core.multiarray._reconstruct"));
}

TEST(TorchFile, TheFirstBytesDecide) {
  const TempDir dir;
  for (const char* name : {"objects.pt", "legacy.pt"}) {
    put_file(dir / "model.safetensors", read_file(golden(kTorchGolden + name)));
    const auto checkpoint = open(dir / "model.safetensors");
    EXPECT_EQ(checkpoint->info().format, "pytorch");
    EXPECT_THAT(checkpoint->info().warnings,
                ::testing::Contains(HasSubstr("its format is pytorch, although its name ends as "
                                              "those of safetensors files do")));
  }
}

TEST(TorchFile, AFileThatEndsEarlyIsNotRead) {
  const TempDir dir;
  for (const char* name : {"zip.pt", "legacy.pt", "views.pt", "export.pt2"}) {
    const Bytes good = read_file(golden(kTorchCorpus + name));
    testing::for_each_truncation(good, [&](ByteView bad, const std::string& what) {
      put_file(dir / "bad.pt", bad);
      EXPECT_THROW(open_pytorch(dir / "bad.pt"), Error) << name << " " << what;
    });
  }
}

// A flipped bit of a storage is noticed: by the read of a whole tensor, of a part of it and of
// a view, and by verify. Elsewhere a flip is an error, or changes nothing that is read.
class FlippedBits : public ::testing::TestWithParam<const char*> {};

TEST_P(FlippedBits, AreNoticedInStorages) {
  const TempDir dir;
  const std::string source = golden(kTorchCorpus + GetParam());
  const Bytes good = read_file(source);
  const auto reference = open_pytorch(source);
  ASSERT_TRUE(reads_all(*reference));
  std::vector<Bytes> values;
  for (std::size_t i = 0; i < reference->tensors().size(); ++i)
    values.push_back(read_whole(*reference, i));
  int flip = 0, noticed = 0;
  testing::for_each_bit_flip(good, [&](ByteView bad, const std::string& what) {
    if (++flip % (3 * testing::kFewer) != 0) return;
    put_file(dir / "bad.pt", bad);
    try {
      const auto checkpoint = open_pytorch(dir / "bad.pt");
      bool all = true;
      for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
        const auto known =
            try_call([&] { return reference->index(checkpoint->tensors()[i].name); });
        if (!known) continue;  // a flip in a name, which has no checksum of its own
        try {
          EXPECT_EQ(read_whole(*checkpoint, i), values[known.value()]) << what;
        } catch (const Error&) {
          all = false;
        }
      }
      EXPECT_EQ(all, !checkpoint->verify({}).damaged()) << what;
      noticed += all ? 0 : 1;
    } catch (const Error&) {
      ++noticed;
    }
  });
  // the payloads alone have 16 + 24 bytes
  EXPECT_GE(noticed, 8 * 40 / (3 * testing::kFewer) - 1);
}

INSTANTIATE_TEST_SUITE_P(TorchFile, FlippedBits, ::testing::Values("views.pt", "export.pt2"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name.substr(0, name.find('.'));
                         });

TEST(TorchFile, SaysWhatIsWrong) {
  const TempDir dir;
  put_file(dir / "x.pt", Bytes{});
  EXPECT_THAT([&] { open(dir / "x.pt"); }, FailsWith(Code::kDataLoss, "is empty (0 bytes)"));
  EXPECT_THAT([&] { open_pytorch(golden("npz/numpy-2.4.6/stored.npz")); },
              FailsWith(Code::kInvalidArgument, "without an object of PyTorch"));
  EXPECT_THAT([&] { open_pytorch(dir / "none.pt"); }, FailsWith(Code::kNotFound, "none.pt"));
  Bytes cut = read_file(golden(kTorchGolden + "objects.pt"));
  cut.resize(cut.size() / 2);
  put_file(dir / "cut.pt", cut);
  EXPECT_THAT([&] { open(dir / "cut.pt"); }, FailsWith(Code::kDataLoss, "cut.pt"));
}

// Into a format that keeps the types of keys, and one that does not.
TEST(TorchFile, ConvertsToOtherFormats) {
  const TempDir dir;
  const std::string source = golden(kTorchGolden + "objects.pt");
  const auto from = open(source);
  convert(*from, dir / "orbax",
          {.format = TargetFormat::kOrbax, .include = {"optimizer.**", "model.**", "epoch"}});
  EXPECT_EQ(open(dir / "orbax")->key_types().size(), 1U);
  convert(*from, dir / "out.safetensors", {.include = {"model.**"}});
  const auto to = open(dir / "out.safetensors");
  for (const TensorInfo& info : to->tensors())
    EXPECT_EQ(read_whole(*to, to->index(info.name)), read_whole(*from, from->index(info.name)));
  EXPECT_EQ(to->tensors().size(), 7U);
}

}  // namespace
}  // namespace cairn
