// gcs_credentials_fuzz.cc -- parses any text as a credentials file of Google, and as the reply of a
// token service. What is accepted can be used: addresses and tokens are visible characters.
#include <cairn/error.h>
#include <cairn/kvstore/object/credentials/gcs_token.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn::object;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (!is_visible(parse_google_credentials(text).token_url)) std::abort();
  } catch (const cairn::Error& e) {
    if (e.code() != cairn::Code::kInvalidArgument && e.code() != cairn::Code::kUnimplemented)
      std::abort();
  }
  try {
    const TokenReply reply = parse_token_reply(text);
    if (!is_visible(reply.token) || reply.lasts_s <= 0) std::abort();
  } catch (const cairn::Error& e) {
    if (e.code() != cairn::Code::kDataLoss) std::abort();
  }
  return 0;
}
