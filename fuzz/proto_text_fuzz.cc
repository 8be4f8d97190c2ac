// proto_text_fuzz.cc -- checks any bytes as the text of a protocol buffer. A fault lies within the
// text, and a good text is good twice.
#include <cairn/orbax/read/proto_text.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto fault = cairn::orbax::find_proto_text_fault(text);
  if (fault && (fault->offset > size || fault->message.empty())) std::abort();
  if (!fault && cairn::orbax::find_proto_text_fault(text + "\n" + text)) std::abort();
  return 0;
}
