// reader_test.cc -- flax and Orbax msgpack files as checkpoints: every leaf, any box, no value read
// before it is asked for.
#include <cairn/array/box.h>
#include <cairn/checkpoint.h>
#include <cairn/msgpack.h>
#include <cairn/tree.h>

#include "tests/formats/golden.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::golden;
using testing::read_whole;
using testing::TempDir;
using testing::text_of;

const std::string kMsgpackGolden = "msgpack/flax-0.12.8_orbax-0.12.8/";

void expect_leaf(const Checkpoint& checkpoint, std::size_t index, const Json& expected,
                 const std::string& file) {
  const TensorInfo& info = checkpoint.tensors()[index];
  const std::string what = file + ": " + path_text(info.path);
  EXPECT_EQ(info.typestr, text_of(expected, "kind")) << what;
  EXPECT_EQ(info.name, param_name(info.path)) << what;
  if (info.typestr == "string") {
    EXPECT_EQ(checkpoint.read_string(index), text_of(expected, "value")) << what;
  } else if (info.is_array()) {
    const Bytes value = testing::from_hex(text_of(expected, "value"));
    EXPECT_EQ(info.dtype_name, text_of(expected, "dtype")) << what;
    EXPECT_EQ(info.shape, testing::shape_of(expected)) << what;
    EXPECT_EQ(info.nbytes, value.size()) << what;
    EXPECT_EQ(read_whole(checkpoint, index), value) << what;
    const auto view = checkpoint.try_view(index);
    if (view) {
      EXPECT_EQ(testing::to_bytes(view->bytes()), value) << what;
    }
  } else {
    EXPECT_EQ(expected.find("value"), nullptr) << what;
  }
}

TEST(MsgpackFile, ReadsWhatThePackagesWrote) {
  const Json files = testing::golden_json(kMsgpackGolden + "leaves.json");
  for (const auto& [name, leaves] : *files.as_object()) {
    const auto checkpoint = open_msgpack(golden(kMsgpackGolden + name + ".msgpack"));
    ASSERT_EQ(checkpoint->tensors().size(), leaves.as_array()->size()) << name;
    for (std::size_t i = 0; i < leaves.as_array()->size(); ++i)
      expect_leaf(*checkpoint, i, (*leaves.as_array())[i], name);
    EXPECT_FALSE(checkpoint->verify({}).damaged());
  }
}

TEST(MsgpackFile, ReadsBoxesAcrossChunks) {
  const auto checkpoint = open_msgpack(golden(kMsgpackGolden + "flax_chunked.msgpack"));
  const std::size_t a = checkpoint->index("a");
  ASSERT_EQ(checkpoint->tensors()[a].shape, (Shape{4, 25}));
  Array part = Array::allocate(DType::kFloat32, {3, 2});
  const ReadRequest request{a, {{1, 7}, {3, 2}}, part.mutable_view()};
  checkpoint->read({&request, 1}, {});
  const auto* values = reinterpret_cast<const float*>(part.bytes().data());
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{32, 33, 57, 58, 82, 83}));
  EXPECT_FALSE(checkpoint->try_view(a)) << "several chunks are no array in the file";
}

TEST(MsgpackFile, LoadsAsATree) {
  const Tree tree = open_msgpack(golden(kMsgpackGolden + "flax_chunked.msgpack"))->load();
  EXPECT_EQ(std::get<std::int64_t>(tree.find("b")->find("d")->find("0")->value()), 1);
  EXPECT_EQ(std::get<std::string>(tree.find("long")->value()).size(), 70'000U);
  EXPECT_EQ(tree.find("a")->array()->shape(), (Shape{4, 25}));
}

TEST(MsgpackFile, LoadsWhatTheBytesSay) {
  const Json files = testing::golden_json(kMsgpackGolden + "leaves.json");
  for (const auto& [name, leaves] : *files.as_object()) {
    // types without a name; keys that became texts
    if (name == "datetimes" || name == "flax_int_keys") continue;
    const std::string path = golden(kMsgpackGolden + name + ".msgpack");
    const std::uint64_t limit =
        name.find("chunked") == std::string::npos ? std::uint64_t{1} << 30U : 64;
    const MsgpackOptions options{
        .dialect = MsgpackDialect::kOrbax, .order = DictOrder::kBuilt, .chunk_bytes = limit};
    EXPECT_EQ(msgpack_serialize(open_msgpack(path)->load(), options), read_file(path))
        << name << ": tuples, NumPy scalars, bytes";
  }
}

TEST(MsgpackFile, SaysWhatIsWrongAndWhere) {
  TempDir dir;
  testing::copy_tree(golden(kMsgpackGolden + "flax_chunked.msgpack"), dir / "x");
  std::filesystem::resize_file(dir / "x", std::filesystem::file_size(dir / "x") - 1);
  EXPECT_THAT([&] { open_msgpack(dir / "x"); }, FailsWith(Code::kDataLoss, dir / "x"));
  testing::put_file(dir / "empty", "");
  EXPECT_THAT([&] { open_msgpack(dir / "empty"); },
              FailsWith(Code::kDataLoss, "is empty (0 bytes)"));
  EXPECT_THAT([&] { open_msgpack(dir / "none"); }, FailsWith(Code::kNotFound));
}

}  // namespace
}  // namespace cairn
