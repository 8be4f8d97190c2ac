// tree_nodes.cc -- makes a drawing shorter: limits its depth, and shows one of many equal siblings.
#include <cairn/tools/inspect/tree_nodes.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kLeastEqual = 4;   // fewer siblings are all drawn
constexpr std::size_t kMostRanges = 6;   // that a label shows
constexpr std::size_t kMostDigits = 18;  // of a number that fits 64 bits

// The numbers in a label, and what is between them: one part more than numbers.
struct SplitLabel {
  std::vector<std::string> parts;
  std::vector<std::string> numbers;
};

SplitLabel split_label(std::string_view label) {
  SplitLabel out;
  while (true) {
    const std::size_t begin = std::min(label.find_first_of(kDigits), label.size());
    out.parts.emplace_back(label.substr(0, begin));
    label.remove_prefix(begin);
    if (label.empty()) return out;
    const std::size_t end = std::min(label.find_first_not_of(kDigits), label.size());
    out.numbers.emplace_back(label.substr(0, end));
    label.remove_prefix(end);
  }
}

std::uint64_t value_of(const std::string& digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// "0-31" or "0-3,8,12-15".
std::string ranges_text(std::vector<std::string> numbers) {
  const auto less = [](const std::string& a, const std::string& b) {
    return std::pair(value_of(a), a.size()) < std::pair(value_of(b), b.size());
  };
  std::sort(numbers.begin(), numbers.end(), less);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < numbers.size(); ++ranges) {
    if (ranges == kMostRanges) return text + ",...";
    std::size_t last = i;
    while (last + 1 < numbers.size() && value_of(numbers[last + 1]) == value_of(numbers[last]) + 1)
      ++last;
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", numbers[i],
                        last > i ? "-" + numbers[last] : "");
    i = last + 1;
  }
  return text;
}

// A label for all of these siblings.
std::string common_label(const std::vector<SplitLabel>& labels) {
  const SplitLabel& first = labels.front();
  std::string text = first.parts[0];
  for (std::size_t n = 0; n < first.numbers.size(); ++n) {
    std::vector<std::string> numbers;
    numbers.reserve(labels.size());
    for (const SplitLabel& label : labels) numbers.push_back(label.numbers[n]);
    const std::string ranges = ranges_text(std::move(numbers));
    const bool is_one = ranges.find_first_not_of(kDigits) == std::string::npos;
    const bool in_brackets = text.ends_with('[') && first.parts[n + 1].starts_with(']');
    text += is_one || in_brackets ? ranges : "{" + ranges + "}";
    text += first.parts[n + 1];
  }
  return text;
}

class Collapser {
 public:
  Collapser(std::vector<DrawnNode>& nodes, bool with_shardings)
      : nodes_(nodes), with_shardings_(with_shardings), content_(nodes.size()) {}

  // Children follow their parents in the list.
  void run() {
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      collapse_children(nodes_[i]);
      content_[i] = content_number(nodes_[i]);
    }
  }

 private:
  // Equal numbers: equal texts and equal nodes below.
  std::size_t content_number(const DrawnNode& node) {
    std::vector<std::pair<std::string, std::size_t>> below;
    below.reserve(node.children.size());
    for (const std::size_t child : node.children)
      below.emplace_back(nodes_[child].label, content_[child]);
    std::string text = node.text;
    if (with_shardings_ && node.leaf != nullptr) text += "\n" + node.leaf->sharding;
    return contents_.try_emplace({std::move(text), std::move(below)}, contents_.size())
        .first->second;
  }

  void collapse_children(DrawnNode& node) {
    if (node.children.size() < kLeastEqual) return;
    std::map<std::pair<std::vector<std::string>, std::size_t>, std::vector<std::size_t>> groups;
    std::vector<SplitLabel> labels;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      labels.push_back(split_label(nodes_[node.children[i]].label));
      const auto& numbers = labels.back().numbers;
      if (!numbers.empty() && std::ranges::all_of(numbers, [](const std::string& digits) {
            return digits.size() <= kMostDigits;
          }))
        groups[{labels.back().parts, content_[node.children[i]]}].push_back(i);
    }
    std::vector<bool> dropped(node.children.size());
    for (const auto& [key, group] : groups) {
      if (group.size() < kLeastEqual) continue;
      std::vector<SplitLabel> of_group;
      for (const std::size_t i : group) {
        of_group.push_back(labels[i]);
        dropped[i] = i != group.front();
      }
      DrawnNode& first = nodes_[node.children[group.front()]];
      first.label = common_label(of_group);
      first.text += fmt::format("{}({} equal)", first.text.empty() ? "" : "  ", group.size());
    }
    std::size_t at = 0;
    std::erase_if(node.children, [&](std::size_t /*child*/) { return dropped[at++]; });
  }

  std::vector<DrawnNode>& nodes_;
  bool with_shardings_;
  std::vector<std::size_t> content_;  // parallel to nodes_
  std::map<std::pair<std::string, std::vector<std::pair<std::string, std::size_t>>>, std::size_t>
      contents_;
};

}  // namespace

std::size_t count_leaves(const std::vector<DrawnNode>& nodes, std::size_t node) {
  std::size_t count = 0;
  std::vector<std::size_t> todo{node};
  while (!todo.empty()) {
    const DrawnNode& at = nodes[todo.back()];
    todo.pop_back();
    count += at.leaf != nullptr ? 1 : 0;
    todo.insert(todo.end(), at.children.begin(), at.children.end());
  }
  return count;
}

void limit_depth(std::vector<DrawnNode>& nodes, std::size_t depth) {
  std::vector<std::pair<std::size_t, std::size_t>> todo{{0, 0}};  // node, level
  while (!todo.empty()) {
    const auto [node, level] = todo.back();
    todo.pop_back();
    if (level == depth && !nodes[node].children.empty()) {
      const std::size_t leaves = count_leaves(nodes, node);
      nodes[node].text += fmt::format("{}({} {})", nodes[node].text.empty() ? "" : "  ", leaves,
                                      leaves == 1 ? "leaf" : "leaves");
      nodes[node].children.clear();
    }
    for (const std::size_t child : nodes[node].children) todo.emplace_back(child, level + 1);
  }
}

void collapse_equal(std::vector<DrawnNode>& nodes, bool with_shardings) {
  Collapser(nodes, with_shardings).run();
}

}  // namespace cairn::inline v0
