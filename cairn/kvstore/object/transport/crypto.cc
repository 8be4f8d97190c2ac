// crypto.cc -- the functions of libcrypto that OpenSSL 1.1.1 and 3 have in common.
#include <cairn/kvstore/object/transport/crypto.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/object/transport/shared_library.h>

#include <cstdint>

namespace cairn::inline v0::object {
namespace {

constexpr std::array<const char*, 2> kCryptoNames = {"libcrypto.so.3", "libcrypto.so.1.1"};
constexpr std::size_t kMostPem = std::size_t{64} << 10U;
constexpr int kRsaKey = 6;  // EVP_PKEY_RSA

// OpenSSL's pointers are opaque, so all of them are void* here.
struct CryptoApi {
  SharedLibrary library{kCryptoNames, "OpenSSL's libcrypto (Debian package libssl3)"};

  const char* (*version)(int) = library.function("OpenSSL_version");
  void* (*new_context)() = library.function("EVP_MD_CTX_new");
  void (*free_context)(void*) = library.function("EVP_MD_CTX_free");
  const void* (*sha256)() = library.function("EVP_sha256");
  const void* (*md5)() = library.function("EVP_md5");
  int (*init)(void*, const void*, void*) = library.function("EVP_DigestInit_ex");
  int (*update)(void*, const void*, std::size_t) = library.function("EVP_DigestUpdate");
  int (*finish)(void*, void*, unsigned*) = library.function("EVP_DigestFinal_ex");
  void* (*new_bio)(const void*, int) = library.function("BIO_new_mem_buf");
  int (*free_bio)(void*) = library.function("BIO_free");
  void* (*read_key)(void*, void**, int (*)(char*, int, int, void*),
                    void*) = library.function("PEM_read_bio_PrivateKey");
  // Renamed in OpenSSL 3.
  int (*key_type)(const void*) = library.function(library.has("EVP_PKEY_get_base_id")
                                                      ? "EVP_PKEY_get_base_id"
                                                      : "EVP_PKEY_base_id");
  void (*free_key)(void*) = library.function("EVP_PKEY_free");
  int (*sign_init)(void*, void**, const void*, void*,
                   void*) = library.function("EVP_DigestSignInit");
  int (*sign)(void*, std::byte*, std::size_t*, const std::byte*,
              std::size_t) = library.function("EVP_DigestSign");
  void (*clear_errors)() = library.function("ERR_clear_error");
};

const CryptoApi& crypto_api() {
  static const CryptoApi api;
  return api;
}

// Empties this thread's queue of errors, which the program's own OpenSSL may share, and throws.
[[noreturn]] void fail_crypto(Code code, std::string message) {
  crypto_api().clear_errors();
  throw Error(code, std::move(message));
}

using CryptoHandle = std::unique_ptr<void, void (*)(void*)>;

CryptoHandle new_digest() {
  return {crypto_api().new_context(), [](void* context) { crypto_api().free_context(context); }};
}

template <std::size_t Size>
std::array<std::byte, Size> digest_of(void* context) {
  std::array<std::byte, Size> digest{};
  if (crypto_api().finish(context, digest.data(), nullptr) != 1)
    fail_crypto(Code::kUnimplemented, "OpenSSL cannot finish a hash");
  return digest;
}

// Without a password: OpenSSL would ask the terminal for one.
int refuse_password(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*user*/) { return 0; }

CryptoHandle read_key(std::string_view pem) {
  const CryptoApi& api = crypto_api();
  if (pem.size() > kMostPem)
    invalid_argument("the private key has " + std::to_string(pem.size()) +
                     " bytes, more than a key in PEM form has");
  const CryptoHandle text(api.new_bio(pem.data(), static_cast<int>(pem.size())),
                          [](void* bio) { crypto_api().free_bio(bio); });
  CryptoHandle key(text ? api.read_key(text.get(), nullptr, refuse_password, nullptr) : nullptr,
                   [](void* one) { crypto_api().free_key(one); });
  if (!key)
    fail_crypto(
        Code::kInvalidArgument,
        "the private key is not an unencrypted key in PEM form (-----BEGIN PRIVATE KEY-----)");
  if (api.key_type(key.get()) != kRsaKey)
    fail_crypto(Code::kInvalidArgument, "the private key is not an RSA key, which RS256 needs");
  return key;
}

}  // namespace

std::string crypto_version() { return crypto_api().version(0); }

void Sha256::Free::operator()(void* context) const { crypto_api().free_context(context); }

Sha256::Sha256() : context_(crypto_api().new_context()) {
  const CryptoApi& api = crypto_api();
  if (!context_ || api.init(context_.get(), api.sha256(), nullptr) != 1)
    fail_crypto(Code::kUnimplemented, "OpenSSL cannot compute SHA-256");
}

void Sha256::update(ByteView bytes) {
  if (crypto_api().update(context_.get(), bytes.data(), bytes.size()) != 1)
    fail_crypto(Code::kUnimplemented, "OpenSSL cannot compute SHA-256");
}

Sha256Digest Sha256::finish() { return digest_of<32>(context_.get()); }

Sha256Digest sha256(std::span<const ByteView> parts) {
  Sha256 hash;
  for (const ByteView part : parts) hash.update(part);
  return hash.finish();
}

Sha256Digest sha256(ByteView bytes) { return sha256({&bytes, 1}); }

// Two hashes: the one-shot HMAC of OpenSSL 3 looks up its algorithm by name in each call.
Sha256Digest hmac_sha256(ByteView key, ByteView bytes) {
  std::array<std::byte, 64> inner{}, outer{};
  Sha256Digest short_key{};
  if (key.size() > inner.size()) {
    short_key = sha256(key);
    key = short_key;
  }
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const std::byte part = i < key.size() ? key[i] : std::byte{0};
    inner[i] = part ^ std::byte{0x36};
    outer[i] = part ^ std::byte{0x5c};
  }
  const std::array<ByteView, 2> first = {inner, bytes};
  const Sha256Digest middle = sha256(first);
  const std::array<ByteView, 2> second = {outer, middle};
  return sha256(second);
}

