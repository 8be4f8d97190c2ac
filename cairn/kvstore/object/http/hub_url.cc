#include <cairn/kvstore/object/http/hub_url.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/url.h>

#include <algorithm>

namespace cairn::inline v0::object {
namespace {

[[noreturn]] void refuse_hub_url(std::string_view url, const std::string& why) {
  invalid_argument("URL \"" + std::string(url.substr(0, url.find_first_of("?#"))) + "\": " + why);
}

// Consumes the text up to the next slash, and the slash.
std::string_view take_part(std::string_view& rest) {
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view part = rest.substr(0, slash);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  return part;
}

bool is_hub_name(std::string_view name) {
  constexpr std::size_t kLongestName = 96;
  return !name.empty() && name.size() <= kLongestName && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

std::string decoded_revision(std::string_view url, std::string_view encoded) {
  constexpr std::size_t kLongestRevision = 256;
  const auto revision = percent_decoded_text(encoded);
  const bool is_plain = revision && revision->size() <= kLongestRevision && valid_utf8(*revision) &&
                        std::none_of(revision->begin(), revision->end(),
                                     [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (!is_plain || !is_below_folder(*revision))
    refuse_hub_url(url, "the part behind '@' is not a branch, a tag or a commit");
  return *revision;
}

}  // namespace

HubUrl parse_hub_url(std::string_view url) {
  constexpr std::string_view kScheme = "hf://";
  if (!url.starts_with(kScheme)) refuse_hub_url(url, "it does not begin with hf://");
  std::string_view rest = url.substr(kScheme.size());
  HubUrl parsed;
  std::string_view owner = take_part(rest);
  if (owner == "datasets" || owner == "spaces" || owner == "models") {
    parsed.kind = owner;
    owner = take_part(rest);
  }
  const std::string_view part = take_part(rest);
  const std::size_t at = part.find('@');
  const std::string_view name = part.substr(0, at);
  if (!is_hub_name(owner) || !is_hub_name(name))
    refuse_hub_url(url, "it must be hf://owner/name or hf://owner/name@revision, and a path");
  parsed.repository = std::string(owner) + "/" + std::string(name);
  if (at != std::string_view::npos) parsed.revision = decoded_revision(url, part.substr(at + 1));
  while (rest.ends_with('/')) rest.remove_suffix(1);
  parsed.path = rest;
  if (const char* flaw = rest.empty() ? nullptr : flaw_of_object_key(rest))
    refuse_hub_url(url, "the path " + std::string(flaw));
  return parsed;
}

}  // namespace cairn::inline v0::object
