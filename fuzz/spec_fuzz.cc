// spec_fuzz.cc -- opens any text as a spec of an array or of a JSON value, over stores in memory.
// The target accesses nothing else: it skips specs that name files or object stores
// (store_spec_fuzz).
//
// The first line is the spec. The rest, if any, is the value that a small store holds under the
// keys that specs of the corpus name.
#include <cairn/base/json/json.h>
#include <cairn/storage/tensorstore_spec.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace {

using namespace cairn;

bool names_other_stores(const Json& json) {
  if (const std::string* text = json.as_string()) {
    constexpr std::string_view kDrivers[] = {"file", "gcs", "s3", "http"};
    constexpr std::string_view kUrls[] = {"file:", "gs:", "s3:", "http:", "https:"};
    return std::find(std::begin(kDrivers), std::end(kDrivers), *text) != std::end(kDrivers) ||
           std::any_of(std::begin(kUrls), std::end(kUrls), [&](std::string_view begin) {
             return text->find(begin) != std::string::npos;
           });
  }
  if (const JsonArray* items = json.as_array())
    return std::any_of(items->begin(), items->end(), names_other_stores);
  const JsonObject* members = json.as_object();
  return members && std::any_of(members->begin(), members->end(), [](const auto& member) {
           return names_other_stores(member.second);
         });
}

void use_array(std::string_view spec, const SpecContext& context) {
  for (const bool create : {false, true}) {
    SpecArray array = open_array_spec(
        spec, {.open = true, .create = create, .delete_existing = false, .context = context});
    const SpecArrayInfo& info = array.info();
    // Small arrays only: bugs are expected in the metadata, not in the values.
    auto bytes = static_cast<std::int64_t>(std::min<std::size_t>(info.element_size, 1 << 20));
    for (const Shape& shape : {info.shape, info.chunk_shape})
      for (const std::int64_t n : shape) bytes = n > 64 || bytes > 1 << 16 ? 1 << 20 : bytes * n;
    if (bytes > 1 << 16) return;
    const Array values = array.read();
    array.write(Box::whole(info.shape), values.view());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view spec = input.substr(0, std::min(input.find('\n'), size));
  const std::string_view stored = input.substr(std::min(spec.size() + 1, size));
  try {
    if (names_other_stores(parse_json(spec))) return 0;
  } catch (const Error&) {  // the spec's own parser must reject it as well
  }
  const SpecContext context;
  if (!stored.empty())
    for (const char* key : {"a/.zarray", "a/zarr.json", "a/manifest.ocdbt", "x"})
      context.memory_store()->write(key, as_bytes(stored));
  try {
    use_array(spec, context);
  } catch (const Error&) {
  }
  try {
    SpecJson value = open_json_spec(spec, {.context = context});
    value.write(value.read());
  } catch (const Error&) {
  }
  return 0;
}
