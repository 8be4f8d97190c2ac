// json_fuzz.cc -- parses any bytes as JSON. A value that parses must read back unchanged from every
// output style.
#include <cairn/base/json/json.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const cairn::Json json = cairn::parse_json(text);
    // The values are compared as text, because NaN is not equal to itself.
    const std::string compact = cairn::to_text(json);
    for (const auto style :
         {cairn::JsonStyle::kCompact, cairn::JsonStyle::kPython, cairn::JsonStyle::kPretty})
      if (cairn::to_text(cairn::parse_json(cairn::to_text(json, style))) != compact) std::abort();
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
