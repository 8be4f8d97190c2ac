// transform_tool.cc -- restores checkpoints through transforms, fits them to targets, and matches
// regular expressions, as a list of jobs on stdin says; test_transforms.py does the same with the
// real Orbax and Python's re.
//
// A tree: {"d": {key: tree}}, {"l": [trees]}, {"t": [trees]}, null, an integer, a string, {"a":
// dtype, "v": [integers]}, {"p": 0} (Ellipsis). In:  [{"checkpoint": folder, "target": tree,
// "to_stored": true, "dtypes": [of each output, or null],
//        "transforms": [[key, {"original_key", "use_fallback", "value_fn": "add", "multi_value_fn":
//        "show", "inputs": [[regex, dtype]]}]]}
//     | {"checkpoint": folder, "target": tree, "fit": "exact" | "partial"}
//     | {"regex": pattern, "text": text, "template": text}]
// Out: for each job {"ok": tree}, {"ok": [groups, expanded] or null}, or {"error": text}
#include <cairn/array/box.h>
#include <cairn/base/json/json.h>
#include <cairn/cairn.h>
#include <cairn/orbax/transforms.h>
#include <cairn/tree/transform/regex.h>

#include <map>

#include "tests/interop/tools/answer_jobs.h"

namespace {

using namespace cairn;

std::int64_t element(const Array& array, std::size_t i) {
  std::int64_t value = 0;
  const ArrayView from{
      array.bytes().data() + i * array.element_size(), array.dtype(), array.element_size(), {}, {}};
  cast_elements(from, make_view(MutableByteView(reinterpret_cast<std::byte*>(&value), 8),
                                DType::kInt64, Shape{}));
  return value;
}

Array array_of(DType dtype, const std::vector<std::int64_t>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  Array out = Array::allocate(dtype, {n});
  cast_elements(
      make_view(ByteView(reinterpret_cast<const std::byte*>(values.data()), values.size() * 8),
                DType::kInt64, Shape{n}),
      out.mutable_view());
  return out;
}

Array cast(const Array& from, DType dtype) {
  Array out = Array::allocate(dtype, from.shape());
  cast_elements(from.view(), out.mutable_view());
  return out;
}

Tree to_tree(const Json& json) {
  if (const auto* members = json.find("d")) {
    Tree::Dict out;
    for (const auto& [key, child] : *members->as_object()) out.emplace_back(key, to_tree(child));
    return Tree(std::move(out));
  }
  const Json* list = json.find("l");
  if (const Json* items = list != nullptr ? list : json.find("t")) {
    Tree::List out;
    for (const auto& child : *items->as_array()) out.push_back(to_tree(child));
    return list != nullptr ? Tree(std::move(out)) : Tree(Tree::Tuple{std::move(out)});
  }
  if (json.find("p") != nullptr) return Tree(Placeholder{});
  if (const auto* dtype = json.find("a")) {
    std::vector<std::int64_t> values;
    for (const auto& v : *json.find("v")->as_array()) values.push_back(*v.as_int64());
    return Tree(array_of(*dtype_from_name(*dtype->as_string()), values));
  }
  if (const auto* text = json.as_string()) return Tree(*text);
  if (const auto number = json.as_int64()) return Tree(*number);
  return Tree();
}

Json to_json(const Tree& tree);
Json items_json(const Tree::List& items) {
  JsonArray out;
  for (const auto& child : items) out.push_back(to_json(child));
  return Json(std::move(out));
}

Json to_json(const Tree& tree) {
  if (const auto* dict = tree.dict()) {
    JsonObject out;
    for (const auto& [key, child] : *dict) out.emplace_back(key, to_json(child));
    return JsonObject{{"d", std::move(out)}};
  }
  if (const auto* list = tree.list()) return JsonObject{{"l", items_json(*list)}};
  if (const auto* tuple = tree.tuple()) return JsonObject{{"t", items_json(tuple->items)}};
  if (const auto* number = std::get_if<std::int64_t>(&tree.value())) return Json(*number);
  if (const auto* text = std::get_if<std::string>(&tree.value())) return Json(*text);
  if (std::holds_alternative<Placeholder>(tree.value())) return JsonObject{{"p", 0}};
  if (const auto* array = tree.array()) {
    JsonArray values;
    for (std::size_t i = 0; i < array->bytes().size() / array->element_size(); ++i)
      values.push_back(element(*array, i));
    return JsonObject{{"a", dtype_name(array->dtype())}, {"v", std::move(values)}};
  }
  const auto empty = std::get<EmptyNode>(tree.value());
  if (empty == EmptyNode::kNone) return Json();
  if (empty == EmptyNode::kDict) return JsonObject{{"d", JsonObject()}};
  return JsonObject{{empty == EmptyNode::kList ? "l" : "t", JsonArray()}};
}

// The functions that both sides know.
Tree add_100(const Tree& v) {
  if (const auto* number = std::get_if<std::int64_t>(&v.value())) return Tree(*number + 100);
  if (const auto* text = std::get_if<std::string>(&v.value())) return Tree(*text + "!");
  if (const auto* array = v.array()) {
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < array->bytes().size() / array->element_size(); ++i)
      values.push_back(element(*array, i) + 100);
    return Tree(array_of(array->dtype(), values));
  }
  return Tree(std::string("empty"));
}

