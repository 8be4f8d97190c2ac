// libraries.cc -- lists the libraries of the codecs and their versions.
#include <cairn/codec/codecs.h>
#include <cairn/compression.h>

#include <utility>

namespace cairn::inline v0 {

std::string codec_versions() {
  std::string text;
  for (const auto& [name, version] : {std::pair("zstd", codec::zstd_version()),
                                      {"zlib", codec::deflate_version()},
                                      {"bzip2", codec::bzip2_version()},
                                      {"blosc", codec::blosc_version()},
                                      {"lz4", codec::lz4_version()},
                                      {"snappy", codec::snappy_version()}})
    text.append(text.empty() ? "" : ", ").append(name).append(" ").append(version);
  return text;
}

std::string codec_limitation() {
  if (codec::is_zstd_strict()) return "";
  return "the library zstd " + codec::zstd_version() +
         " decodes some damaged data without an error; 1.5.5 or newer reports it";
}

}  // namespace cairn::inline v0
