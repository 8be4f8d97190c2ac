// temporary_name.cc -- the only file that contains the text of the mark.

#include <cairn/io/temporary_name.h>

#include <cairn/base/text.h>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kMark = ".cairn-tmp-";

}  // namespace

std::string temporary_name(std::string_view path, std::string_view tag) {
  std::string name(path);
  name += kMark;
  name += tag;
  return name;
}

bool is_temporary_name(std::string_view name) {
  const auto at = name.rfind(kMark);
  if (at == std::string_view::npos || at == 0) return false;
  return consists_of(name.substr(at + kMark.size()), kHexDigits);
}

std::string_view temporary_target(std::string_view name) {
  return name.substr(0, name.rfind(kMark));
}

bool is_temporary_of(std::string_view name, std::string_view final_name) {
  return is_temporary_name(name) && temporary_target(name) == final_name;
}

}  // namespace cairn::inline v0
