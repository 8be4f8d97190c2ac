// codec_versions.h -- the compression libraries that Cairn uses.
#pragma once

#include <string>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// The compression libraries that run, with their versions: "zstd 1.5.6, zlib 1.3.1, ...".
std::string codec_versions();

// What verify() may not notice with these libraries; "" if nothing. zstd before 1.5.5 decodes some
// damaged data without a checksum to other values.
std::string codec_limitation();

}  // namespace cairn::inline v0
#pragma GCC visibility pop
