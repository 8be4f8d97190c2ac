// reader_test.cc -- the conveniences every checkpoint has, on one made of memory.
#include <cairn/array/box.h>
#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

namespace cairn {
namespace {

using ::testing::HasSubstr;

// A checkpoint whose arrays hold the bytes they are given.
class MemoryCheckpoint : public Checkpoint {
 public:
  using Checkpoint::info;
  using Checkpoint::read;

  void add(TensorInfo tensor, std::string bytes = {}) {
    tensors_.push_back(std::move(tensor));
    bytes_.push_back(std::move(bytes));
  }
  template <class T>
  void add_scalar(const std::string& name, DType dtype, T value) {
    TensorInfo tensor = leaf(name, "scalar", std::string(dtype_name(dtype)));
    tensor.dtype = dtype;
    tensor.element_size = dtype_size(dtype);
    add(tensor, std::string(reinterpret_cast<const char*>(&value), sizeof(T)));
  }
  static TensorInfo leaf(const std::string& name, const std::string& kind,
                         const std::string& dtype_name) {
    TensorInfo tensor;
    tensor.name = name;
    tensor.path = {{name, KeyType::kDict}};
    tensor.kind = dtype_name.empty()       ? LeafKind::kEmpty
                  : dtype_name == "string" ? LeafKind::kString
                                           : LeafKind::kArray;
    tensor.typestr = kind;
    tensor.dtype_name = dtype_name;
    return tensor;
  }

  CheckpointInfo info() const override { return info_; }
  TensorList tensors() const override { return TensorList(list_); }
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override {
    ++reads;
    boxes.emplace_back();
    for (const auto& r : requests) {
      boxes.back().push_back(r.box);
      const ArrayView all =
          make_view(as_bytes(bytes_[r.tensor]), tensors_[r.tensor].dtype, tensors_[r.tensor].shape);
      copy_elements(subview(all, r.box), r.out);
    }
    if (progress) progress(1, 1);
  }
  std::string read_string(std::size_t index) const override { return bytes_[index]; }

  mutable int reads = 0;
  mutable std::vector<std::vector<Box>> boxes;  // of each read

