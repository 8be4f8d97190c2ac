// The header of a safetensors file without its end, or with a damaged length.
#include <cairn/formats/safetensors/header.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

SafetensorsHeader sample() {
  const auto type = [](std::string_view name) {
    const auto types = safetensors_types();
    return static_cast<std::size_t>(std::ranges::find(types, name, &SafetensorsType::name) -
                                    types.begin());
  };
  return {.metadata = {{"format", "pt"}},
          .tensors = {{"a", type("F32"), {2, 3}, 0, 24}, {"b", type("U8"), {5}, 24, 29}}};
}

TEST(SafetensorsRemains, KnowsTensorsBeyondTheEnd) {
  const Bytes header = encode_safetensors_header(sample());
  const SafetensorsRemains found = decode_safetensors_remains(header, header.size() + 3);
  EXPECT_EQ(found.header, sample());
  EXPECT_EQ(found.data_start, header.size());
  EXPECT_TRUE(found.refused.empty());
}

TEST(SafetensorsRemains, FindsTheDataWithoutTheLength) {
  const Bytes header = encode_safetensors_header(sample());
  for (const unsigned byte : {0U, 1U, 40U, 255U}) {
    Bytes damaged = header;
    std::fill_n(damaged.begin(), 8, static_cast<std::byte>(byte));
    const SafetensorsRemains found = decode_safetensors_remains(damaged, header.size() + 29);
    EXPECT_EQ(found.header, sample());
    EXPECT_EQ(found.data_start, header.size());
    // Only the end of the file tells how many spaces follow the JSON.
    EXPECT_THROW(decode_safetensors_remains(damaged, header.size() + 10), Error);
  }
}

TEST(SafetensorsRemains, RefusesEntriesThatOverlapOrContradictThemselves) {
  SafetensorsHeader header = sample();
  header.tensors.push_back({"c", header.tensors[1].type, {4}, 26, 30});
  header.tensors.push_back({"d", header.tensors[1].type, {4}, 30, 31});
  const Bytes encoded = encode_safetensors_header(header);
  const SafetensorsRemains found = decode_safetensors_remains(encoded, encoded.size() + 31);
  ASSERT_EQ(found.header.tensors.size(), 1U);
  EXPECT_EQ(found.header.tensors[0].name, "a");
  EXPECT_EQ(found.refused.size(), 3U);
}

TEST(SafetensorsRemains, AnyDamageToTheJsonIsAnErrorOrAnotherHeader) {
  const Bytes header = encode_safetensors_header(sample());
  for (std::size_t at = 0; at < header.size(); ++at)
    for (unsigned bit = 0; bit < 8; ++bit) {
      Bytes damaged = header;
      damaged[at] ^= static_cast<std::byte>(1U << bit);
      const auto found =
          try_call([&] { return decode_safetensors_remains(damaged, header.size() + 29); });
      if (!found) continue;
      for (const SafetensorsEntry& entry : found.value().header.tensors)
        EXPECT_LE(entry.begin, entry.end);
    }
  for (std::size_t size = 0; size < header.size(); ++size)
    (void)try_call([&] { return decode_safetensors_remains(ByteView(header).first(size), size); });
}

}  // namespace
}  // namespace cairn::inline v0
