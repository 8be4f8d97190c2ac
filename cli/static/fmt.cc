// fmt.cc -- the functions of fmt that libcairn and the command call: Debian has no archive of fmt.
// With FMT_HEADER_ONLY and without optimisation, this file contains what it calls itself.
#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace cairn::cli {

std::string print_and_format(fmt::string_view text, fmt::format_args values) {
  fmt::vprint(stderr, text, values);
  return fmt::vformat(text, values);
}

}  // namespace cairn::cli