 private:
  CheckpointInfo info_;
  std::shared_ptr<std::vector<TensorInfo>> list_ = std::make_shared<std::vector<TensorInfo>>();
  std::vector<TensorInfo>& tensors_ = *list_;
  std::vector<std::string> bytes_;
};

TensorInfo bytes_array(const std::string& name, Shape shape, std::optional<std::string> item = {}) {
  TensorInfo tensor = MemoryCheckpoint::leaf(name, "np.ndarray", "uint8");
  tensor.dtype = DType::kUint8;
  tensor.element_size = 1;
  tensor.shape = std::move(shape);
  tensor.item = std::move(item);
  return tensor;
}

void expect_error(const std::function<void()>& f, Code code, const char* message) {
  try {
    f();
    FAIL() << message;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    EXPECT_THAT(e.message(), HasSubstr(message));
  }
}

TEST(Reader, FindsByNameAndSuggests) {
  MemoryCheckpoint c;
  for (const char* name : {"params.dense.kernel", "params.dense.bias", "opt.mu", "step", "a/b"})
    c.add(bytes_array(name, {1}), "x");
  EXPECT_EQ(c.index("opt.mu"), 2U);
  EXPECT_EQ(c.index("a/b"), 4U);
  EXPECT_EQ(c.info("step").name, "step");
  expect_error([&] { (void)c.index("params.dense.kernl"); }, Code::kNotFound,
               "did you mean 'params.dense.kernel'");
  expect_error([&] { (void)c.index("KERNEL"); }, Code::kNotFound, "'params.dense.kernel'");
  expect_error([&] { (void)c.index("Step"); }, Code::kNotFound, "did you mean 'step'");
  expect_error([&] { (void)c.index("zzzzzzzzzzzz"); }, Code::kNotFound,
               "no tensor is named 'zzzzzzzzzzzz'");
  expect_error([&] { (void)c.index(""); }, Code::kNotFound, "no tensor is named ''");
  expect_error([&] { (void)c.index(std::string(100000, 'k')); }, Code::kNotFound, "no tensor");
}

TEST(Reader, NamesInSeveralItemsNeedTheItem) {
  MemoryCheckpoint c;
  c.add(bytes_array("w", {1}, "state"), "a");
  c.add(bytes_array("w", {1}, "ema"), "b");
  c.add(bytes_array("x/y", {1}, "ema"), "c");
  c.add(bytes_array("only", {1}, "ema"), "d");
  EXPECT_EQ(c.index("state/w"), 0U);
  EXPECT_EQ(c.index("ema/w"), 1U);
  EXPECT_EQ(c.index("ema/x/y"), 2U);
  EXPECT_EQ(c.index("x/y"), 2U);
  EXPECT_EQ(c.index("only"), 3U);
  expect_error([&] { (void)c.index("w"); }, Code::kInvalidArgument,
               "name one of 'state/w', 'ema/w'");
  expect_error([&] { (void)c.index("none/w"); }, Code::kNotFound, "no tensor is named 'none/w'");
}

TEST(Reader, FindsByKeysJoinedWithSlashes) {
  MemoryCheckpoint c;
  const auto add = [&](const std::string& name, std::optional<std::string> item) {
    c.add(bytes_array(name, {1}, std::move(item)), "x");
  };
  add("params.dense.kernel", "state");
  add("params.dense.kernel", "ema");
  add("opt.0.mu", "ema");
  EXPECT_EQ(c.index("state/params/dense/kernel"), 0U);
  EXPECT_EQ(c.index("ema/params/dense/kernel"), 1U);
  EXPECT_EQ(c.index("opt/0/mu"), 2U);
  EXPECT_EQ(c.index("ema/opt/0/mu"), 2U);
  expect_error([&] { (void)c.index("params/dense/kernel"); }, Code::kInvalidArgument,
               "'params/dense/kernel' is in several items");
  expect_error([&] { (void)c.index("state/opt/0/mu"); }, Code::kNotFound, "'state/opt/0/mu'");
}

TEST(Reader, ASlashStandsForADot) {
  MemoryCheckpoint c;
  for (const char* name : {"a/b.c", "x/y", "x.y", "k/l.m", "k.l/m"})
    c.add(bytes_array(name, {1}, std::nullopt), "x");
  EXPECT_EQ(c.index("a/b.c"), 0U);
  EXPECT_EQ(c.index("a/b/c"), 0U);
  expect_error([&] { (void)c.index("a.b.c"); }, Code::kNotFound, "did you mean 'a/b.c'");
  EXPECT_EQ(c.index("x/y"), 1U);  // the very name comes first
  EXPECT_EQ(c.index("x.y"), 2U);
  EXPECT_EQ(c.index("k/l.m"), 3U);
  expect_error([&] { (void)c.index("k/l/m"); }, Code::kInvalidArgument,
               "'k/l/m' stands for several names: name one of 'k/l.m', 'k.l/m'");
}

TEST(Reader, ReadsValuesOfAKnownType) {
  MemoryCheckpoint c;
  TensorInfo tensor = MemoryCheckpoint::leaf("w", "np.ndarray", "float32");
  tensor.dtype = DType::kFloat32;
  tensor.element_size = 4;
  tensor.shape = {2};
  const std::vector<float> values{0.5F, 2};
  c.add(tensor, std::string(reinterpret_cast<const char*>(values.data()), 8));
  c.add(MemoryCheckpoint::leaf("s", "string", "string"), "text");
  EXPECT_THAT(c.read<float>("w"), ::testing::ElementsAre(0.5F, 2));
  EXPECT_EQ(c.read<float>("w").shape(), Shape{2});
  const int before = c.reads;
  expect_error([&] { (void)c.read<double>("w"); }, Code::kInvalidArgument,
               "'w' is float32, not float64");
  EXPECT_EQ(c.reads, before);
  expect_error([&] { (void)c.read<float>("s"); }, Code::kInvalidArgument, "'s' is not an array");
  expect_error([&] { (void)c.read<float>("x"); }, Code::kNotFound, "no tensor");
  // what was read is the caller's own, until it is shared
  Array own = c.read("w");
  own.mutable_as<float>()[0] = 9;
  EXPECT_THAT(c.read<float>("w"), ::testing::ElementsAre(0.5F, 2));
  const Array shared = own;
  expect_error([&] { (void)own.mutable_view(); }, Code::kFailedPrecondition, "read-only");
}

TEST(Reader, ReadsWholeArraysAndBoxes) {
  MemoryCheckpoint c;
  c.add(bytes_array("m", {2, 3}), "abcdef");
  EXPECT_EQ(as_text(c.read("m").bytes()), "abcdef");
  std::string out(2, '?');
  c.read("m", Box{{0, 1}, {2, 1}},
         make_view(MutableByteView(reinterpret_cast<std::byte*>(out.data()), 2), DType::kUint8,
                   {2, 1}));
  EXPECT_EQ(out, "be");
}

TEST(Reader, RefusesBrokenLeavesAndThoseThatAreNotArrays) {
  MemoryCheckpoint c;
  c.add(MemoryCheckpoint::leaf("s", "string", "string"), "text");
  c.add(MemoryCheckpoint::leaf("n", "None", ""));
  TensorInfo broken = MemoryCheckpoint::leaf("b", "jax.Array", "");
  broken.kind = LeafKind::kUnknown;
  broken.error = "no array is stored under this name";
  c.add(broken);
  expect_error([&] { (void)c.read("s"); }, Code::kInvalidArgument,
               "'s' is not an array (kind: string)");
  expect_error([&] { (void)c.read("n"); }, Code::kInvalidArgument,
               "'n' is not an array (kind: None)");
  expect_error([&] { (void)c.read("b"); }, Code::kDataLoss, "b: no array is stored");
  expect_error([&] { (void)c.view("b"); }, Code::kDataLoss, "b: no array is stored");
  expect_error([&] { (void)c.view("s"); }, Code::kInvalidArgument, "'s' is not an array");
  expect_error([&] { (void)c.load(); }, Code::kDataLoss, "b: no array is stored");
}

// A checkpoint that says only what it must.
TEST(Reader, ReadsPartsToNewArraysAndConvertsThem) {
  MemoryCheckpoint c;
  c.add(bytes_array("a", {2, 3}), "abcdef");
  c.add_scalar<float>("x", DType::kFloat32, 2.5F);
  std::vector<std::uint64_t> done;
  const std::vector<ArrayRequest> requests = {{0, {{0, 1}, {2, 2}}},
                                              {1, {}, DType::kFloat64},
                                              {0, Box::whole({2, 3}), DType::kInt32},
                                              {0, {{2, 0}, {0, 3}}, DType::kFloat32},
                                              {0, Box::whole({2, 3}), DType::kUint8}};
  const std::vector<Array> arrays =
      c.read_arrays(requests, [&](std::uint64_t now, std::uint64_t total) {
        done.push_back(now);
        EXPECT_EQ(total, 4U + 4 + 6 + 0 + 6);
      });
  ASSERT_EQ(arrays.size(), 5U);
  EXPECT_EQ(as_text(arrays[0].bytes()), "bcef");
  EXPECT_EQ(arrays[1].as<double>()[0], 2.5);
  EXPECT_THAT(arrays[2].as<std::int32_t>(), ::testing::ElementsAre(97, 98, 99, 100, 101, 102));
  EXPECT_EQ(arrays[3].shape(), (Shape{0, 3}));
  EXPECT_EQ(as_text(arrays[4].bytes()), "abcdef");
  EXPECT_EQ(c.reads, 2);  // as stored, and all that is converted
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_TRUE(c.read_arrays({}).empty());
}

// 150 MiB in chunks of 60 rows: each read has whole chunks, of at most 16 MiB for each core or one
// chunk. A compressed array without chunks is one part.
TEST(Reader, ConvertsLargeArraysInParts) {
  constexpr std::int64_t kRow = std::int64_t{1} << 20U;
  MemoryCheckpoint c;
  TensorInfo large = bytes_array("large", {150, kRow});
  large.chunk_shape = {60, kRow};
  std::string bytes;
  for (int row = 0; row < 150; ++row) bytes.append(kRow, static_cast<char>(row));
  c.add(large, std::move(bytes));
  TensorInfo compressed = bytes_array("compressed", {70 * kRow});
  compressed.nbytes = 70 * kRow;
  compressed.stored_nbytes = kRow;
  c.add(compressed, std::string(70 * kRow, 'x'));
  c.add(bytes_array("tiny", {1}), "y");  // its memory is padded, which is not counted
  const std::vector<ArrayRequest> requests = {{0, Box::whole({150, kRow}), DType::kInt8},
                                              {1, Box::whole({70 * kRow}), DType::kInt8},
                                              {2, Box::whole({1}), DType::kInt8},
                                              {2, Box::whole({1}), DType::kInt8},
                                              {2, Box::whole({1})}};
  std::vector<std::uint64_t> done;  // each read reports one byte at its end
  const auto arrays = c.read_arrays(requests, [&](std::uint64_t now, std::uint64_t total) {
    done.push_back(now);
    EXPECT_EQ(total, static_cast<std::uint64_t>(220 * kRow + 3));
  });
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i], before + 1);
    for (const Box& box : c.boxes[i])
      before += static_cast<std::uint64_t>(element_count(box.shape));
  }
  EXPECT_EQ(before, static_cast<std::uint64_t>(220 * kRow + 3));
  const auto cores = static_cast<std::int64_t>(default_executor().threads());
  const std::int64_t most = std::max<std::int64_t>(60, 16 * std::clamp<std::int64_t>(cores, 3, 16));
  std::int64_t rows = 0;
  for (const std::vector<Box>& read : c.boxes) {
    std::int64_t held = 0;
    for (const Box& box : read) {
      held += element_count(box.shape) / kRow;
      if (box.rank() == 1) {
        EXPECT_TRUE(box == Box::whole({70 * kRow}) || box == Box::whole({1}));
        continue;
      }
      EXPECT_EQ(box.origin, (Shape{rows, 0}));
      rows += box.shape[0];
      EXPECT_TRUE(rows % 60 == 0 || rows == 150) << rows;
    }
    EXPECT_LE(held, std::max<std::int64_t>(most, 70));
  }
  EXPECT_EQ(rows, 150);
  for (int row = 0; row < 150; ++row)
    for (const std::int64_t at : {std::int64_t{0}, kRow - 1})
      ASSERT_EQ(arrays[0].bytes()[static_cast<std::size_t>(row * kRow + at)],
                static_cast<std::byte>(row));
  EXPECT_EQ(arrays[1].bytes().back(), std::byte{'x'});
}

