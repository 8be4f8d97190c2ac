// reader_test.cc -- files and sets of the real package, any box of them, and what does not fit
// together.
#include <cairn/array/box.h>
#include <cairn/checkpoint.h>
#include <cairn/safetensors.h>
#include <cairn/tree.h>

#include <functional>
#include <random>

#include "tests/formats/golden.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using testing::golden;
using testing::kSafetensorsGolden;
using testing::MemorySource;
using testing::put_file;
using testing::read_whole;
using testing::TempDir;

void expect_tensors(const Checkpoint& checkpoint, const MemorySource& expected) {
  ASSERT_EQ(checkpoint.tensors().size(), expected.tensors.size());
  for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
    const TensorInfo& info = checkpoint.tensors()[i];
    EXPECT_EQ(info.name, expected.tensors[i].name);
    EXPECT_EQ(info.path, (KeyPath{{info.name, KeyType::kDict}}));
    EXPECT_EQ(info.dtype, expected.tensors[i].dtype) << info.name;
    EXPECT_EQ(info.shape, expected.tensors[i].shape) << info.name;
    EXPECT_EQ(info.nbytes, expected.values[i].size()) << info.name;
    EXPECT_EQ(read_whole(checkpoint, i), expected.values[i]) << info.name;
    const auto view = checkpoint.try_view(i);
    if (view) {
      EXPECT_EQ(testing::to_bytes(view->bytes()), expected.values[i]) << info.name;
    }
  }
}

TEST(SafetensorsReader, ReadsEveryDtypeTheReferenceWrote) {
  const auto checkpoint = open_safetensors(golden(kSafetensorsGolden + "all.safetensors"));
  expect_tensors(*checkpoint, testing::safetensors_golden());
  EXPECT_EQ(checkpoint->info().format, "safetensors");
  EXPECT_EQ(testing::text_of(parse_json(checkpoint->info().custom_metadata), "format").substr(0, 6),
            "h\u00e9llo");
}

TEST(SafetensorsReader, ReadsASet) {
  MemorySource expected;
  const MemorySource all = testing::safetensors_golden();
  for (std::size_t i = 0; i < all.tensors.size(); ++i) {
    const auto& t = all.tensors[i];
    if (t.name.starts_with("float32/") || t.name.starts_with("bfloat16/") ||
        t.name.starts_with("uint8/"))
      expected.add(t.name, t.dtype, t.shape, all.values[i]);
  }
  const auto set =
      open_safetensors(golden(kSafetensorsGolden + "set/model.safetensors.index.json"));
  expect_tensors(*set, expected);
  EXPECT_EQ(set->info().layout, "safetensors set of 3 files");
  EXPECT_TRUE(set->verify({}).findings.empty());
}

TEST(SafetensorsReader, MapsWhatLiesAlignedAndNothingElse) {
  const auto checkpoint = open_safetensors(golden(kSafetensorsGolden + "all.safetensors"));
  EXPECT_TRUE(checkpoint->try_view(checkpoint->index("float64/3.4")));
  EXPECT_FALSE(checkpoint->try_view(checkpoint->index("f4")))
      << "two elements a byte are no array in memory";
  TempDir dir;
  put_file(dir / "x", std::string("\x39\0\0\0\0\0\0\0", 8) +
                          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   12345678)");
  const auto odd = open_safetensors(dir / "x");
  EXPECT_FALSE(odd->try_view(0)) << "not aligned";
  EXPECT_EQ(as_text(read_whole(*odd, 0)), "12345678");
  EXPECT_THAT([&] { static_cast<void>(odd->read_string(0)); }, FailsWith(Code::kInvalidArgument));
}

// A box, and a destination for it that may have a gap behind each element.
struct Target {
  Target(const TensorInfo& info, std::size_t index, Box b, std::size_t spread)
      : box(std::move(b)),
        memory(static_cast<std::size_t>(element_count(box.shape)) * info.element_size * spread) {
    request = {index,
               box,
               {memory.data(), info.dtype, info.element_size, box.shape,
                c_strides(box.shape, info.element_size * spread)}};
  }
  [[nodiscard]] Bytes got() const {
    Bytes bytes(static_cast<std::size_t>(element_count(box.shape)) * request.out.element_size);
    copy_elements(as_const(request.out),
                  make_view(MutableByteView(bytes), request.out.dtype, box.shape));
    return bytes;
  }
  [[nodiscard]] Bytes expected(const MemorySource& source, std::size_t t) const {
    Bytes bytes(static_cast<std::size_t>(element_count(box.shape)) * request.out.element_size);
    const ArrayView whole =
        make_view(ByteView(source.values[t]), source.tensors[t].dtype, source.tensors[t].shape);
    copy_elements(subview(whole, box),
                  make_view(MutableByteView(bytes), request.out.dtype, box.shape));
    return bytes;
  }
  Box box;
  Bytes memory;
  ReadRequest request;
};