Md5Digest md5(std::span<const ByteView> parts) {
  const CryptoApi& api = crypto_api();
  const CryptoHandle context = new_digest();
  if (!context || api.init(context.get(), api.md5(), nullptr) != 1)
    fail_crypto(Code::kUnimplemented, "OpenSSL cannot compute MD5 here");
  for (const ByteView part : parts)
    if (api.update(context.get(), part.data(), part.size()) != 1)
      fail_crypto(Code::kUnimplemented, "OpenSSL cannot compute MD5 here");
  return digest_of<16>(context.get());
}

Bytes sign_rs256(std::string_view pem, ByteView bytes) {
  const CryptoApi& api = crypto_api();
  const CryptoHandle key = read_key(pem);
  const CryptoHandle context = new_digest();
  std::size_t size = 0;
  const bool is_ready =
      context && api.sign_init(context.get(), nullptr, api.sha256(), nullptr, key.get()) == 1 &&
      api.sign(context.get(), nullptr, &size, bytes.data(), bytes.size()) == 1;
  Bytes signature(is_ready ? size : 0);
  if (!is_ready ||
      api.sign(context.get(), signature.data(), &size, bytes.data(), bytes.size()) != 1)
    fail_crypto(Code::kInvalidArgument, "OpenSSL cannot sign with the private key");
  signature.resize(size);
  return signature;
}

std::string hex_digits(ByteView bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kHexDigits[std::to_integer<std::size_t>(byte) >> 4U];
    text += kHexDigits[std::to_integer<std::size_t>(byte) & 15U];
  }
  return text;
}

}  // namespace cairn::inline v0::object
