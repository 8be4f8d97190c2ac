// aws_profile_fuzz.cc -- parses any text as a shared configuration file, as a command line, and as
// keys in JSON and XML. What parses is whole, and no message holds a value.
#include <cairn/error.h>
#include <cairn/kvstore/object/credentials/aws_keys.h>
#include <cairn/kvstore/object/credentials/ini_file.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace cairn;
using namespace cairn::object;

void check_file(std::string_view text) {
  const auto file = try_call([&] { return parse_ini(text); });
  if (!file.ok()) {
    if (file.error().code() != Code::kInvalidArgument) std::abort();
    return;
  }
  std::size_t bytes = 0;
  for (const auto& [name, section] : file.value())
    for (const auto& [key, value] : section) {
      bytes += value.size();
      if (key.empty() || value.find('\n') != value.npos) std::abort();
      if (ini_value(file.value(), name, key).value_or("") != value) std::abort();
    }
  if (bytes > text.size()) std::abort();
}

template <class Parse>
void check_keys_of(std::string_view text, Parse parse) {
  const auto keys = try_call([&] { return parse(text); });
  if (keys.ok())
    check_keys(keys.value());  // must not throw
  else if (keys.error().code() != Code::kDataLoss)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_file(text);
  check_keys_of(text, parse_json_keys);
  check_keys_of(text, parse_sts_keys);
  const auto words = words_of_command(text);
  std::size_t bytes = 0;
  if (words)
    for (const std::string& word : *words) bytes += word.size();
  if (bytes > text.size()) std::abort();
  return 0;
}