// In pieces of every kind: whole runs, through scratch memory, run by run, packed.
TEST(SafetensorsReader, ReadsAnyBoxIntoAnyStrides) {
  MemorySource source;
  source.add_pattern("large", DType::kFloat32, {40, 50, 60}, 0);
  source.add_pattern("wide", DType::kInt16, {6, 70'000}, 1);
  source.add_pattern("tall", DType::kUint8, {3000, 9, 11}, 2);
  source.add_pattern("four", DType::kFloat4E2m1fn, {33, 50, 70}, 3, 15);
  source.add_pattern("long", DType::kComplex64, {50'001}, 4);
  source.add_pattern("gaps", DType::kUint8, {20, 30'000}, 5);
  source.add_pattern("one", DType::kFloat64, {}, 6);
  TempDir dir;
  write_safetensors(dir / "x", source.tensors, source.fetch(), {});
  // pieces as small as they get
  const auto checkpoint = open_safetensors(dir / "x", {.resources = {.threads = 2, .memory = 1}});
  std::mt19937 rng(5);
  const auto pick = [&](std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n)(rng);
  };
  for (int round = 0; round < 60; ++round) {
    std::vector<Target> targets;
    for (const auto& tensor : source.tensors) {
      Box box = Box::whole(tensor.shape);
      for (std::size_t d = 0; d < box.rank(); ++d) {
        if (pick(2) == 0) continue;
        box.origin[d] = pick(tensor.shape[d] - 1);
        box.shape[d] = pick(5) == 0 ? 1 : 1 + pick(tensor.shape[d] - box.origin[d] - 1);
      }
      const std::size_t index = checkpoint->index(tensor.name);
      targets.emplace_back(checkpoint->tensors()[index], index, std::move(box),
                           pick(2) == 0 ? 2 : 1);
    }
    std::vector<ReadRequest> requests;
    for (const auto& target : targets) requests.push_back(target.request);
    checkpoint->read(requests, {});
    for (std::size_t t = 0; t < targets.size(); ++t)
      ASSERT_EQ(targets[t].got(), targets[t].expected(source, t))
          << source.tensors[t].name << " " << box_text(targets[t].box) << " round " << round;
  }
}

TEST(SafetensorsReader, ReadsThousandsOfSmallOnesAsOnePlan) {
  MemorySource source;
  for (int i = 0; i < 3000; ++i)
    source.add_pattern("t" + std::to_string(i), i % 3 == 0 ? DType::kInt8 : DType::kFloat32,
                       {i % 7, 5}, static_cast<std::size_t>(i));
  TempDir dir;
  write_safetensors(dir / "x", source.tensors, source.fetch(), {});
  const auto checkpoint = open_safetensors(dir / "x");
  std::vector<std::size_t> wanted;
  // with gaps between
  for (std::size_t i = 0; i < source.tensors.size(); i += 1 + i % 3) wanted.push_back(i);
  std::vector<Array> arrays;
  std::vector<ReadRequest> requests;
  for (const std::size_t i : wanted) {
    arrays.push_back(Array::allocate(source.tensors[i].dtype, source.tensors[i].shape));
    requests.push_back({checkpoint->index(source.tensors[i].name),
                        Box::whole(source.tensors[i].shape), arrays.back().mutable_view()});
  }
  std::atomic<std::uint64_t> last = 0, total = 0;
  checkpoint->read(requests, [&](std::uint64_t done, std::uint64_t all) {
    total = all;
    if (done == all) last = done;
  });
  EXPECT_EQ(last, total);
  for (std::size_t w = 0; w < wanted.size(); ++w)
    ASSERT_EQ(testing::to_bytes(arrays[w].bytes()), source.values[wanted[w]]) << wanted[w];
}

TEST(SafetensorsReader, ChecksRequests) {
  const auto checkpoint = open_safetensors(golden(kSafetensorsGolden + "all.safetensors"));
  const std::size_t index = checkpoint->index("float32/3.4");
  Array out = Array::allocate(DType::kFloat32, {2, 3, 4});
  const auto read = [&](const ReadRequest& request) { checkpoint->read({&request, 1}, {}); };
  EXPECT_THAT(
      [&] {
        read({index, {{0, 0, 1}, {2, 3, 4}}, out.mutable_view()});
      },
      FailsWith(Code::kOutOfRange, "float32/3.4"));
  EXPECT_THAT(
      [&] {
        read({index, {{0, 0, 0}, {2, 3, 3}}, out.mutable_view()});
      },
      FailsWith(Code::kInvalidArgument, "does not match destination shape"));
  EXPECT_THAT(
      [&] {
        read({checkpoint->index("int32/3.4"), Box::whole({2, 3, 4}), out.mutable_view()});
      },
      FailsWith(Code::kInvalidArgument, "int32"));
  EXPECT_THAT(
      [&] {
        read({99999, Box::whole({2, 3, 4}), out.mutable_view()});
      },
      FailsWith(Code::kOutOfRange));
}

TEST(SafetensorsReader, ShowsSixBitTypesButDoesNotReadThem) {
  TempDir dir;
  put_file(dir / "x", std::string("\x3d\0\0\0\0\0\0\0", 8) +
                          R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}   abc)");
  const auto checkpoint = open_safetensors(dir / "x");
  EXPECT_EQ(checkpoint->tensors()[0].dtype_name, "F6_E2M3");
  EXPECT_EQ(checkpoint->tensors()[0].nbytes, 3U);
  EXPECT_THAT([&] { static_cast<void>(checkpoint->read("a")); },
              FailsWith(Code::kUnimplemented, "F6_E2M3"));
  EXPECT_FALSE(checkpoint->try_view(0));
  EXPECT_EQ(checkpoint->verify({}).bytes, 3U);
}

TEST(SafetensorsReader, VerifyReadsEveryByteAndVouchesForNone) {
  TempDir dir;
  testing::copy_tree(golden(kSafetensorsGolden + "all.safetensors"), dir / "x.safetensors");
  const auto checkpoint = open_safetensors(dir / "x.safetensors");
  const VerifyReport good = checkpoint->verify({});
  EXPECT_TRUE(good.findings.empty());
  // the 24 four-bit elements of all.values take 12 bytes in the file
  EXPECT_EQ(good.bytes, 1713U - 12U);
  EXPECT_EQ(good.unprotected.size(), checkpoint->tensors().size());
  // Cut short behind our back.
  fs::resize_file(dir / "x.safetensors", fs::file_size(dir / "x.safetensors") - 1);
  EXPECT_THAT([&] { static_cast<void>(checkpoint->verify({})); },
              FailsWith(Code::kUnavailable, "another program wrote to it"));
  EXPECT_THAT([&] { static_cast<void>(checkpoint->read("bool/3.4")); },
              FailsWith(Code::kUnavailable, "another program wrote to it"));
  EXPECT_THAT([&] { open_safetensors(dir / "x.safetensors"); },
              FailsWith(Code::kDataLoss, "tensors end at byte"));
}

const std::string kIndex = "model.safetensors.index.json";

// Opens the golden set, damaged, and loads it. Every tensor that can be opened can be read.
void open_damaged(const std::function<void(const std::string&)>& damage) {
  TempDir dir;
  testing::copy_tree(golden(kSafetensorsGolden + "set"), dir / "set");
  damage(dir / "set/");
  const auto set = open_safetensors(dir / ("set/" + kIndex));
  std::size_t lost = 0;
  for (const TensorInfo& tensor : set->tensors()) {
    if (tensor.error.empty()) static_cast<void>(set->read(tensor.name));
    lost += tensor.error.empty() ? 0 : 1;
  }
  const VerifyReport report = set->verify({});
  EXPECT_EQ(static_cast<std::size_t>(
                std::count_if(report.findings.begin(), report.findings.end(),
                              [](const Finding& f) { return f.severity == Severity::kDamage; })),
            lost);
  static_cast<void>(set->load());
}

void open_edited(const std::string& from, const std::string& to) {
  open_damaged([&](const std::string& folder) {
    std::string text(as_text(read_file(folder + kIndex)));
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    put_file(folder + kIndex, text.replace(at, from.size(), to));
  });
}

TEST(SafetensorsReader, RefusesAnIndexThatDoesNotFit) {
  const std::string member = "\"bfloat16/0.0\": \"model-00002-of-00003.safetensors\"";
  const std::string name = "\"bfloat16/0.0\": ";
  open_edited(member, member);  // good as it is
  EXPECT_THAT([&] { open_edited(member, name + "\"model-00001-of-00003.safetensors\""); },
              FailsWith(Code::kDataLoss, "bfloat16/0.0: "));
  for (const std::string outside : {"../model-00002-of-00003.safetensors", "/etc/passwd", "", ".",
                                    "a//b", "a/../../b", "a\\\\b", "a\\u0000"})
    EXPECT_THAT([&] { open_edited(member, name + '"' + outside + '"'); },
                FailsWith(Code::kDataLoss, "not in the index's folder"))
        << outside;
  EXPECT_THAT([&] { open_edited(member, name + "2"); },
              FailsWith(Code::kDataLoss, "not a file name"));
  EXPECT_THAT([&] { open_edited(name, "\"new\": "); }, FailsWith(Code::kDataLoss, "new: "));
  EXPECT_THAT([&] { open_edited("weight_map", "weights"); },
              FailsWith(Code::kDataLoss, "weight_map"));
  EXPECT_THAT([&] { open_edited("}", "]"); }, FailsWith(Code::kDataLoss, kIndex));
}

TEST(SafetensorsReader, RefusesShardsThatDoNotFit) {
  const std::string first = "model-00001-of-00003.safetensors",
                    second = "model-00002-of-00003.safetensors";
  EXPECT_THAT(
      [&] { open_damaged([&](const std::string& folder) { fs::remove(folder + second); }); },
      FailsWith(Code::kDataLoss, second + ": the shard is missing"));
  EXPECT_THAT(
      [&] {
        open_damaged([&](const std::string& folder) { fs::resize_file(folder + second, 350); });
      },
      FailsWith(Code::kDataLoss, second));
  EXPECT_THAT(
      [&] {
        open_damaged(
            [&](const std::string& folder) { fs::rename(folder + first, folder + second); });
      },
      FailsWith(Code::kDataLoss, "is not in this file"));
  EXPECT_THAT(
      [&] {
        open_damaged([&](const std::string& folder) {
          fs::remove(folder + second);
          fs::copy_file(folder + first, folder + second);
        });
      },
      FailsWith(Code::kDataLoss, "is not in this file"));
}

TEST(SafetensorsReader, ReadsWhatIsThereOfASet) {
  TempDir dir;
  testing::copy_tree(golden(kSafetensorsGolden + "set"), dir / "set");
  const std::string path = dir / ("set/" + kIndex);
  const auto whole = open_safetensors(path);
  fs::remove(dir / "set/model-00001-of-00003.safetensors");
  put_file(dir / "set/model-00002-of-00003.safetensors", "<html>Access denied");
  const auto set = open_safetensors(path);
  ASSERT_EQ(set->tensors().size(), whole->tensors().size());
  ASSERT_EQ(set->info().warnings.size(), 2U);
  EXPECT_NE(set->info().warnings[0].find("00001-of-00003.safetensors: the shard is missing; the "),
            std::string::npos)
      << set->info().warnings[0];
  EXPECT_NE(set->info().warnings[1].find("00002-of-00003.safetensors is a web page (HTML)"),
            std::string::npos);
  std::size_t read = 0;
  for (std::size_t i = 0; i < set->tensors().size(); ++i) {
    const TensorInfo& tensor = set->tensors()[i];
    EXPECT_EQ(tensor.name, whole->tensors()[i].name);
    if (!tensor.error.empty()) {
      EXPECT_FALSE(tensor.is_described());
      EXPECT_THAT([&] { static_cast<void>(set->read(tensor.name)); },
                  FailsWith(Code::kDataLoss, tensor.name + ": "));
      continue;
    }
    const Array ours = set->read(tensor.name), all = whole->read(tensor.name);
    EXPECT_TRUE(std::ranges::equal(ours.bytes(), all.bytes()));
    ++read;
  }
  EXPECT_GT(read, 0U);
  fs::remove(dir / "set/model-00002-of-00003.safetensors");
  fs::remove(dir / "set/model-00003-of-00003.safetensors");
  EXPECT_EQ(open_safetensors(path)->tensors().size(), whole->tensors().size());
  EXPECT_TRUE(open_safetensors(path)->verify({}).damaged());
}

TEST(SafetensorsReader, NotesWhatTheIndexDoesNotKnow) {
  TempDir dir;
  testing::copy_tree(golden(kSafetensorsGolden + "set"), dir / "set");
  const std::string path = dir / ("set/" + kIndex);
  Json index = parse_json(as_text(read_file(path)));
  Json map;
  for (const auto& [name, file] : *index.find("weight_map")->as_object())
    if (name != "uint8/3.4") map.set(name, file);
  index.set("weight_map", map);
  index.set("metadata", Json(JsonObject{{"total_size", Json(7)}}));
  put_file(path, to_text(index));
  const auto set = open_safetensors(path);
  EXPECT_EQ(set->tensors().size(), 15U)
      << "a tensor of the set is not lost because the index forgot it";
  const VerifyReport report = set->verify({});
  EXPECT_FALSE(report.damaged());
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].tensor, "uint8/3.4");
  EXPECT_NE(report.findings[1].message.find("total_size is 7"), std::string::npos);
  // In two shards: nobody can tell which one counts.
  fs::copy_file(dir / "set/model-00003-of-00003.safetensors", dir / "set/other");
  map.set("uint8/1.2", Json("other"));
  index.set("weight_map", map);
  put_file(path, to_text(index));
  const auto twice = open_safetensors(path);
  ASSERT_EQ(twice->tensors().size(), 15U);
  EXPECT_THAT([&] { static_cast<void>(twice->read("uint8/3.4")); },
              FailsWith(Code::kDataLoss, "is in two shards"));
  static_cast<void>(twice->read("float32/0.0"));
}

}  // namespace
}  // namespace cairn
