// temporary_name.cc -- the only file that contains the text of the mark.

#include <cairn/io/temporary_name.h>

#include <cairn/base/text.h>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kMark = ".cairn-tmp-";
constexpr std::string_view kLockTag = "0";

}  // namespace

std::string temporary_name(std::string_view path, std::string_view tag) {
  std::string name(path);
  name += kMark;
  name += tag;
  return name;
}

std::string lock_name(std::string_view path) {
  return temporary_name(std::string(folder_prefix(path)).append(".").append(name_of(path)),
                        kLockTag);
}

bool is_temporary_name(std::string_view name) {
  const auto at = name.rfind(kMark);
  if (at == std::string_view::npos || at == 0) return false;
  return consists_of(name.substr(at + kMark.size()), kHexDigits);
}

std::string_view temporary_target(std::string_view name) {
  const auto at = name.rfind(kMark);
  // A lock has a target: not "..cairn-tmp-0".
  const bool is_lock =
      at > 1 && name.starts_with('.') && name.substr(at + kMark.size()) == kLockTag;
  return is_lock ? name.substr(1, at - 1) : name.substr(0, at);
}

bool is_temporary_of(std::string_view name, std::string_view final_name) {
  return is_temporary_name(name) && temporary_target(name) == final_name;
}

}  // namespace cairn::inline v0
