// page_text.h -- texts and numbers of a checkpoint as values of the page's data.
#pragma once

#include <cairn/base/json/json.h>

#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::page {

// Text from a file, escaped as by printable_text(). A text of more than 500 bytes ends there, and
// says so: a page of names of a megabyte is of no use.
Json shown_text(std::string_view text);
// The number to five digits; null for none, and for what JSON lacks.
Json rounded(std::optional<double> value);
// A JSON text without the characters that mean something in HTML.
std::string escape_for_html(std::string_view json);

}  // namespace cairn::inline v0::page
