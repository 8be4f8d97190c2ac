// tree_equal.cc -- compares two trees.
#include <cairn/tree.h>

#include <cairn/tree/depth.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::inline v0 {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Python has one type of integers, which C++ may hold as signed or unsigned.
bool equal_integers(const Tree::Value& a, const Tree::Value& b) {
  const auto* a_signed = std::get_if<std::int64_t>(&a);
  const auto* b_unsigned = std::get_if<std::uint64_t>(&b);
  return a_signed != nullptr && b_unsigned != nullptr && std::cmp_equal(*a_signed, *b_unsigned);
}

bool equal(const Tree& a, const Tree& b, std::size_t depth);

bool equal_items(const Tree::List& a, const Tree::List& b, std::size_t depth) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Tree& x, const Tree& y) { return equal(x, y, depth + 1); });
}

bool equal_members(const Tree::Dict& a, const Tree::Dict& b, std::size_t depth) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return x.first == y.first && equal(x.second, y.second, depth + 1);
  });
}

bool equal_dicts(const Tree::Dict& a, const Tree::Dict& b, std::size_t depth) {
  if (a.size() != b.size()) return false;
  const auto sorted = [](const Tree::Dict& dict) {
    std::vector<const std::pair<std::string, Tree>*> members;
    members.reserve(dict.size());
    for (const auto& member : dict) members.push_back(&member);
    std::stable_sort(members.begin(), members.end(),
                     [](const auto* x, const auto* y) { return x->first < y->first; });
    return members;
  };
  const auto a_sorted = sorted(a), b_sorted = sorted(b);
  return std::equal(a_sorted.begin(), a_sorted.end(), b_sorted.begin(),
                    [&](const auto* x, const auto* y) {
                      return x->first == y->first && equal(x->second, y->second, depth + 1);
                    });
}

// Whether `tree` is a container without children that `node` stands for.
bool is_empty_container(const Tree& tree, EmptyNode node) {
  switch (node) {
    case EmptyNode::kNone:
      return false;
    case EmptyNode::kDict:
      return tree.dict() != nullptr && tree.dict()->empty();
    case EmptyNode::kList:
      return tree.list() != nullptr && tree.list()->empty();
    case EmptyNode::kTuple:
      return tree.tuple() != nullptr && tree.tuple()->items.empty();
    case EmptyNode::kNamedTuple:
      return tree.named_tuple() != nullptr && tree.named_tuple()->fields.empty();
  }
  return false;
}

bool equal_values(const Tree::Value& a, const Tree::Value& b, std::size_t depth) {
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const T& y = *std::get_if<T>(&b);
        if constexpr (std::is_same_v<T, double>)
          return same_bits(x, y);
        else if constexpr (std::is_same_v<T, std::complex<double>>)
          return same_bits(x.real(), y.real()) && same_bits(x.imag(), y.imag());
        else if constexpr (std::is_same_v<T, Tree::List>)
          return equal_items(x, y, depth);
        else if constexpr (std::is_same_v<T, Tree::Dict>)
          return equal_dicts(x, y, depth);
        else if constexpr (std::is_same_v<T, Tree::Tuple>)
          return equal_items(x.items, y.items, depth);
        else if constexpr (std::is_same_v<T, Tree::NamedTuple>)
          return x.module == y.module && x.name == y.name &&
                 equal_members(x.fields, y.fields, depth);
        else
          return x == y;
      },
      a);
}

bool equal(const Tree& a, const Tree& b, std::size_t depth) {
  check_tree_depth(depth);
  if (a.value().index() == b.value().index()) return equal_values(a.value(), b.value(), depth);
  if (const auto* node = std::get_if<EmptyNode>(&a.value())) return is_empty_container(b, *node);
  if (const auto* node = std::get_if<EmptyNode>(&b.value())) return is_empty_container(a, *node);
  return equal_integers(a.value(), b.value()) || equal_integers(b.value(), a.value());
}

}  // namespace

bool Tree::operator==(const Tree& other) const { return equal(*this, other, 0); }

}  // namespace cairn::inline v0
