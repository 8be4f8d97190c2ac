// objects_test.cc -- elements of no fixed size: strings are read as zarr-python reads them, chunks
// are checked, and damage and sizes that no memory holds are refused.
#include <cairn/array/box.h>
#include <cairn/base/git_lfs.h>
#include <cairn/codec/compress.h>
#include <cairn/zarr/codec/objects.h>
#include <cairn/zarr/read/array.h>
#include <gtest/gtest.h>
#include <tests/support/damage.h>
#include <tests/support/matchers.h>
#include <tests/zarr/golden.h>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;
using testing::GoldenArray;
using testing::missing_of;

constexpr std::uint64_t kMost = std::uint64_t{1} << 20U;

const std::vector<GoldenArray>& object_arrays() {
  static const auto arrays = testing::load_golden("zarr-python-3.1.6-objects");
  return arrays;
}

VerifyReport verify(const StorePtr& store, MissingChunk missing) {
  CheckedArray checked = verify_array(ZarrArray::open(store, "a"), "a", missing, {});
  VerifyReport report{
      .findings = std::move(checked.findings), .chunks = checked.chunks, .bytes = checked.bytes};
  if (checked.unprotected) report.unprotected.emplace_back("a");
  return report;
}

std::vector<std::string> read(const StorePtr& store, MissingChunk missing) {
  return read_strings(ZarrArray::open(store, "a"), missing, kMost);
}

// The strings of a case: the expected bytes are one chunk of the whole array.
std::vector<std::string> expected_strings(const GoldenArray& golden) {
  std::vector<std::string> strings;
  for_each_object(ObjectCodec::kVlenBytes, element_count(golden.shape), golden.expected,
                  [&](ByteView element) { strings.emplace_back(as_text(element)); });
  return strings;
}

TEST(Objects, StringsAreReadAsZarrPythonReadsThem) {
  for (const GoldenArray& golden : object_arrays()) {
    SCOPED_TRACE(golden.name);
    const StorePtr store = golden.in_memory();
    const ZarrArray array = ZarrArray::open(store, "a");
    EXPECT_EQ(array.metadata().dtype_name, golden.dtype);
    EXPECT_EQ(array.metadata().dtype, DType::kOpaque);
    EXPECT_EQ(array.metadata().element_size, 0U);
    EXPECT_EQ(array.metadata().shape, golden.shape);
    EXPECT_TRUE(has_strings(array.metadata()));
    EXPECT_EQ(read(store, missing_of(golden)), expected_strings(golden));
  }
  EXPECT_EQ(object_arrays().size(), 18U);
}

TEST(Objects, AreCheckedAndHaveNoViewsAndBoxes) {
  for (const GoldenArray& golden : object_arrays()) {
    SCOPED_TRACE(golden.name);
    const StorePtr store = golden.in_memory();
    const ZarrArray array = ZarrArray::open(store, "a");
    if (element_count(golden.shape) == 0) continue;
    EXPECT_FALSE(array.try_view());
    Bytes nothing;
    const MutableArrayView out{.data = nothing.data(),
                               .dtype = DType::kOpaque,
                               .element_size = 0,
                               .shape = golden.shape,
                               .strides = Shape(golden.shape.size())};
    EXPECT_THAT([&] { array.read(Box::whole(golden.shape), out, MissingChunk::kError); },
                FailsWith(Code::kUnimplemented,
                          "elements of type " + golden.dtype + " have no fixed size"));
    const VerifyReport report = verify(store, missing_of(golden));
    for (const Finding& finding : report.findings) ADD_FAILURE() << finding.message;
    const bool sharded = golden.name.find("sharded") != std::string::npos;
    if (!sharded) {
      EXPECT_EQ(report.chunks, golden.keys.size() - 1);
    }
    const bool checksummed = golden.name.find("checksum") != std::string::npos ||
                             golden.name.find("gzip") != std::string::npos;
    EXPECT_EQ(report.unprotected.empty(), checksummed);
  }
}

TEST(Objects, DamageIsFound) {
  for (const GoldenArray& golden : object_arrays()) {
    SCOPED_TRACE(golden.name);
    if (golden.keys.size() == 1) continue;
    const auto& [key, good] = golden.keys.back();
    const StorePtr store = golden.in_memory();
    cairn::testing::for_each_truncation(
        good, [&, &name = key](ByteView bad, const std::string& what) {
          store->write(name, bad);
          EXPECT_EQ(verify(store, missing_of(golden)).findings.size(), 1U) << what;
          EXPECT_THAT([&] { (void)read(store, missing_of(golden)); },
                      FailsWith(Code::kDataLoss, "chunk "))
              << what;
        });
    store->remove(key);
    EXPECT_THAT([&] { (void)read(store, MissingChunk::kError); },
                FailsWith(Code::kDataLoss, "the chunk is missing"));
  }
}

