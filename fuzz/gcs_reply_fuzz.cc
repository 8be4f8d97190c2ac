// gcs_reply_fuzz.cc -- parses any text as each reply of Google Cloud Storage's JSON API. A damaged
// reply is data_loss.
#include <cairn/error.h>
#include <cairn/kvstore/object/gcs/gcs_reply.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

template <class Parse>
void parse(Parse parse_reply, std::string_view text) {
  try {
    (void)parse_reply(text);
  } catch (const cairn::Error& e) {
    if (e.code() != cairn::Code::kDataLoss) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn::object;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse(parse_gcs_object, text);
  parse(parse_gcs_page, text);
  parse(parse_gcs_rewrite, text);
  if (const auto crc = crc32c_of_hash(text); crc && parse_crc32c(crc32c_text(*crc)) != crc)
    std::abort();
  (void)stored_of_range(text);
  return 0;
}
