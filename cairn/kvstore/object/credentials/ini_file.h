// ini_file.h -- reads the shared configuration files of Amazon's tools.
//
//   [profile dev]              a section
//   region = eu-west-1         a value
//   s3 =                       a value with values of its own, which are indented:
//     addressing_style = path    "s3.addressing_style"
//   # or ; begin a comment
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::object {

using IniSection = std::map<std::string, std::string, std::less<>>;

// Sections by name. Values of sections with one name are joined; the last value of a name counts.
using IniFile = std::map<std::string, IniSection, std::less<>>;

// Throws invalid_argument with the number of the line. No message holds text of the file, because
// its values are secrets.
IniFile parse_ini(std::string_view text);

// The value of a name; nullopt if there is no such section or name, or the value is empty.
std::optional<std::string> ini_value(const IniFile& file, std::string_view section,
                                     std::string_view name);

// The words of a command line, as a shell takes them: separated by blanks, "double" and 'single'
// quotes, and backslashes. nullopt if a quote is not closed, or a backslash is the last character.
std::optional<std::vector<std::string>> words_of_command(std::string_view text);

}  // namespace cairn::inline v0::object