TEST(Reader, ConvertsArraysWithoutChunksInParts) {
  constexpr std::int64_t kRow = std::int64_t{1} << 20U;
  MemoryCheckpoint c;
  std::string bytes(300 * kRow, 'x');
  bytes.back() = 'y';
  c.add(bytes_array("raw", {300, kRow}), std::move(bytes));
  const std::vector<ArrayRequest> requests = {{0, {{10, 0}, {290, kRow}}, DType::kInt8}};
  const auto arrays = c.read_arrays(requests);
  std::int64_t rows = 10;
  for (const std::vector<Box>& read : c.boxes)
    for (const Box& box : read) {
      EXPECT_EQ(box.origin, (Shape{rows, 0}));
      EXPECT_LE(box.shape[0], 256) << "MiB are the most that is held";
      rows += box.shape[0];
    }
  EXPECT_EQ(rows, 300);
  EXPECT_EQ(arrays[0].bytes().front(), std::byte{'x'});
  EXPECT_EQ(arrays[0].bytes().back(), std::byte{'y'});
}

// The box begins inside of a chunk: the first part ends with this chunk.
TEST(Reader, PartsThatAreConvertedEndWhereChunksEnd) {
  constexpr std::int64_t kRow = std::int64_t{4} << 20U;
  MemoryCheckpoint c;
  TensorInfo large = bytes_array("large", {100, kRow});
  large.chunk_shape = {70, kRow};
  c.add(large, std::string(100 * kRow, 'x'));
  const std::vector<ArrayRequest> requests = {{0, {{50, 0}, {50, kRow}}, DType::kInt8}};
  (void)c.read_arrays(requests);
  std::vector<Box> boxes;
  for (const std::vector<Box>& read : c.boxes) boxes.insert(boxes.end(), read.begin(), read.end());
  EXPECT_THAT(boxes, ::testing::ElementsAre(Box{{50, 0}, {20, kRow}}, Box{{70, 0}, {30, kRow}}));
}

