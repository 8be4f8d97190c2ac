// fmt.cc -- the functions of fmt that libcairn and the command call: Debian has no archive of fmt.
// With FMT_HEADER_ONLY and without optimisation, this file contains what it calls itself.
#include <fmt/format.h>

#include <string>

namespace cairn::cli {

std::string format_values(fmt::string_view text, fmt::format_args values) {
  return fmt::vformat(text, values);
}

}  // namespace cairn::cli
