// hub_url.h -- addresses of files on the Hugging Face Hub.
#pragma once

#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// hf://owner/name@revision/path, hf://datasets/owner/name/path
struct HubUrl {
  std::string kind = "models";    // "models", "datasets" or "spaces"
  std::string repository;         // "owner/name"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string path;               // "" or a key, without a '/' at its end
};

// The path is literal. The revision is percent-encoded, because it may have a '/': refs%2Fpr%2F1.
// Throws invalid_argument.
HubUrl parse_hub_url(std::string_view url);

}  // namespace cairn::inline v0::object