// The first dimension has too few rows, or rows that are too large: the next ones are cut.
TEST(Reader, ConvertsArraysOfFewRowsInParts) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20U;
  MemoryCheckpoint c;
  TensorInfo large = bytes_array("large", {1, 2, 150 * kMiB});
  large.chunk_shape = {1, 1, 64 * kMiB};
  std::string bytes(300 * kMiB, 'x');
  bytes[150 * kMiB - 1] = 'y';
  bytes.back() = 'z';
  c.add(large, std::move(bytes));
  const std::vector<ArrayRequest> requests = {{0, Box::whole(large.shape), DType::kInt8}};
  const auto arrays = c.read_arrays(requests);
  const auto cores = static_cast<std::int64_t>(default_executor().threads());
  std::int64_t done = 0;
  for (const std::vector<Box>& read : c.boxes) {
    std::int64_t held = 0;
    for (const Box& box : read) {
      EXPECT_EQ((box.origin[1] * 150 * kMiB) + box.origin[2], done);
      EXPECT_EQ(box.origin[2] % (64 * kMiB), 0);
      held += element_count(box.shape);
      done += element_count(box.shape);
    }
    EXPECT_LE(held, std::clamp<std::int64_t>(16 * cores, 64, 256) * kMiB);
  }
  EXPECT_EQ(done, 300 * kMiB);
  EXPECT_EQ(arrays[0].bytes()[150 * kMiB - 1], std::byte{'y'});
  EXPECT_EQ(arrays[0].bytes().back(), std::byte{'z'});
}

