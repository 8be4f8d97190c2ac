// hub_tree_fuzz.cc -- parses any text as each reply of the Hugging Face Hub, and as a URL of it.
#include <cairn/error.h>
#include <cairn/kvstore/object/http/hub_reply.h>
#include <cairn/kvstore/object/http/hub_url.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

// Runs parse(), which may refuse the text with this code alone.
template <class Parse>
void parse_or_refuse(cairn::Code code, Parse parse) {
  try {
    parse();
  } catch (const cairn::Error& e) {
    if (e.code() != code) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn::object;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse_or_refuse(cairn::Code::kDataLoss, [&] {
    for (const HubEntry& entry : parse_hub_tree(text))
      if (entry.path.empty()) std::abort();
  });
  parse_or_refuse(cairn::Code::kDataLoss, [&] {
    if (parse_hub_commit(text).size() != 40) std::abort();
  });
  parse_or_refuse(cairn::Code::kInvalidArgument, [&] {
    if (parse_hub_url(text).path.ends_with('/')) std::abort();
  });
  if (const auto next = next_of_link(text); next && next->empty()) std::abort();
  return 0;
}
