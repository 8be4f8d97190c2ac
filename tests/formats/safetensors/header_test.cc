// header_test.cc -- the header against the real package: its files, its verdicts, and everything in
// between.
#include <cairn/formats/safetensors/header.h>
#include <cairn/safetensors.h>

#include <map>
#include <set>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::golden;
using testing::kSafetensorsGolden;

SafetensorsHeader decode_file(ByteView file) {
  const std::uint64_t length =
      decode_safetensors_prefix(file.first(std::min<std::size_t>(file.size(), 8)), file.size());
  return decode_safetensors_header(file.subspan(8, length), file.size() - 8 - length);
}

// What the package accepts although the written format forbids it, and an extent that no 64-bit
// signed size can hold.
const std::set<std::string> kStricter = {"a tensor twice", "tensor is an array",
                                         "dtype is an object", "metadata key twice",
                                         "extent 2^64 - 1 behind a zero"};

TEST(SafetensorsHeader, AgreesWithTheReferenceAboutDamagedFiles) {
  const Json verdicts = testing::golden_json(kSafetensorsGolden + "verdicts.json");
  ASSERT_GE(verdicts.as_array()->size(), 100U);
  std::size_t accepted = 0;
  for (const Json& verdict : *verdicts.as_array()) {
    const std::string& name = testing::text_of(verdict, "case");
    const Bytes file = testing::from_hex(testing::text_of(verdict, "file"));
    const auto ours = try_call([&] { return decode_file(file); });
    const std::string message = ours.ok() ? "accepted" : ours.error().message();
    if (!ours.ok()) {
      EXPECT_EQ(ours.error().code(), Code::kDataLoss) << name << ": " << message;
    }
    EXPECT_EQ(ours.ok(), *verdict.find("ok")->as_bool() && !kStricter.contains(name))
        << name << ": " << message;
    if (ours.ok()) ++accepted;
  }
  EXPECT_GE(accepted, 20U);
}

TEST(SafetensorsHeader, WritesWhatTheReferenceWrites) {
  const Bytes file = read_file(golden(kSafetensorsGolden + "all.safetensors"));
  SafetensorsHeader header = decode_file(file);
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  const Bytes encoded = encode_safetensors_header(header);
  ASSERT_LE(encoded.size(), file.size());
  EXPECT_EQ(as_text(encoded), as_text(ByteView(file).first(encoded.size())));
}

TEST(SafetensorsHeader, KnowsEachDtypeOnce) {
  std::map<DType, std::string_view> names;
  for (const auto& type : safetensors_types()) {
    if (!type.dtype) continue;
    EXPECT_TRUE(names.emplace(*type.dtype, type.name).second) << type.name;
    EXPECT_EQ(static_cast<int>(type.bits), dtype_bits(*type.dtype)) << type.name;
  }
  for (int i = 0; i <= kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto it = names.find(dtype);
    EXPECT_EQ(safetensors_dtype(dtype),
              it == names.end() ? std::nullopt : std::optional(it->second))
        << dtype_name(dtype);
  }
  EXPECT_EQ(safetensors_dtype(DType::kFloat8E4m3fn), "F8_E4M3");
  EXPECT_EQ(safetensors_dtype(DType::kFloat8E4m3), std::nullopt);  // IEEE's, with infinities
  EXPECT_EQ(safetensors_dtype(DType::kComplex128), std::nullopt);
  EXPECT_EQ(safetensors_dtype(DType::kInt4), std::nullopt);
}

TEST(SafetensorsHeader, SurvivesEveryTruncationAndFlippedBit) {
  const Bytes file = read_file(golden(kSafetensorsGolden + "set/model-00001-of-00003.safetensors"));
  const auto data_bytes = [](const SafetensorsHeader& header) {
    std::uint64_t bytes = 0;
    for (const auto& entry : header.tensors) bytes += entry.end - entry.begin;
    return bytes;
  };
  const std::uint64_t good = data_bytes(decode_file(file));
  testing::for_each_truncation(file, [&](ByteView bad, const std::string& what) {
    EXPECT_THROW(decode_file(bad), Error) << what;
  });
  // No checksum: a flipped bit may name another tensor or type of the same size, but the data must
  // stay covered exactly.
  testing::for_each_bit_flip(file, [&](ByteView bad, const std::string& what) {
    const auto header = try_call([&] { return decode_file(bad); });
    if (header.ok()) {
      EXPECT_EQ(data_bytes(header.value()), good) << what;
    }
  });
}

TEST(SafetensorsHeader, NamesTheTensorThatIsWrong) {
  const std::string json =
      R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"v":{"dtype":"F32","shape":[3],"data_offsets":[8,16]}})";
  EXPECT_THAT([&] { decode_safetensors_header(as_bytes(json), 16); },
              FailsWith(Code::kDataLoss,
                        "tensor \"v\": F32 (3,) takes 12 bytes, but data_offsets [8, 16] hold 8"));
}

}  // namespace
}  // namespace cairn