TEST(Reader, RefusesRequestsForNewArraysBeforeAnyRead) {
  MemoryCheckpoint c;
  c.add(bytes_array("a", {2, 3}), "abcdef");
  c.add(MemoryCheckpoint::leaf("s", "string", "string"), "text");
  TensorInfo opaque = bytes_array("o", {1});
  opaque.dtype = DType::kOpaque;
  c.add(opaque, "x");
  TensorInfo broken = bytes_array("b", {1});
  broken.kind = LeafKind::kUnknown;
  broken.error = "the metadata is missing";
  c.add(broken, "x");
  const auto read = [&](const ArrayRequest& request) {
    return [&c, request] { (void)c.read_arrays(std::vector<ArrayRequest>{request}); };
  };
  expect_error(read({4, {}}), Code::kOutOfRange, "there is no tensor 4");
  expect_error(read({1, {}}), Code::kInvalidArgument, "'s' is not an array (kind: string)");
  expect_error(read({3, {{0}, {1}}}), Code::kDataLoss, "b: the metadata is missing");
  expect_error(read({2, {{0}, {1}}, DType::kUint8}), Code::kInvalidArgument,
               "o: elements that Cairn does not interpret");
  expect_error(read({0, Box::whole({2, 3}), DType::kOpaque}), Code::kInvalidArgument,
               "a: elements that Cairn does not interpret");
  expect_error(read({0, {{0, 0}, {3, 3}}}), Code::kOutOfRange, "a: dimension 0 of box");
  expect_error(read({0, {{0}, {2}}}), Code::kInvalidArgument, "a: ");
  EXPECT_EQ(c.reads, 0);
}

TEST(Reader, TheDefaultVerifyReadsEveryLeaf) {
  MemoryCheckpoint c;
  c.add(bytes_array("w", {2, 3}), "abcdef");
  c.add(MemoryCheckpoint::leaf("s", "string", "string"), "text");
  c.add(MemoryCheckpoint::leaf("n", "None", ""));
  TensorInfo lost = MemoryCheckpoint::leaf("lost", "jax.Array", "");
  lost.kind = LeafKind::kUnknown;
  lost.error = "no array is stored under this name";
  c.add(lost);
  TensorInfo large = bytes_array("large", {130, 1 << 20});  // in more than one piece
  large.nbytes = std::uint64_t{130} << 20U;
  c.add(large, std::string(std::size_t{130} << 20U, 'x'));
  const VerifyReport report = c.verify({});
  EXPECT_EQ(report.tensors, 4U);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].tensor, "lost");
  EXPECT_THAT(report.findings[0].message, HasSubstr("no array is stored"));
  EXPECT_EQ(report.verdict(), Verdict::kDamaged);
  EXPECT_GT(c.reads, 3);
}

