// reports.cc -- refers to rows by their numbers, and bounds what is listed.
#include <cairn/tools/page/reports.h>

#include <cairn/inspect.h>
#include <cairn/tools/page/page_text.h>
#include <cairn/tools/report/json_text.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace cairn::inline v0::page {
namespace {

constexpr std::size_t kMostFindings = 500;
constexpr std::size_t kMostChanges = 5000;

Json row_json(const Rows& rows, const std::string& name) {
  const auto row = name.empty() ? std::nullopt : rows.find(name);
  return row ? Json(std::uint64_t{*row}) : Json(-1);
}

std::string full_name_of(const LeafDiff& leaf) {
  return leaf.item ? *leaf.item + "/" + leaf.name : leaf.name;
}

// The larger, the more a leaf differs. Everything but values, and NaN, count most.
double weight(const LeafDiff& leaf) {
  if (leaf.state != LeafState::kDifferent) return leaf.state == LeafState::kSame ? -1 : 1e300;
  if (!leaf.values || differs_in_non_finite(leaf)) return std::numeric_limits<double>::infinity();
  return leaf.values->relative_error.value_or(leaf.values->different > 0 ? 1e299 : 0);
}

Json change_json(const LeafDiff& leaf, const Rows& rows) {
  const std::string name = full_name_of(leaf);
  const auto row = rows.find(name);
  JsonArray differs;
  for (const std::string& what : leaf.differs) differs.emplace_back(what);
  const ValueDiff none;
  const ValueDiff& values = leaf.values ? *leaf.values : none;
  return JsonArray{row ? Json(std::uint64_t{*row}) : Json(-1),
                   row ? Json("") : shown_text(name),
                   state_text(leaf.state),
                   std::move(differs),
                   values.different,
                   rounded(values.max_abs_error),
                   rounded(values.rms_error),
                   rounded(values.relative_error),
                   rounded(values.cosine),
                   values.non_finite()};
}

}  // namespace

Json integrity_json(const VerifyReport& report, const Rows& rows) {
  std::vector<const Finding*> sorted;
  for (const Finding& finding : report.findings) sorted.push_back(&finding);
  std::ranges::stable_sort(
      sorted, [](const Finding* a, const Finding* b) { return a->severity > b->severity; });
  const std::size_t shown = std::min(sorted.size(), kMostFindings);
  JsonArray findings, unprotected;
  for (std::size_t i = 0; i < shown; ++i) {
    const Finding& f = *sorted[i];
    findings.push_back(JsonObject{{"severity", severity_text(f.severity)},
                                  {"row", row_json(rows, f.tensor)},
                                  {"tensor", shown_text(f.tensor)},
                                  {"file", shown_text(f.file)},
                                  {"offset", f.offset},
                                  {"message", shown_text(f.message)}});
  }
  for (const std::string& name : report.unprotected)
    if (const auto row = rows.find(name)) unprotected.emplace_back(std::uint64_t{*row});
  const auto damage = std::ranges::count(report.findings, Severity::kDamage, &Finding::severity);
  return JsonObject{{"verdict", verdict_text(report.verdict())},
                    {"tensors", report.tensors},
                    {"chunks", report.chunks},
                    {"bytes", report.bytes},
                    {"damage", static_cast<std::int64_t>(damage)},
                    {"findings", std::move(findings)},
                    {"more", std::uint64_t{sorted.size() - shown}},
                    {"unprotected", std::move(unprotected)},
                    {"unprotected_count", std::uint64_t{report.unprotected.size()}}};
}

Json differences_json(const DiffReport& report, const std::string& path, const Rows& rows) {
  std::vector<const LeafDiff*> sorted;
  for (const LeafDiff& leaf : report.leaves)
    if (leaf.state != LeafState::kSame) sorted.push_back(&leaf);
  std::ranges::stable_sort(
      sorted, [](const LeafDiff* a, const LeafDiff* b) { return weight(*a) > weight(*b); });
  const std::size_t shown = std::min(sorted.size(), kMostChanges);
  JsonArray leaves;
  for (std::size_t i = 0; i < shown; ++i) leaves.push_back(change_json(*sorted[i], rows));
  return JsonObject{{"path", shown_text(path)},
                    {"total", std::uint64_t{sorted.size()}},
                    {"same", report.same},
                    {"different", report.different},
                    {"only_in_a", report.only_in_a},
                    {"only_in_b", report.only_in_b},
                    {"unreadable", report.unreadable},
                    {"leaves", std::move(leaves)},
                    {"more", std::uint64_t{sorted.size() - shown}}};
}

}  // namespace cairn::inline v0::page
