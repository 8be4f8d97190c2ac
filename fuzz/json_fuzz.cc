// json_fuzz.cc -- any bytes are refused as JSON or are a value that every spelling reads back
// unchanged.
#include <cairn/base/json.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const cairn::Json json = cairn::parse_json(text);
    // Compared as text: NaN is not equal to itself.
    const std::string compact = cairn::to_text(json);
    for (const auto style :
         {cairn::JsonStyle::kCompact, cairn::JsonStyle::kPython, cairn::JsonStyle::kPretty})
      if (cairn::to_text(cairn::parse_json(cairn::to_text(json, style))) != compact) std::abort();
  } catch (const cairn::Error&) {  // refused: fine
  }
  return 0;
}
