// diff_json.cc -- formats the differences as the JSON document of docs/reference/json.md.
#include <cairn/diff.h>

#include <cairn/tools/report/json_text.h>

namespace cairn::inline v0 {
std::string_view state_text(LeafState state) {
  switch (state) {
    case LeafState::kSame:
      return "same";
    case LeafState::kDifferent:
      return "different";
    case LeafState::kOnlyInA:
      return "only_in_a";
    case LeafState::kOnlyInB:
      return "only_in_b";
    case LeafState::kUnreadable:
      return "unreadable";
  }
  return "";
}

namespace {

Json side_json(const DiffSide& side, bool with_text) {
  const bool array = side.kind == LeafKind::kArray;
  const bool described = array || side.kind == LeafKind::kString;
  JsonObject out{{"kind", side.typestr},
                 {"dtype", described ? Json(side.dtype_name) : Json()},
                 {"shape", array ? shape_json(side.shape) : Json()}};
  if (!side.random_key_impl.empty()) out.emplace_back("random_key_impl", side.random_key_impl);
  if (with_text) out.emplace_back("text", text_json(side.text));
  if (!side.error.empty()) out.emplace_back("error", side.error);
  return out;
}

Json values_json(const ValueDiff& v, const Shape& shape) {
  const auto number = [](const std::optional<double>& x) { return x ? number_json(*x) : Json(); };
  return JsonObject{{"different", v.different},
                    {"bits_only", v.bits_only},
                    {"within", v.within},
                    {"max_abs_error", number(v.max_abs_error)},
                    {"max_rel_error", number(v.max_rel_error)},
                    {"rms_error", number(v.rms_error)},
                    {"relative_error", number(v.relative_error)},
                    {"cosine", number(v.cosine)},
                    {"nans", JsonArray{v.nans_a, v.nans_b}},
                    {"infs", JsonArray{v.infs_a, v.infs_b}},
                    {"nan_mismatches", v.nan_mismatches},
                    {"inf_mismatches", v.inf_mismatches},
                    {"first", v.first ? shape_json(element_index(shape, *v.first)) : Json()}};
}

Json leaf_json(const LeafDiff& leaf) {
  JsonObject out;
  if (leaf.item) out.emplace_back("item", *leaf.item);
  out.emplace_back("name", text_json(leaf.name));
  out.emplace_back("state", state_text(leaf.state));
  out.emplace_back("differs", strings_json(leaf.differs));
  out.emplace_back("noted", strings_json(leaf.noted));
  const bool texts = leaf.a.text != leaf.b.text;
  out.emplace_back("a", leaf.state == LeafState::kOnlyInB ? Json() : side_json(leaf.a, texts));
  out.emplace_back("b", leaf.state == LeafState::kOnlyInA ? Json() : side_json(leaf.b, texts));
  out.emplace_back("values", leaf.values ? values_json(*leaf.values, leaf.a.shape) : Json());
  return out;
}

}  // namespace

std::string diff_json(const DiffReport& report) {
  JsonArray leaves;
  for (const LeafDiff& leaf : report.leaves) leaves.push_back(leaf_json(leaf));
  JsonObject out = JsonObject{{"equal", report.equal()},         {"same", report.same},
                              {"different", report.different},   {"only_in_a", report.only_in_a},
                              {"only_in_b", report.only_in_b},   {"unreadable", report.unreadable},
                              {"non_finite", report.non_finite}, {"bytes", report.bytes},
                              {"leaves", std::move(leaves)}};
  if (!report.missing_a.empty()) out.emplace_back("missing_a", missing_json(report.missing_a));
  if (!report.missing_b.empty()) out.emplace_back("missing_b", missing_json(report.missing_b));
  return to_text(Json(std::move(out)), JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
