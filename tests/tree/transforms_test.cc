// transforms_test.cc -- planning and applying transforms. Every outcome was run with Orbax 0.12.8;
// interop/test_transforms.py runs hundreds more.
#include <cairn/orbax/transforms.h>
#include <gmock/gmock.h>

#include <ctime>

#include "tests/tree/short_names.h"

namespace cairn {
namespace {

using testing::dict;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::i;

std::string outcome(const Tree& tree) {
  std::string out;
  if (const auto* d = tree.dict()) {
    for (const auto& [key, child] : *d)
      out += (out.empty() ? "" : ",") + key + ":" + outcome(child);
    return "{" + out + "}";
  }
  if (const auto* l = tree.list()) {
    for (const auto& child : *l) out += (out.empty() ? "" : ",") + outcome(child);
    return "[" + out + "]";
  }
  if (const auto* number = std::get_if<std::int64_t>(&tree.value())) return std::to_string(*number);
  if (const auto* empty = std::get_if<EmptyNode>(&tree.value()))
    return std::string(empty_node_name(*empty));
  if (const auto* string = std::get_if<std::string>(&tree.value())) return *string;
  return "...";
}

Transform rename(std::string original) { return {.original_key = std::move(original)}; }
Transform fallback() { return {.use_fallback = true}; }
Tree add_100(const Tree& v) { return i(std::get<std::int64_t>(v.value()) + 100); }
Transform computed(std::vector<std::string> inputs) {
  return {
      .multi_value_fn = [](std::string_view key,
                           const Tree& stored) { return Tree(std::string(key) + outcome(stored)); },
      .multi_value_fn_input_args = std::move(inputs)};
}

// {a: 1, b: {c: 2}, l: [3, 4]}
Tree checkpoint() {
  return dict({{"a", i(1)}, {"b", dict({{"c", i(2)}})}, {"l", Tree(Tree::List{i(3), i(4)})}});
}
// A dict whose leaves are -1.
Tree want(const std::vector<std::string>& keys) {
  Tree::Dict out;
  for (const auto& key : keys) out.emplace_back(key, i(-1));
  return dict(std::move(out));
}

struct Case {
  const char* name;
  Tree target;
  Transforms transforms;
  UnmentionedKeys unmentioned;
  const char* expect;  // the output, or a part of the error
};
constexpr auto kStored = UnmentionedKeys::kStored;
constexpr auto kTarget = UnmentionedKeys::kTarget;

TEST(Transforms, GiveWhatOrbaxGives) {
  const Case kCases[] = {
      {"rename",
       want({"x", "zq", "a", "k"}),
       {{"x", rename("b/c")}, {"(.*)q", rename("a")}},
       kStored,
       "{x:2,zq:1,a:1,k:-1}"},
      {"none: stored where present", want({"a", "k"}), {}, kStored, "{a:1,k:-1}"},
      {"none: the target's", want({"a", "k"}), {}, kTarget, "{a:-1,k:-1}"},
      {"an index", want({"k"}), {{"k", rename("l/0")}}, kStored, "{k:3}"},
      {"backreference", want({"x0", "x1"}), {{"x(\\d)", rename("l/\\1")}}, kStored, "{x0:3,x1:4}"},
      {"by name", want({"x0"}), {{"x(?P<n>\\d)", rename("l/\\g<n>")}}, kStored, "{x0:3}"},
      {"own key", want({"a"}), {{"a", Transform{}}}, kTarget, "{a:1}"},
      {"value_fn", want({"a"}), {{"a", {.value_fn = add_100}}}, kTarget, "{a:101}"},
      {"value_fn of another",
       want({"z"}),
       {{"z", {.original_key = "b/c", .value_fn = add_100}}},
       kTarget,
       "{z:102}"},
      {"fallback to the target", want({"a"}), {{"a", fallback()}}, kStored, "{a:-1}"},
      {"fallback to the stored", want({"a"}), {{"a", fallback()}}, kTarget, "{a:1}"},
      {"fallback to nothing",
       want({"z"}),
       {{"z", fallback()}},
       kTarget,
       "the checkpoint has no 'z', which use_fallback"},
      {"missing original",
       want({"a"}),
       {{"a", rename("nope")}},
       kStored,
       "the checkpoint has no 'nope', which a transform"},
      {"unmatched transforms do nothing",
       want({"a"}),
       {{"q", rename("nope")}, {"w", rename("\\9")}},
       kStored,
       "{a:1}"},
      {"the last one wins",
       want({"x"}),
       {{"x", rename("a")}, {".", rename("b/c")}},
       kStored,
       "{x:2}"},
      {"a fallback keeps what came before",
       want({"x"}),
       {{"x", rename("a")}, {".", fallback()}},
       kStored,
       "{x:1}"},
      {"all of them must have their original",
       want({"x"}),
       {{"x", rename("no")}, {".", rename("a")}},
       kStored,
       "has no 'no'"},
      {"computed",
       want({"x"}),
       {{"x", computed({"b/.*"})}},
       kStored,
       "{x:x{a:...,b:{c:2},l:[...,...]}}"},
      {"computed sees what else is read",
       want({"a", "x"}),
       {{"x", computed({"b/.*"})}},
       kStored,
       "{a:1,x:x{a:1,b:{c:2},l:[...,...]}}"},
      {"computed in place of a stored key",
       want({"a"}),
       {{"a", computed({"l/1"})}},
       kStored,
       "{a:a{a:1,b:{c:...},l:[...,4]}}"},
      {"the same without carrying over",
       want({"a"}),
       {{"a", computed({"l/1"})}},
       kTarget,
       "{a:a{a:...,b:{c:...},l:[...,4]}}"},
      {"empty dict", dict({}), {{"a", rename("nope")}}, kStored, "Dict"},
      {"empty list", Tree(Tree::List{}), {}, kStored, "Dict"},
      {"empty nodes stay", dict({{"q", dict({})}, {"a", Tree()}}), {}, kStored, "{q:{},a:None}"},
      {"a bare leaf", i(5), {}, kStored, "5"},
      {"a computed without inputs",
       want({"a"}),
       {{"a", {.multi_value_fn = computed({}).multi_value_fn}}},
       kStored,
       "needs multi_value_fn_input_args"},
      {"bad pattern",
       want({"a"}),
       {{"(", rename("a")}},
       kStored,
       "regular expression '(': missing ), unterminated subpattern at position 0"},
      {"bad template",
       want({"a"}),
       {{"a", rename("x\\3")}},
       kStored,
       "template 'x\\3': invalid group reference 3 at position 2"},
      {"an empty node takes nothing",
       dict({{"e", dict({})}}),
       {{"e", rename("nope")}},
       kStored,
       "{e:{}}"},
      {"bad input", want({"a"}), {{"a", computed({"*"})}}, kStored, "nothing to repeat"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto result = try_call([&] {
      return outcome(apply_transforms(checkpoint(), c.target, c.transforms, c.unmentioned));
    });
    if (result.ok()) {
      EXPECT_EQ(result.value(), c.expect);
    } else {
      EXPECT_THAT(result.error().message(), HasSubstr(c.expect));
      EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
    }
  }
}

TEST(Transforms, ForbiddenFieldsAreRefused) {
  const auto fn = [](const Tree& v) { return v; };
  const auto multi = computed({}).multi_value_fn;
  const Transform kCases[] = {
      {.original_key = "a", .use_fallback = true},
      {.original_key = "a", .multi_value_fn = multi, .multi_value_fn_input_args = {{"a"}}},
      {.original_key = "a", .multi_value_fn_input_args = {{"a"}}},
      {.use_fallback = true, .value_fn = fn},
      {.use_fallback = true, .multi_value_fn = multi, .multi_value_fn_input_args = {{"a"}}},
      {.use_fallback = true, .multi_value_fn_input_args = {{"a"}}},
      {.value_fn = fn, .multi_value_fn = multi, .multi_value_fn_input_args = {{"a"}}},
      {.value_fn = fn, .multi_value_fn_input_args = {{"a"}}},
      {.multi_value_fn_input_args = {{"a"}}},
  };
  for (const Transform& bad : kCases) {
    const auto result = try_call([&] {
      return apply_transforms(checkpoint(), want({"q"}), {{"never", bad}});
    });
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(result.error().message(), HasSubstr("never"));
  }
}

// "key reason output-or-input"
std::vector<std::string> reads(const Tree& target, Transforms transforms,
                               UnmentionedKeys unmentioned = kStored) {
  std::vector<KeyPath> paths;
  for (const auto& leaf : flatten(checkpoint(), DictOrder::kSorted)) paths.push_back(leaf.path);
  const TransformPlan plan = plan_transforms(paths, target, std::move(transforms), unmentioned);
  std::vector<std::string> out;
  for (const auto& read : plan.reads) {
    constexpr const char* kReasons[] = {"transform", "input", "unmentioned", "fallback"};
    out.push_back(path_text(plan.stored[read.stored]) + " " +
                  kReasons[static_cast<int>(read.reason)] + " " +
                  (read.reason == ReadReason::kInput
                       ? std::to_string(read.transform) + "." + std::to_string(read.input)
                       : plan.outputs[read.output].key));
  }
  return out;
}

TEST(Transforms, OnlyWhatIsNeededIsRead) {
  EXPECT_THAT(reads(want({"x"}), {{"x", rename("b/c")}}), ElementsAre("['b']['c'] transform x"));
  EXPECT_THAT(reads(want({"a"}), {}), ElementsAre("['a'] unmentioned a"));
  EXPECT_THAT(reads(want({"a"}), {}, kTarget), ElementsAre());
  EXPECT_THAT(reads(want({"a"}), {{"a", fallback()}}), ElementsAre());
  EXPECT_THAT(reads(want({"a"}), {{"a", fallback()}}, kTarget), ElementsAre("['a'] fallback a"));
  EXPECT_THAT(reads(want({"a"}), {{"a", rename("l/0")}}), ElementsAre("['l'][0] transform a"));
  EXPECT_THAT(reads(want({"x", "y"}), {{"x", computed({"a", "l/.*"})}, {"y", rename("l/1")}}),
              ElementsAre("['a'] input 0.0", "['l'][0] input 0.1", "['l'][1] input 0.1"));
  EXPECT_THAT(reads(want({"y"}), {{"y", rename("l/1")}, {"x", computed({"a", "l/.*"})}}),
              ElementsAre("['a'] input 1.0", "['l'][0] input 1.1", "['l'][1] transform y"));
  // the first output in JAX's order
  EXPECT_THAT(reads(want({"y", "x"}), {{".", rename("a")}}), ElementsAre("['a'] transform x"));
}

TEST(Transforms, TreesOfThemAreFlattenedInJaxsOrder) {
  const auto leaf = [](std::string original) { return Tree(rename(std::move(original))); };
  const Transforms flat =
      flatten_transforms(dict({{"b", leaf("1")},
                               {"a.c", leaf("2")},
                               {"a", dict({{"y", leaf("3")}, {"x", leaf("4")}})},
                               {"e", dict({})}}));
  std::vector<std::string> keys;
  for (const auto& [key, transform] : flat) keys.push_back(key + "=" + *transform.original_key);
  EXPECT_THAT(keys, ElementsAre("a/x=4", "a/y=3", "a.c=2", "b=1"));
  const Transforms twice =
      flatten_transforms(dict({{"a", dict({{"x", leaf("1")}})}, {"a/x", leaf("2")}}));
  ASSERT_EQ(twice.size(), 1U);
  EXPECT_EQ(twice[0].second.original_key, "2");
  EXPECT_THROW(flatten_transforms(dict({{"a", i(1)}})), Error);
}

TEST(Transforms, KeysThatCannotBeToldApartAreRefused) {
  const Tree ambiguous = dict({{"a/b", i(1)}, {"a", dict({{"b", i(2)}})}});
  EXPECT_THROW(apply_transforms(ambiguous, want({"a"}), {}), Error);
  EXPECT_THROW(apply_transforms(checkpoint(), ambiguous, {}), Error);
}

TEST(Transforms, AThrowingFunctionNamesItsOutput) {
  const Transform bad{
      .value_fn = [](const Tree&) -> Tree { throw Error(Code::kUnimplemented, "no"); }};
  const auto result = try_call([&] {
    return apply_transforms(checkpoint(), want({"a"}), {{"a", bad}});
  });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message(), "transform of 'a': no");
}

// A rename for each of many leaves, as programs generate them, must not try every rename on every
// leaf.
TEST(Transforms, ManyRenamesAreFast) {
  constexpr int kMany = 20000;
  Tree::Dict from;
  Tree::Dict to;
  Transforms transforms;
  for (int n = 0; n < kMany; ++n) {
    from.emplace_back("old" + std::to_string(n), i(n));
    to.emplace_back("new" + std::to_string(n), i(-1));
    transforms.emplace_back("new" + std::to_string(n), rename("old" + std::to_string(n)));
  }
  const auto processor_seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double begin = processor_seconds();
  const Tree out =
      apply_transforms(dict(std::move(from)), dict(std::move(to)), std::move(transforms));
  // some 0.1 s, 2 s with sanitizers; each with each: minutes, however idle the machine
  EXPECT_LT(processor_seconds() - begin, 20);
  EXPECT_EQ(outcome(out.dict()->at(777).second), "777");
}

}  // namespace
}  // namespace cairn
