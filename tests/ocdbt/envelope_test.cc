// What surrounds every object: magic, length, version, compression, checksum.
#include <cairn/codec/decompress.h>
#include <cairn/ocdbt/format/envelope.h>
#include <gtest/gtest.h>

#include "tests/ocdbt/support.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::check_damages;
using cairn::testing::Damage;
using cairn::testing::FailsWith;
using cairn::testing::insert_at;
using cairn::testing::put_at;
using cairn::testing::reseal_crc32c;
using testing::to_bytes;

const auto open_manifest = [](ByteView bytes) {
  return open_envelope(ObjectKind::kManifest, Bytes(bytes.begin(), bytes.end()));
};

// A damage of the content, with length and checksum made right again.
Damage resealed(std::string name, std::function<void(Bytes&)> apply, std::string expect) {
  const auto and_reseal = [apply = std::move(apply)](Bytes& b) {
    apply(b);
    put_at(b, 4, std::uint64_t{b.size()});
    reseal_crc32c(b);
  };
  return {.name = std::move(name),
          .apply = and_reseal,
          .code = Code::kDataLoss,
          .expect = std::move(expect)};
}

TEST(Envelope, GivesBackTheBody) {
  const Bytes bodies[] = {{}, to_bytes("body"), Bytes(100000, std::byte{7})};
  for (const Bytes& body : bodies)
    for (const std::optional<std::int32_t> level :
         {std::optional<std::int32_t>(), {0}, {22}, {-131072}})
      for (const ObjectKind kind :
           {ObjectKind::kManifest, ObjectKind::kBtreeNode, ObjectKind::kVersionNode}) {
        const Bytes sealed = seal_envelope(kind, body, level);
        EXPECT_EQ(sniff_object(sealed), kind);
        const Envelope opened = open_envelope(kind, sealed);
        EXPECT_EQ(as_text(opened.body()), as_text(body));
        EXPECT_EQ(opened.compressed, level.has_value());
      }
}

TEST(Envelope, SniffsNothingElse) {
  EXPECT_EQ(sniff_object({}), std::nullopt);
  EXPECT_EQ(sniff_object(to_bytes("\x0c\xdb\x3a")), std::nullopt);
  EXPECT_EQ(sniff_object(to_bytes("something")), std::nullopt);
}

TEST(Envelope, LargeObjectsAreCheckedBeforeTheyAreRead) {
  const Bytes good =
      seal_envelope(ObjectKind::kBtreeNode, Bytes(kCheckedFirst, std::byte{7}), std::nullopt);
  const auto check = [&](std::uint64_t length, const Bytes& object) {
    std::uint64_t most = 0;
    check_before_reading(length, [&](std::uint64_t at, MutableByteView out) {
      most = std::max<std::uint64_t>(most, out.size());
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = at + i < object.size() ? object[at + i] : std::byte{0};
    });
    return most;
  };
  EXPECT_EQ(check(good.size(), good), std::uint64_t{1} << 20U);
  EXPECT_EQ(check(kCheckedFirst - 1, good), 0U) << "nothing is read twice";
  EXPECT_THAT([&] { check(good.size() + 1, good); },
              FailsWith(Code::kDataLoss, "length in header (16777234) does not match"));
  EXPECT_THAT([&] { check(kMaxEncodedSize + 1, good); },
              FailsWith(Code::kDataLoss, "an encoded object has"));
  Bytes bad = good;
  bad[good.size() / 2] ^= std::byte{1};
  EXPECT_THAT([&] { check(bad.size(), bad); },
              FailsWith(Code::kDataLoss, "CRC-32C checksum mismatch"));
}

