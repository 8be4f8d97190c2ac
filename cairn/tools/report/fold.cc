// fold.cc -- breaks long names for a narrow terminal.
#include <cairn/inspect.h>

#include <algorithm>

namespace cairn::inline v0 {

std::vector<std::string_view> fold_pieces(std::string_view text, std::size_t width) {
  constexpr std::string_view kSeparators = " ./_-,;:";
  std::vector<std::string_view> pieces;
  while (true) {
    std::size_t end = 0;  // bytes that fit
    std::size_t at = 0;   // the end of the last part that fits
    std::size_t columns = 0;
    while (end < text.size() && columns < width) {
      for (++end; end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U;)
        ++end;
      ++columns;
      if (kSeparators.find(text[end - 1]) != std::string_view::npos) at = end;
    }
    if (end == text.size()) at = end;
    if (at <= width / 4) at = end;  // rather a break within a part than a short line
    pieces.push_back(text.substr(0, at));
    text.remove_prefix(at);
    if (text.empty()) return pieces;
  }
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

}  // namespace cairn::inline v0