TEST(Reader, ViewSaysWhyNot) {
  MemoryCheckpoint c;
  c.add(bytes_array("m", {2, 3}), "abcdef");
  expect_error([&] { (void)c.view("m"); }, Code::kFailedPrecondition, "'m' cannot be mapped");
}

template <class T>
T value_of(const Tree& tree, const char* name) {
  return std::get<T>(tree.find(name)->value());
}

TEST(Reader, LoadGivesPythonsScalarsStringsAndNodes) {
  MemoryCheckpoint c;
  c.add_scalar<std::int64_t>("int", DType::kInt64, -(std::int64_t{1} << 62));
  c.add_scalar<std::int16_t>("short", DType::kInt16, -7);
  c.add_scalar<std::uint64_t>("small unsigned", DType::kUint64, 5);
  c.add_scalar<std::uint64_t>("large unsigned", DType::kUint64, ~std::uint64_t{0});
  c.add_scalar<double>("float", DType::kFloat64, 0.1);
  c.add_scalar<float>("single", DType::kFloat32, 1.25F);
  c.add_scalar<std::uint8_t>("true", DType::kBool, 1);
  c.add_scalar<std::uint8_t>("false", DType::kBool, 0);
  c.add_scalar<std::array<float, 2>>("complex", DType::kComplex64, {1, 2});
  c.add(bytes_array("array", {3}), "abc");
  TensorInfo bytes = bytes_array("bytes", {3});
  bytes.typestr = "bytes";
  c.add(bytes, "xxx");
  TensorInfo numpy = MemoryCheckpoint::leaf("numpy", "np.generic", "int16");
  numpy.dtype = DType::kInt16;
  numpy.element_size = numpy.nbytes = 2;
  c.add(numpy, std::string("\x05\0", 2));
  c.add(MemoryCheckpoint::leaf("text", "string", "string"), "hello");
  c.add(MemoryCheckpoint::leaf("none", "None", ""));
  c.add(MemoryCheckpoint::leaf("tuple", "Tuple", ""));
  c.add(MemoryCheckpoint::leaf("left out", "placeholder", ""));
  int calls = 0;
  const Tree tree = c.load([&](std::uint64_t, std::uint64_t) { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(value_of<std::int64_t>(tree, "int"), -(std::int64_t{1} << 62));
  EXPECT_EQ(value_of<std::int64_t>(tree, "short"), -7);
  EXPECT_EQ(value_of<std::int64_t>(tree, "small unsigned"), 5);
  EXPECT_EQ(value_of<std::uint64_t>(tree, "large unsigned"), ~std::uint64_t{0});
  EXPECT_EQ(value_of<double>(tree, "float"), 0.1);
  EXPECT_EQ(value_of<double>(tree, "single"), 1.25);
  EXPECT_TRUE(value_of<bool>(tree, "true"));
  EXPECT_FALSE(value_of<bool>(tree, "false"));
  EXPECT_EQ(value_of<Array>(tree, "complex").dtype(), DType::kComplex64);
  EXPECT_EQ(value_of<NumpyScalar>(tree, "numpy").dtype, DType::kInt16);
  EXPECT_EQ(value_of<Bytes>(tree, "bytes"), Bytes(3, std::byte{'x'}));
  EXPECT_EQ(as_text(value_of<Array>(tree, "array").bytes()), "abc");
  EXPECT_EQ(value_of<std::string>(tree, "text"), "hello");
  EXPECT_EQ(value_of<EmptyNode>(tree, "none"), EmptyNode::kNone);
  EXPECT_EQ(value_of<EmptyNode>(tree, "tuple"), EmptyNode::kTuple);
  EXPECT_EQ(value_of<Placeholder>(tree, "left out"), Placeholder{});
}

TEST(Reader, LoadPutsItemsSideBySide) {
  MemoryCheckpoint c;
  EXPECT_EQ(c.load().dict()->size(), 0U);
  MemoryCheckpoint two;
  two.add(bytes_array("w", {1}, "state"), "a");
  two.add(bytes_array("w", {1}, "ema"), "b");
  const Tree tree = two.load();
  EXPECT_EQ(as_text(tree.find("state")->find("w")->array()->bytes()), "a");
  EXPECT_EQ(as_text(tree.find("ema")->find("w")->array()->bytes()), "b");
}

}  // namespace
}  // namespace cairn
