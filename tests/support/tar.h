// tar.h -- tar archives, member by member.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace cairn::testing {

inline constexpr std::size_t kTarBlockSize = 512;

// Writes the checksum of a header.
inline void set_tar_checksum(std::string& header) {
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum & 0777777U);
  header.replace(148, 7, text, 7);
}

inline std::string tar_header(std::string_view name, std::size_t size, char type = '0') {
  std::string header(kTarBlockSize, '\0');
  header.replace(0, name.size(), name);
  char text[16];
  std::snprintf(text, sizeof text, "%011zo", size);
  header.replace(124, 11, text, 11);
  header[156] = type;
  header.replace(257, 8, std::string_view("ustar\00000", 8));
  set_tar_checksum(header);
  return header;
}

// A header, the content, and zeros up to the end of its last block.
inline std::string tar_member(std::string_view name, std::string_view content, char type = '0') {
  std::string member = tar_header(name, content.size(), type);
  member += content;
  member.resize((member.size() + kTarBlockSize - 1) / kTarBlockSize * kTarBlockSize, '\0');
  return member;
}

inline std::string tar_end() { return std::string(2 * kTarBlockSize, '\0'); }

}  // namespace cairn::testing