Tree show(std::string_view key, const Tree& stored) {
  std::string out(key);
  for (const auto& entry : flatten(stored, DictOrder::kSorted)) {
    out += ";";
    for (const auto& part : entry.path) out += "/" + part.text;
    // What is empty, and what was not read, looks the same to Orbax's functions.
    const bool known = !std::holds_alternative<EmptyNode>(entry.value.value()) &&
                       !std::holds_alternative<Placeholder>(entry.value.value());
    out += known ? "=" + to_text(to_json(entry.value)) : "?";
  }
  return Tree(out);
}

// Named by the pattern and which of its inputs: their dtypes.
using InputTypes = std::map<std::pair<std::size_t, std::size_t>, std::optional<DType>>;

std::optional<DType> dtype_of(const Json& name) {
  return name.as_string() != nullptr ? dtype_from_name(*name.as_string()) : std::nullopt;
}

Transforms transforms_of(const Json& job, InputTypes& types) {
  Transforms out;
  for (const Json& pair : *job.find("transforms")->as_array()) {
    const Json& spec = pair.as_array()->at(1);
    Transform transform;
    if (const auto* original = spec.find("original_key"))
      transform.original_key = *original->as_string();
    transform.use_fallback = spec.find("use_fallback") != nullptr;
    if (spec.find("value_fn") != nullptr) transform.value_fn = add_100;
    if (spec.find("multi_value_fn") != nullptr) transform.multi_value_fn = show;
    if (const auto* inputs = spec.find("inputs")) {
      transform.multi_value_fn_input_args.emplace();
      for (const Json& input : *inputs->as_array()) {
        types[{out.size(), transform.multi_value_fn_input_args->size()}] =
            dtype_of(input.as_array()->at(1));
        transform.multi_value_fn_input_args->push_back(*input.as_array()->at(0).as_string());
      }
    }
    out.emplace_back(*pair.as_array()->at(0).as_string(), std::move(transform));
  }
  return out;
}

// The leaf as stored, or with another dtype.
Tree read_leaf(const Checkpoint& checkpoint, std::size_t i, std::optional<DType> dtype) {
  const TensorInfo& tensor = checkpoint.tensors()[i];
  if (tensor.typestr == "string") return Tree(checkpoint.read_string(i));
  if (!tensor.is_array())
    return Tree(empty_node_from_name(tensor.typestr).value_or(EmptyNode::kNone));
  const Array array = checkpoint.read(tensor.name);
  if (tensor.typestr == "scalar") return Tree(element(dtype ? cast(array, *dtype) : array, 0));
  return Tree(dtype ? cast(array, *dtype) : array);
}

Json run_transforms(const Checkpoint& checkpoint, const Json& job) {
  std::vector<KeyPath> stored;
  for (const auto& tensor : checkpoint.tensors()) stored.push_back(tensor.path);
  InputTypes types;
  const Tree target = to_tree(*job.find("target"));
  const auto unmentioned =
      *job.find("to_stored")->as_bool() ? UnmentionedKeys::kStored : UnmentionedKeys::kTarget;
  const TransformPlan plan =
      plan_transforms(stored, target, transforms_of(job, types), unmentioned);
  std::vector<Tree> values;
  for (const PlannedRead& read : plan.reads) {
    const auto dtype = read.reason == ReadReason::kInput
                           ? types.at({read.transform, read.input})
                           : dtype_of(job.find("dtypes")->as_array()->at(read.output));
    values.push_back(read_leaf(checkpoint, read.stored, dtype));
  }
  return to_json(apply_transforms(plan, std::move(values), target));
}

Json run_fit(const Checkpoint& checkpoint, const Json& job) {
  std::vector<TreeEntry> entries;
  for (std::size_t i = 0; i < checkpoint.tensors().size(); ++i)
    entries.push_back({checkpoint.tensors()[i].path, read_leaf(checkpoint, i, {})});
  const MatchMode fit =
      *job.find("fit")->as_string() == "partial" ? MatchMode::kPartial : MatchMode::kExact;
  return to_json(restore_into(to_tree(*job.find("target")), unflatten(std::move(entries)), fit));
}

Json run_regex(const Json& job) {
  Regex regex(*job.find("regex")->as_string());
  const std::string text = *job.find("text")->as_string();
  const auto groups = regex.full_match(text);
  if (!groups) return Json();
  JsonArray out;
  for (const auto& group : *groups) out.push_back(group ? Json(std::string(*group)) : Json());
  const std::string filled = regex.expand(*job.find("template")->as_string(), *groups);
  return JsonArray{std::move(out), filled};
}

Json run(const Json& job) {
  if (job.find("regex") != nullptr) return run_regex(job);
  const auto checkpoint = open(*job.find("checkpoint")->as_string());
  return job.find("fit") != nullptr ? run_fit(*checkpoint, job) : run_transforms(*checkpoint, job);
}

}  // namespace

int main() {
  cairn::testing::answer_list(
      [](const Json& job) {
        return JsonObject{{"ok", run(job)}};
      },
      {}, JsonStyle::kPython);
}
