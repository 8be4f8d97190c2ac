// object_graph_test.cc -- the graphs that TensorFlow wrote, read and written again byte for byte;
// and what is no graph.
#include <cairn/formats/tensorflow/index/object_graph.h>
#include <cairn/formats/tensorflow/write/object_graph_build.h>
#include <cairn/tensorflow.h>
#include <gmock/gmock.h>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::from_hex;

const std::string kObjects = testing::golden("tensorflow/tensorflow-2.21.0/objects-1");

Bytes golden_graph() {
  const std::string text = open_tensorflow(kObjects)->read_string(0);
  return testing::to_bytes(as_bytes(text));
}

TEST(ObjectGraph, IsWrittenAsTensorFlowWroteIt) {
  const Bytes stored = golden_graph();
  const ObjectGraph graph = parse_object_graph(stored);
  EXPECT_GE(graph.size(), 15U);
  EXPECT_EQ(encode_object_graph(graph), stored);
}

TEST(ObjectGraph, SaysWhatBelongsToWhat) {
  const ObjectGraph graph = parse_object_graph(golden_graph());
  const auto child = [&](std::size_t of, std::string_view name) {
    for (const auto& one : graph[of].children)
      if (one.name == name) return one.node;
    ADD_FAILURE() << "no child " << name;
    return std::uint32_t{0};
  };
  const std::uint32_t model = child(0, "model");
  const std::uint32_t kernel = child(child(model, "layer1"), "kernel");
  ASSERT_EQ(graph[kernel].attributes.size(), 1U);
  EXPECT_EQ(graph[kernel].attributes[0].name, kVariableAttribute);
  EXPECT_EQ(graph[kernel].attributes[0].full_name, "kernel");
  EXPECT_EQ(graph[kernel].attributes[0].checkpoint_key,
            "model/layer1/kernel/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(child(model, "shared"), child(model, "layer1")) << "two ways to one object";
  EXPECT_EQ(child(child(model, "named"), "a/b.c"), child(child(model, "named"), "a/b.c"))
      << "names are not escaped";
  const auto& slots = graph[child(0, "optimizer")].slots;
  ASSERT_FALSE(slots.empty());
  EXPECT_EQ(slots[0].variable, kernel);
}

TEST(ObjectGraph, IsMadeOfKeysAlone) {
  const auto checkpoint = open_tensorflow(kObjects);
  std::vector<GraphKey> keys;
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    keys.push_back({tensor.name, ""});
    const bool is_variable = tensor.name.ends_with(kVariableSuffix);
    EXPECT_EQ(is_variable ? tensorflow_key(tensor.path) : tensor.name, tensor.name);
  }
  const ObjectGraph graph = build_object_graph(keys);
  const auto child = [&](std::size_t of, std::string_view name) -> std::size_t {
    for (const auto& one : graph[of].children)
      if (one.name == name) return one.node;
    ADD_FAILURE() << "no child " << name;
    return 0;
  };
  const std::size_t kernel = child(child(child(0, "model"), "layer1"), "kernel");
  EXPECT_TRUE(graph[kernel].children.empty()) << "its slots are the optimizer's";
  const auto& slots = graph[child(0, "optimizer")].slots;
  ASSERT_EQ(slots.size(), 2U);
  EXPECT_EQ(slots[0].name, "m");
  EXPECT_EQ(slots[0].variable, kernel);
  ASSERT_EQ(graph[slots[0].node].attributes.size(), 1U);
  EXPECT_EQ(graph[slots[0].node].attributes[0].checkpoint_key,
            "model/layer1/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(graph[child(child(child(0, "model"), "named"), "a/b.c")].children.size(), 2U);
  EXPECT_EQ(parse_object_graph(encode_object_graph(graph)), graph);
}

TEST(ObjectGraph, EscapesNamesInKeys) {
  for (const auto& [name, escaped] :
       std::vector<std::pair<std::string, std::string>>{{"kernel", "kernel"},
                                                        {"odd/name.x", "odd.Sname..x"},
                                                        {"", ""},
                                                        {"...", "......"},
                                                        {".S", "..S"},
                                                        {"/", ".S"},
                                                        {"a./b", "a...Sb"}}) {
    EXPECT_EQ(escape_trackable(name), escaped);
    EXPECT_EQ(unescape_trackable(escaped), name);
  }
  EXPECT_EQ(unescape_trackable(".ATTRIBUTES"), ".ATTRIBUTES") << "what is no escape stays";
  EXPECT_EQ(unescape_trackable("."), ".");
}

TEST(ObjectGraph, RefusesWhatIsNone) {
  const auto refuses = [](std::string_view hex, const char* text) {
    EXPECT_THAT([&] { parse_object_graph(from_hex(hex)); }, FailsWith(Code::kDataLoss, text))
        << hex;
  };
  refuses("0a040a020801", "object 0 refers to object 1 of 1");
  // a name that is not there
  refuses("0a060a040800120", "unexpected end");
  refuses("0a0d0a0b08ffffffffffffffffff01", "invalid node number -1");  // of a child
  refuses("0a041a021805", "object 0 refers to object 5 of 1");          // a slot
  refuses("0a041a020805", "object 0 refers to object 5 of 1");
  refuses("0a020a01", "unexpected end");
  refuses("0d00000000", "wire type 5, expected 2");
  refuses("0a", "unexpected end");
  EXPECT_EQ(parse_object_graph({}).size(), 0U);
  EXPECT_EQ(parse_object_graph(from_hex("7a0361626310ff01")).size(), 0U)
      << "unknown fields are passed over";
}

TEST(ObjectGraph, EndsWellWhereverItIsCut) {
  const Bytes stored = golden_graph();
  for (std::size_t n = 0; n < stored.size(); ++n) {
    const auto graph = try_call([&] { return parse_object_graph(ByteView(stored).first(n)); });
    if (graph.ok()) {
      EXPECT_LE(graph.value().size(), n / 2);
    } else {
      EXPECT_EQ(graph.error().code(), Code::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace cairn
