// suggest.cc -- compares words by their edit distance.
#include <cairn/tree/suggest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMaxSuggestions = 3;
constexpr std::size_t kMaxComparedLength = 200;  // longer names are not compared

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

// Levenshtein distance. Returns more than `limit` as soon as the distance must exceed it.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit) return limit + 1;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    std::size_t best = row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
      best = std::min(best, row[j + 1]);
    }
    if (best > limit) return limit + 1;
  }
  return row[b.size()];
}

// A distance between two names in lower case; small means alike. nullopt: not alike at all.
std::optional<std::size_t> unlikeness(std::string_view wanted, std::string_view name) {
  if (wanted == name) return 0;
  if (wanted.empty() || wanted.size() > kMaxComparedLength || name.size() > kMaxComparedLength)
    return std::nullopt;
  const std::size_t limit = std::max<std::size_t>(2, wanted.size() / 4);
  if (const std::size_t distance = edit_distance(wanted, name, limit); distance <= limit)
    return distance;
  if (name.ends_with(wanted)) return limit + 1;
  if (name.find(wanted) != std::string_view::npos) return limit + 2;
  if (!name.empty() && wanted.find(name) != std::string_view::npos) return limit + 3;
  return std::nullopt;
}

}  // namespace

std::string suggestion_text(std::string_view wanted, std::size_t count,
                            const std::function<std::string_view(std::size_t)>& word) {
  const std::string key = lower(wanted);
  std::vector<std::pair<std::size_t, std::size_t>> close;  // distance, index
  for (std::size_t i = 0; i < count; ++i)
    if (const auto distance = unlikeness(key, lower(word(i)))) close.emplace_back(*distance, i);
  std::stable_sort(close.begin(), close.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (std::size_t i = 0; i < close.size() && i < kMaxSuggestions; ++i)
    text.append(i == 0 ? "; did you mean '" : "', '").append(word(close[i].second));
  return text.empty() ? text : text + "'?";
}

std::string suggestion_text(std::string_view wanted, std::span<const std::string> words) {
  return suggestion_text(wanted, words.size(),
                         [&](std::size_t i) { return std::string_view(words[i]); });
}

}  // namespace cairn::inline v0