TEST(Envelope, RawDamages) {
  const Bytes good = seal_envelope(ObjectKind::kManifest, to_bytes("body"), std::nullopt);
  const Damage table[] = {
      {"empty", [](Bytes& b) { b.clear(); }, Code::kDataLoss,
       "0 bytes are too few for a manifest, expected at least 16"},
      {"15 bytes", [](Bytes& b) { b.resize(15); }, Code::kDataLoss, "15 bytes are too few"},
      {"magic", [](Bytes& b) { b[3] = std::byte{0xde}; }, Code::kDataLoss,
       "starts with the bytes 0cdb3a2a, found 0cdb3ade"},
      {"truncated", [](Bytes& b) { b.pop_back(); }, Code::kDataLoss,
       "length in header (22) does not match actual length (21)"},
      {"extended", [](Bytes& b) { b.push_back({}); }, Code::kDataLoss,
       "length in header (22) does not match actual length (23)"},
      {"length", [](Bytes& b) { put_at(b, 4, ~std::uint64_t{0}); }, Code::kDataLoss,
       "length in header (18446744073709551615)"},
      {"body", [](Bytes& b) { b[14] ^= std::byte{1}; }, Code::kDataLoss,
       "CRC-32C checksum mismatch: stored"},
      {"checksum", [](Bytes& b) { b.back() ^= std::byte{1}; }, Code::kDataLoss,
       "CRC-32C checksum mismatch: stored"},
      resealed(
          "version 1", [](Bytes& b) { b[12] = std::byte{1}; },
          "format version 1 is newer than the supported version 0"),
      resealed(
          "compression 2", [](Bytes& b) { b[13] = std::byte{2}; },
          "unsupported compression format 2"),
      resealed(
          "no zstd frame", [](Bytes& b) { b[13] = std::byte{1}; }, "zstd"),
      resealed(
          "endless version", [](Bytes& b) { std::fill(b.begin() + 12, b.end(), std::byte{0x80}); },
          "varint is too long"),
  };
  check_damages(good, table, open_manifest);
}

TEST(Envelope, SixteenBytesHoldAnEmptyBodyOrNothing) {
  Bytes bytes = seal_envelope(ObjectKind::kManifest, {}, std::nullopt);
  ASSERT_EQ(bytes.size(), 18U);
  bytes.resize(16);  // the smallest that is looked at has no room for version and compression
  put_at(bytes, 4, std::uint64_t{16});
  reseal_crc32c(bytes);
  EXPECT_THROW(open_manifest(bytes), Error);
}

TEST(Envelope, CompressedDamages) {
  const Bytes good = seal_envelope(ObjectKind::kManifest, Bytes(3000, std::byte{7}), 3);
  const Bytes frame = compress_zstd(to_bytes("x"), 1, false);
  const Damage table[] = {
      resealed(
          "a byte behind the frame", [](Bytes& b) { insert_at(b, b.size() - 4, to_bytes("x")); },
          "zstd"),
      resealed(
          "a second frame", [&](Bytes& b) { insert_at(b, b.size() - 4, frame); },
          "bytes follow its only frame"),
      resealed(
          "the frame cut short", [](Bytes& b) { b.erase(b.end() - 6, b.end() - 4); }, "zstd"),
      resealed(
          "the frame's own header", [](Bytes& b) { b[14] ^= std::byte{1}; }, "zstd"),
  };
  check_damages(good, table, open_manifest);
}

TEST(Envelope, AFewKilobytesThatDecodeToVeryMuchAreRefused) {
  const Bytes bomb = seal_envelope(ObjectKind::kManifest, Bytes(kAlwaysAllowedBody + 1), 1);
  ASSERT_LT(bomb.size(), 100'000U);
  EXPECT_THAT([&] { open_manifest(bomb); }, cairn::testing::FailsWith(Code::kDataLoss, "zstd"));
}

TEST(Envelope, AFrameWithItsOwnChecksumIsAccepted) {
  const Bytes body = to_bytes("the body of a manifest");
  Bytes bytes = seal_envelope(ObjectKind::kManifest, compress_zstd(body, 3, true), std::nullopt);
  bytes[13] = std::byte{1};
  reseal_crc32c(bytes);
  EXPECT_EQ(as_text(open_manifest(bytes).body()), as_text(body));
}

}  // namespace
}  // namespace cairn::ocdbt
