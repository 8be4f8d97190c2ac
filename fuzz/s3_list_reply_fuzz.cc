// s3_list_reply_fuzz.cc -- parses any bytes as each of the XML documents with which S3 answers.
// Errors are allowed. What a listing holds is within what its bytes can hold.
#include <cairn/kvstore/object/request/s3_reply.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/request/xml.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

template <class Parse>
void parse_any(Parse&& parse) {
  try {
    parse();
  } catch (const cairn::Error& e) {
    if (e.code() != cairn::Code::kDataLoss) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse_any([&] { (void)cairn::object::parse_xml(text); });
  parse_any([&] {
    const auto page = cairn::object::parse_list_page(text);
    std::size_t bytes = page.next.size();
    for (const auto& value : page.values) bytes += value.key.size() + value.version.size();
    for (const auto& folder : page.folders) bytes += folder.size();
    if (bytes > size) std::abort();
  });
  parse_any([&] { (void)cairn::object::parse_upload_page(text); });
  parse_any([&] { (void)cairn::object::parse_upload_id(text); });
  parse_any([&] { (void)cairn::object::parse_object_result(text); });
  parse_any([&] { (void)cairn::object::parse_delete_result(text); });
  cairn::object::HttpResponse response{.status = 500};
  response.body.assign(cairn::as_bytes(text).begin(), cairn::as_bytes(text).end());
  const auto reply = cairn::object::error_reply_of(response);
  for (const std::string* word : {&reply.code, &reply.request_id, &reply.region})
    for (const char c : *word)
      if (c <= ' ' || c >= '\x7f') std::abort();
  return 0;
}