std::string number(std::uint32_t n) { return {reinterpret_cast<const char*>(&n), sizeof n}; }

// A chunk with these elements.
std::string chunk_of(const std::vector<std::string>& elements) {
  std::string chunk = number(static_cast<std::uint32_t>(elements.size()));
  for (const std::string& element : elements)
    chunk += number(static_cast<std::uint32_t>(element.size())) + element;
  return chunk;
}

std::string metadata_of(const std::string& shape, const std::string& chunks,
                        const std::string& fill = "\"\"", const std::string& compressor = "null") {
  return R"({"zarr_format":2,"dtype":"|O","filters":[{"id":"vlen-utf8"}],"shape":)" + shape +
         R"(,"chunks":)" + chunks + R"(,"fill_value":)" + fill + R"(,"compressor":)" + compressor +
         "}";
}

StorePtr store_of(const std::string& metadata, ByteView chunk) {
  StorePtr store = make_memory_store();
  store->write("a/.zarray", as_bytes(metadata));
  store->write("a/0", chunk);
  return store;
}

TEST(Objects, BytesThatNoWriterMakes) {
  const std::string good = chunk_of({"ab", "\xc3\xa9", ""});
  struct Case {
    std::string what, chunk, error;
  };
  const Case cases[] = {
      {"empty", "", "unexpected end of data"},
      {"half a count", good.substr(0, 2), "unexpected end of data"},
      {"only the count", good.substr(0, 4), "unexpected end of data"},
      {"half a length", good.substr(0, 6), "unexpected end of data"},
      {"a missing element", good.substr(0, good.size() - 4), "unexpected end of data"},
      {"too few elements", chunk_of({"a", "b"}), "chunk holds 2 elements, expected 3"},
      {"too many elements", chunk_of({"a", "b", "c", "d"}), "chunk holds 4 elements, expected 3"},
      {"a count that nothing holds", number(0xffffffffU), "chunk holds 4294967295 elements"},
      {"a length that nothing holds", number(3) + number(0xffffffffU) + "abc",
       "unexpected end of data: 4294967295 bytes wanted, 3 left"},
      {"a length one too large", number(3) + number(0) + number(0) + number(2) + "x",
       "unexpected end of data: 2 bytes wanted, 1 left"},
      {"bytes behind the last element", good + "x", "1 bytes are left over"},
      {"no UTF-8", chunk_of({"a", "\xff", "c"}), "element 1 is not UTF-8"},
      {"a surrogate", chunk_of({"a", "b", "\xed\xa0\x80"}), "element 2 is not UTF-8"},
      {"an overlong NUL", chunk_of({"\xc0\x80", "b", "c"}), "element 0 is not UTF-8"},
      {"a character cut in two", chunk_of({"\xc3", "\xa9", "c"}), "element 0 is not UTF-8"},
      {"a Git LFS pointer", std::string(kLfsPointer) + "\noid sha256:00\nsize 7\n",
       "is a Git LFS pointer"},
  };
  const StorePtr fine = store_of(metadata_of("[3]", "[3]"), as_bytes(good));
  EXPECT_EQ(read(fine, MissingChunk::kError), (std::vector<std::string>{"ab", "\xc3\xa9", ""}));
  for (const Case& bad : cases) {
    SCOPED_TRACE(bad.what);
    const StorePtr store = store_of(metadata_of("[3]", "[3]"), as_bytes(bad.chunk));
    EXPECT_THAT([&] { (void)read(store, MissingChunk::kFill); },
                FailsWith(Code::kDataLoss, bad.error));
    const VerifyReport report = verify(store, MissingChunk::kFill);
    ASSERT_EQ(report.findings.size(), 1U);
    EXPECT_NE(report.findings[0].message.find(bad.error), std::string::npos)
        << report.findings[0].message;
  }
}

TEST(Objects, ByteStringsHoldAnyBytes) {
  std::string metadata = metadata_of("[2]", "[2]");
  metadata.replace(metadata.find("vlen-utf8"), 9, "vlen-bytes");
  const std::string nul("\0", 1);
  const StorePtr store = store_of(metadata, as_bytes(chunk_of({"\xff\xfe", nul})));
  EXPECT_EQ(read(store, MissingChunk::kError), (std::vector<std::string>{"\xff\xfe", nul}));
}

