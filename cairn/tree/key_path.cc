// key_path.cc -- formats and compares key paths.
#include <cairn/tree.h>

namespace cairn::inline v0 {
namespace {

std::string_view without_leading_zeros(std::string_view digits) {
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? digits.substr(digits.empty() ? 0 : digits.size() - 1)
                                         : digits.substr(first);
}

// Compares decimal numbers of any length: the longer one is larger.
int compare_indices(std::string_view a, std::string_view b) {
  a = without_leading_zeros(a);
  b = without_leading_zeros(b);
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

int compare_keys(const Key& a, const Key& b) {
  if (a.type != b.type) return a.type < b.type ? -1 : 1;
  return a.type == KeyType::kSequence ? compare_indices(a.text, b.text) : a.text.compare(b.text);
}

}  // namespace

std::string param_name(const KeyPath& path) {
  std::size_t size = path.size();
  for (const auto& key : path) size += key.text.size();
  std::string name;
  name.reserve(size);
  for (const auto& key : path) {
    if (&key != path.data()) name += '.';
    name += key.text;
  }
  return name;
}

std::string path_text(const KeyPath& path) {
  std::string text;
  for (const auto& key : path) {
    const bool quoted = key.type == KeyType::kDict;
    text += quoted ? "['" : "[";
    text += key.text;
    text += quoted ? "']" : "]";
  }
  return text;
}

bool key_path_less(const KeyPath& a, const KeyPath& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (const int order = compare_keys(a[i], b[i]); order != 0) return order < 0;
  return a.size() < b.size();
}

}  // namespace cairn::inline v0
