#include <cairn/kvstore/object/gcs/gcs_reply.h>

#include <cairn/base/base64.h>
#include <cairn/base/errors.h>
#include <cairn/base/json/scan.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/store_time.h>

#include <functional>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kMostPageToken = 8192;  // bytes

// The API writes 64-bit integers as strings, because JavaScript has none.
std::uint64_t decimal_string(JsonScanner& in, const char* what) {
  const auto value = parse_size(in.string());
  if (!value) in.fail(std::string(what) + " is not a decimal number of 63 bits");
  return *value;
}

std::string short_string(JsonScanner& in, std::size_t most, const char* what) {
  std::string text = in.string();
  if (text.size() > most) in.fail(std::string(what) + " is too long");
  return text;
}

std::string name_string(JsonScanner& in) {
  std::string name = short_string(in, kMostGcsName, "a name");
  if (name.empty()) in.fail("a name is empty");
  return name;
}

// Calls member(name) for each member of the object that is next. The function consumes the value.
void each_member(JsonScanner& in, const std::function<void(std::string_view)>& member) {
  in.begin_object();
  std::string_view name;
  while (in.next_member(name)) member(name);
}

std::string save_of_metadata(JsonScanner& in) {
  std::string save;
  each_member(in, [&](std::string_view name) {
    if (name == kSaveMetadata)
      save = short_string(in, kMostGcsName, "the metadata cairn-save");
    else
      in.skip();
  });
  return save;
}

// Reads the member of an object that is called `name`.
void read_member(JsonScanner& in, std::string_view name, GcsObject& object) {
  if (name == "name") {
    object.name = name_string(in);
  } else if (name == "size") {
    object.size = decimal_string(in, "size");
  } else if (name == "generation") {
    object.generation = decimal_string(in, "generation");
  } else if (name == "crc32c") {
    object.crc32c = parse_crc32c(in.string());
    if (!object.crc32c) in.fail("crc32c is not the base64 of four bytes");
  } else if (name == "timeCreated") {
    object.modified_ns = ns_of_iso_time(in.string());
  } else if (name == "metadata") {
    object.save = save_of_metadata(in);
  } else {
    in.skip();
  }
}

GcsObject read_object(JsonScanner& in) {
  GcsObject object;
  bool has_size = false;
  each_member(in, [&](std::string_view name) {
    has_size = has_size || name == "size";
    read_member(in, name, object);
  });
  if (object.name.empty()) in.fail("an object has no name");
  if (!has_size) in.fail("an object has no size");
  if (object.generation == 0) in.fail("an object has no generation");
  return object;
}

void read_items(JsonScanner& in, std::vector<GcsObject>& objects) {
  in.begin_array();
  while (in.next_item()) objects.push_back(read_object(in));
}

void read_prefixes(JsonScanner& in, std::vector<std::string>& prefixes) {
  in.begin_array();
  while (in.next_item()) prefixes.push_back(name_string(in));
}

// Parses a whole reply; `read` consumes its one value.
template <class Read>
auto parse_reply(std::string_view json, Read read) {
  return with_context([] { return std::string("the store's reply"); },
                      [&] {
                        JsonScanner in(json);
                        auto result = read(in);
                        in.finish();
                        return result;
                      });
}

}  // namespace

GcsObject parse_gcs_object(std::string_view json) { return parse_reply(json, read_object); }

GcsPage parse_gcs_page(std::string_view json) {
  return parse_reply(json, [](JsonScanner& in) {
    GcsPage page;
    each_member(in, [&](std::string_view name) {
      if (name == "items")
        read_items(in, page.objects);
      else if (name == "prefixes")
        read_prefixes(in, page.prefixes);
      else if (name == "nextPageToken")
        page.next_page_token = short_string(in, kMostPageToken, "nextPageToken");
      else
        in.skip();
    });
    return page;
  });
}

GcsRewrite parse_gcs_rewrite(std::string_view json) {
  return parse_reply(json, [](JsonScanner& in) {
    GcsRewrite rewrite;
    each_member(in, [&](std::string_view name) {
      if (name == "done")
        rewrite.is_done = in.boolean();
      else if (name == "rewriteToken")
        rewrite.token = short_string(in, kMostPageToken, "rewriteToken");
      else if (name == "resource")
        rewrite.object = read_object(in);
      else
        in.skip();
    });
    if (rewrite.is_done != rewrite.object.has_value() ||
        (!rewrite.is_done && rewrite.token.empty()))
      in.fail("a copy is neither done nor to be continued");
    return rewrite;
  });
}

std::optional<std::uint32_t> parse_crc32c(std::string_view base64) {
  if (base64.size() != 8 || !base64.ends_with("==")) return std::nullopt;
  const auto bytes = decode_base64(base64.substr(0, 6), Base64::kStandard);
  if (!bytes || bytes->size() != 4) return std::nullopt;
  std::uint32_t crc = 0;
  for (const std::byte byte : *bytes) crc = crc << 8U | std::to_integer<std::uint32_t>(byte);
  return crc;
}

std::string crc32c_text(std::uint32_t crc) {
  const std::byte bytes[] = {std::byte(crc >> 24U), std::byte(crc >> 16U & 0xffU),
                             std::byte(crc >> 8U & 0xffU), std::byte(crc & 0xffU)};
  return encode_base64(bytes, Base64::kStandard);
}

std::optional<std::uint32_t> crc32c_of_hash(std::string_view header) {
  constexpr std::string_view kCrc32c = "crc32c=";
  for (std::string_view hash : split(header, ',')) {
    while (hash.starts_with(' ')) hash.remove_prefix(1);
    if (hash.starts_with(kCrc32c)) return parse_crc32c(hash.substr(kCrc32c.size()));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> stored_of_range(std::optional<std::string_view> range) {
  if (!range) return 0;
  constexpr std::string_view kFirst = "bytes=0-";
  if (!range->starts_with(kFirst)) return std::nullopt;
  const auto last = parse_size(range->substr(kFirst.size()));
  return last ? std::optional(*last + 1) : std::nullopt;
}

}  // namespace cairn::inline v0::object