TEST(Objects, OtherObjectsAreNotRead) {
  for (const std::string id : {"json2", "pickle", "msgpack2", "vlen-array"}) {
    SCOPED_TRACE(id);
    std::string metadata = metadata_of("[1]", "[1]", "0");
    metadata.replace(metadata.find("vlen-utf8"), 9, id);
    const StorePtr store = store_of(metadata, as_bytes(std::string_view("x")));
    EXPECT_FALSE(has_strings(ZarrArray::open(store, "a").metadata()));
    EXPECT_THAT(
        [&] { (void)read(store, MissingChunk::kError); },
        FailsWith(Code::kInvalidArgument, "elements of type |O (" + id + ") are not strings"));
    EXPECT_TRUE(verify(store, MissingChunk::kError).findings.empty());
  }
}

TEST(Objects, FillValues) {
  const auto first = [](const std::string& codec, const std::string& fill) {
    std::string metadata = metadata_of("[2]", "[1]", fill);
    metadata.replace(metadata.find("vlen-utf8"), 9, codec);
    const StorePtr store = store_of(metadata, as_bytes(chunk_of({"x"})));
    return read(store, MissingChunk::kFill).at(1);
  };
  EXPECT_EQ(first("vlen-utf8", R"("")"), "");
  EXPECT_EQ(first("vlen-utf8", R"("d\u00e9")"), "d\xc3\xa9");
  EXPECT_EQ(first("vlen-utf8", "null"), "");
  EXPECT_EQ(first("vlen-utf8", "0"), "0");
  EXPECT_EQ(first("vlen-utf8", "-12"), "-12");
  EXPECT_EQ(first("vlen-bytes", R"("")"), "");
  EXPECT_EQ(first("vlen-bytes", R"("/wA=")"), std::string("\xff\0", 2));
  EXPECT_EQ(first("vlen-bytes", "[1,255]"), "\x01\xff");
  EXPECT_EQ(first("vlen-bytes", "null"), "");
  for (const std::string fill : {"[]", "{}", "[1]"})
    EXPECT_THAT([&] { first("vlen-utf8", fill); },
                FailsWith(Code::kDataLoss, "fill_value " + fill + " is not a string"));
  for (const std::string fill : {"5", R"("*")", "[256]", "{}", "[\"a\"]"})
    EXPECT_THAT([&] { first("vlen-bytes", fill); },
                FailsWith(Code::kDataLoss, "fill_value " + fill + " is not a byte string"));
}

TEST(Objects, MemoryIsBounded) {
  const Bytes none;
  // Only the number of elements counts, which a hostile shape states.
  const StorePtr many = store_of(metadata_of("[1099511627776]", "[1099511627776]"), none);
  const StorePtr some = store_of(metadata_of("[40000]", "[40000]"), none);
  // The bytes of the elements count: of fill values, and of chunks.
  const StorePtr fills = make_memory_store();
  fills->write("a/.zarray",
               as_bytes(metadata_of("[20000]", "[100]", '"' + std::string(100, 'x') + '"')));
  const std::string long_text(kMost, 'x');
  const StorePtr large = store_of(metadata_of("[1]", "[1]"), as_bytes(chunk_of({long_text})));
  for (const StorePtr& store : {many, some, fills, large})
    EXPECT_THAT([&] { (void)read(store, MissingChunk::kFill); },
                FailsWith(Code::kUnimplemented, "its strings take more than 1048576 bytes"));
  // A chunk of 1 MiB that claims one element and decodes to 64 MiB.
  const std::string bomb = chunk_of({std::string(std::size_t{64} << 20U, 'x')});
  Bytes packed(compress_bound(Codec::kZstd, bomb.size()));
  packed.resize(compress_into(Codec::kZstd, {}, as_bytes(bomb), packed));
  EXPECT_LT(packed.size(), std::size_t{1} << 20U);
  const StorePtr small =
      store_of(metadata_of("[1]", "[1]", "\"\"", R"({"id":"zstd","level":1})"), packed);
  EXPECT_THAT([&] { (void)read(small, MissingChunk::kFill); },
              FailsWith(Code::kDataLoss, "chunk 0"));
}

}  // namespace
}  // namespace cairn::zarr
