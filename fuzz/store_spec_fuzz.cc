// store_spec_fuzz.cc -- opens any text as the spec of a key-value store: memory, databases, buckets
// and web servers. The target has no network: every request fails at once. It skips specs that name
// files. Errors are allowed.
#include <cairn/base/json/json.h>
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/store_location.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace {

using namespace cairn;

class NoNetwork : public object::HttpTransport {
 public:
  std::variant<object::HttpResponse, object::TransportError> send(
      const object::HttpRequest& /*request*/, const object::HttpLimits& /*limits*/) override {
    return object::TransportError{.is_final = true, .why = "there is no network"};
  }
};

object::Surroundings empty_surroundings() {
  return {.environment = [](const std::string& name) -> std::optional<std::string> {
            return name == "AWS_EC2_METADATA_DISABLED" ? std::optional<std::string>("true")
                                                       : std::nullopt;
          },
          .file = [](const std::string&) { return std::nullopt; },
          .now_s = [] { return 0; },
          .transport = std::make_shared<NoNetwork>(),
          .run = [](const std::vector<std::string>&) { return std::string(); }};
}

bool names_files(const Json& json) {
  if (const std::string* text = json.as_string())
    return *text == "file" || text->find("file:") != std::string::npos;
  if (const JsonArray* items = json.as_array())
    return std::any_of(items->begin(), items->end(), names_files);
  const JsonObject* members = json.as_object();
  return members && std::any_of(members->begin(), members->end(),
                                [](const auto& member) { return names_files(member.second); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Json spec = text.starts_with('{') ? tensorstore_spec::parse_spec(text) : Json(text);
    if (names_files(spec)) return 0;
    const tensorstore_spec::StoreLocation location = tensorstore_spec::parse_store_location(
        spec, "", tensorstore_spec::Scope(SpecContext(), empty_surroundings()));
    const StorePtr store = location.below(tensorstore_spec::folder_prefix(location.path));
    (void)store->describe("key");
  } catch (const Error&) {
  }
  return 0;
}
