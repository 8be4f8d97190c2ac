// Vectors of FIPS 180-4, RFC 4231 and RFC 1321; the RSA signature is one of the openssl command.
#include <cairn/kvstore/object/transport/crypto.h>
#include <cairn/kvstore/object/transport/shared_library.h>
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/kvstore/object/support/rsa_key.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using ::cairn::testing::error_of;
using ::cairn::testing::FailsWith;

std::string sha256_of(std::string_view text) { return hex_digits(sha256(as_bytes(text))); }
std::string hmac_of(std::string_view key, std::string_view text) {
  return hex_digits(hmac_sha256(as_bytes(key), as_bytes(text)));
}
std::string md5_of(std::string_view text) {
  const ByteView bytes = as_bytes(text);
  return hex_digits(md5({&bytes, 1}));
}

TEST(Crypto, Sha256) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Crypto, Sha256OfPieces) {
  const std::string text(10'000, 'a');
  Sha256 pieces;
  for (std::size_t at = 0; at < text.size(); at += 999)
    pieces.update(as_bytes(std::string_view(text).substr(at, 999)));
  EXPECT_EQ(hex_digits(pieces.finish()), sha256_of(text));
  const std::vector<ByteView> parts = {as_bytes("a"), {}, as_bytes("bc")};
  EXPECT_EQ(hex_digits(sha256(parts)), sha256_of("abc"));
}

TEST(Crypto, HmacSha256) {
  EXPECT_EQ(hmac_of(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  // A key longer than a block.
  EXPECT_EQ(
      hmac_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Crypto, Md5) {
  EXPECT_EQ(md5_of(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_of("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
}

constexpr std::string_view kEcKey = R"(-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIA2jnEHiOM0K85EZnpWz7oEDv0xnjU+mytetBowNZJYWoAoGCCqGSM49
AwEHoUQDQgAEVDOLnSMXlV1XdAt3WzFMC2Apw8CKKdjofjBRw2jvuZyEOeYJjSWj
MMlkB5CgIE+ncjlJ6CN5g099jptcDFLgrQ==
-----END EC PRIVATE KEY-----
)";
constexpr std::string_view kEncryptedKey = R"(-----BEGIN ENCRYPTED PRIVATE KEY-----
MIIC3TBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQImnrAi4sewk4CAggA
MAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBBEuEOzCRmNoU+ldb+aTAeIBIIC
gIHzMdeJqGImb5RdXDD+aU3kDJaa+frLIR17OBCUBry7yTnRxRza2P7Lkahg5ATn
S/HmF93zc+ZPD2t0CUeaZYMkLU2m+yQ/o7nVnBL4T3eIZsbJgonFK4qrQJ2zq98h
TsXJrqI4ptKzgAHqsKb0HZkNZETS+Aa3cXVVIeMUgoKviGsY8aNazvmd1J6rxuoc
Pn1f6fAyhEAr5D7Y8C4/U2H0Ju8YK+ELJeHQ+XrBr7tdYflMSytD3OVK1BSIkjms
cg/L8D/CqVacoSthopmf+bzciTGVHGnXhUis+ubH3zps9zs6TUZeFHVDnlGIFnjl
tlQmMllNaujSJKb/+6YBTzMP3DeT1Gu3B7zQDjOOjeen8o8BqxuDN2SdjOYC0c89
nHifiT8xd809U0D+gs5wBJbf3+pBQQKRW0q4oxIfBucMb3ZoMtftur1pPHvKtLED
8vkeSEz+7HlcZkMAA6TmhF0mSd1BvCTsBq0nppDhRBp9cFBFccarfmDvY6A/SsOH
hkmy36wegX/MZylfwnXCeqe225UTKEjZOF8KMq3JsW6s01rsMzZrTAmjEr4KUX+S
PFZ8H8cOtXX6Mckd4IBQAvi+n9J8LlISeiiW4uLAYFG6o3Cki8k5w0UqEaEX37HY
0FSm4dYgfjeyGyI7y423lSzdZUX6hk4n4LQVA9Youa3UnnxVunehXqAXmKhk/2Z9
3pz0eAtf+14As6FASB68H2xfhMVB7tYO+altPD0/5EI4e2i4N1bo1v65jEZtMIyT
vuj03Ju0p8E7QQj4RiOd1T5S9kDd3ep7qoz0QIMIvA4MzmmAiKOWlEq5bYf4BslT
RnjZGMUpX30HwLaEIcac8+k=
-----END ENCRYPTED PRIVATE KEY-----
)";

TEST(Crypto, SignsWithAnRsaKey) {
  EXPECT_EQ(hex_digits(sign_rs256(testing::kRsaKey, as_bytes("header.claims"))),
            "796d1a73f7c4ec1c9c1134c81e06f9b575c00c6a5f486f33f94478b2817a18d9"
            "d35e8dc8c9dad0f87e3c40ce8c8c237c59d490631ba908733549c9b53689956a"
            "06916000831de594622c7a9c93b17785a882ccada8a670b77b1e421d49923986"
            "f23dc6887248e7ad3777fee4cd8a7f5c0a4fef514bf62cd733e96904183b08ee");
}

TEST(Crypto, RefusesOtherKeysWithoutShowingThem) {
  const auto sign = [](std::string_view pem) { (void)sign_rs256(pem, as_bytes("x")); };
  const std::string not_pem = "not an unencrypted key in PEM form";
  EXPECT_EQ(error_of([&] { sign("c2VjcmV0"); }).message().find("c2VjcmV0"), std::string::npos);
  EXPECT_THAT([&] { sign("c2VjcmV0"); }, FailsWith(Code::kInvalidArgument, not_pem));
  EXPECT_THAT([&] { sign(""); }, FailsWith(Code::kInvalidArgument, not_pem));
  EXPECT_THAT([&] { sign(kEncryptedKey); }, FailsWith(Code::kInvalidArgument, not_pem));
  EXPECT_THAT([&] { sign(testing::kRsaKey.substr(0, testing::kRsaKey.size() / 2)); },
              FailsWith(Code::kInvalidArgument, not_pem));
  EXPECT_THAT([&] { sign(kEcKey); }, FailsWith(Code::kInvalidArgument, "is not an RSA key"));
  EXPECT_THAT([&] { sign(std::string(70'000, 'x')); },
              FailsWith(Code::kInvalidArgument, "70000 bytes"));
  // A refusal leaves nothing behind for the next call.
  EXPECT_EQ(sign_rs256(testing::kRsaKey, as_bytes("x")).size(), 128U);
}

TEST(Crypto, HashesOnManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i)
        EXPECT_EQ(sha256_of("abc"),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedLibrary, SaysWhatIsMissing) {
  const std::array<const char*, 2> names = {"libcairn-no-such.so.1", "libcairn-no-such.so.2"};
  EXPECT_THAT([&] { SharedLibrary(names, "libnone (Debian package libnone1)"); },
              FailsWith(Code::kUnimplemented,
                        "needs libnone (Debian package libnone1): libcairn-no-such.so.1: "));
}

TEST(SharedLibrary, TakesTheFirstThatIsThere) {
  const std::array<const char*, 2> names = {"libcairn-no-such.so.1", "libm.so.6"};
  const SharedLibrary library(names, "the mathematical functions");
  double (*root)(double) = library.function("sqrt");
  EXPECT_EQ(root(4), 2);
  EXPECT_TRUE(library.has("sqrt"));
  EXPECT_FALSE(library.has("cairn_none"));
  EXPECT_THAT([&] { (void)library.function("cairn_none"); },
              FailsWith(Code::kUnimplemented,
                        "needs the mathematical functions: it has no function cairn_none"));
}

}  // namespace
}  // namespace cairn::object
