// store_url_fuzz.cc -- parses any bytes as the URL of a store, as a key, as a Content-Range and as
// the times of answers. Errors are allowed. A URL that parses must hold only keys that are allowed,
// and percent-encoding must read back.
#include <cairn/error.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/store_time.h>
#include <cairn/kvstore/object/request/url.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

using namespace cairn::object;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const StoreUrl url = parse_store_url(text);
    if (!url.prefix.empty() && flaw_of_object_key(url.prefix) != nullptr) std::abort();
    if (url.scheme == StoreScheme::kHttp ? url.origin.empty() : url.bucket.empty()) std::abort();
  } catch (const cairn::Error& e) {
    if (e.code() != cairn::Code::kInvalidArgument) std::abort();
  }
  if (flaw_of_object_key(text) == nullptr && !text.empty() && !may_begin_object_keys(text))
    std::abort();
  for (const Slash slash : {Slash::kKept, Slash::kEncoded})
    if (percent_decoded_text(percent_encoded(text, slash)) != text) std::abort();
  (void)percent_decoded_text(text, true);
  if (const auto range = parse_content_range(text))
    if (range->total && range->first + range->length > *range->total) std::abort();
  if (ns_of_iso_time(text) < 0 || ns_of_http_date(text) < 0) std::abort();
  return 0;
}
