// libraries.cc -- lists the libraries of the codecs and their versions.
#include <cairn/codec/codecs.h>
#include <cairn/compression.h>

namespace cairn::inline v0 {

std::vector<std::pair<std::string, std::string>> codec::library_versions() {
  return {{"zstd", zstd_version()},   {"zlib", deflate_version()}, {"bzip2", bzip2_version()},
          {"blosc", blosc_version()}, {"lz4", lz4_version()},      {"snappy", snappy_version()}};
}

std::string codec_versions() {
  std::string text;
  for (const auto& [name, version] : codec::library_versions())
    text.append(text.empty() ? "" : ", ").append(name).append(" ").append(version);
  return text;
}

std::string codec_limitation() {
  if (codec::is_zstd_strict()) return "";
  return "the library zstd " + codec::zstd_version() +
         " decodes some damaged data without an error; 1.5.5 or newer reports it";
}

}  // namespace cairn::inline v0
