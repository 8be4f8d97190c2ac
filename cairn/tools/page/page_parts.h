// page_parts.h -- the files of web/, which the build embeds (cmake/embed_page.cmake).
#pragma once

#include <string_view>

namespace cairn::inline v0::page {

std::string_view template_html();  // with places {{policy}}, {{style}}, {{data}}, {{script}}
std::string_view style();
std::string_view script();
// Their SHA-256 in base64, as a Content-Security-Policy takes it.
std::string_view style_hash();
std::string_view script_hash();

}  // namespace cairn::inline v0::page
