// golden_test.cc -- every checkpoint that the real Orbax wrote is read as the tree that was saved:
// names, paths, kinds, types, shapes and bytes. What is expected comes from the saved trees
// (tests/golden/orbax/make_golden.py).
#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/orbax/open.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/orbax/sha256.h"
#include "tests/support/little_endian.h"
#include "tests/support/matchers.h"
#include "tests/support/upload.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::sha256_hex;

const std::string kRoot = std::string(CAIRN_GOLDEN_DIR) + "/orbax/";

std::vector<std::string> golden_cases() {
  std::vector<std::string> cases = {"demo"};
  for (const auto& entry : std::filesystem::directory_iterator(kRoot + "orbax-0.12.8"))
    if (entry.is_directory()) cases.push_back("orbax-0.12.8/" + entry.path().filename().string());
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::string text_member(const Json& object, const char* name) {
  const Json* value = object.find(name);
  return value == nullptr ? "" : *value->as_string();
}

// A leaf as text, so that differences show as text.
std::string describe(const std::string& name, const std::string& kind, const std::string& dtype,
                     const std::string& shape) {
  return name + " | " + kind + " | " + dtype + " | " + shape;
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  static OpenOptions options_of(const Json& view) {
    OpenOptions options;
    options.resources.threads = 1;
    if (const Json* step = view.find("step")) options.step = step->as_int64();
    if (const Json* item = view.find("item")) options.item = *item->as_string();
    options.allow_uncommitted = view.find("refused") != nullptr;
    return options;
  }

  // What undamaged checkpoints of Orbax have, too: processes commit several times, and nothing
  // collects what is outdated.
  static bool is_usual(const Finding& finding) {
    return finding.severity == Severity::kNote &&
           (finding.message.starts_with("not committed") ||
            finding.message.find("that nothing refers to (") != std::string::npos);
  }

  static void expect_leaf(const Checkpoint& checkpoint, std::size_t index, const Json& leaf) {
    const TensorInfo& tensor = checkpoint.tensors()[index];
    Shape shape;
    if (const Json* dimensions = leaf.find("shape"))
      for (const auto& extent : *dimensions->as_array()) shape.push_back(*extent.as_int64());
    // Old checkpoints do not record kinds and paths, so they are not expected.
    const std::string kind =
        leaf.find("kind") == nullptr ? tensor.typestr : text_member(leaf, "kind");
    EXPECT_EQ(
        describe(tensor.name, tensor.typestr, tensor.dtype_name, shape_text(tensor.shape)),
        describe(text_member(leaf, "name"), kind, text_member(leaf, "dtype"), shape_text(shape)));
    EXPECT_EQ(tensor.error, "");
    EXPECT_EQ(tensor.item, std::nullopt);
    if (const Json* path = leaf.find("path")) {
      KeyPath expected;
      for (const auto& key : *path->as_array())
        expected.push_back(key.as_string() ? Key{*key.as_string(), KeyType::kDict}
                                           : Key{to_text(key), KeyType::kSequence});
      EXPECT_EQ(path_text(tensor.path), path_text(expected));
    }
    if (tensor.is_array()) expect_bytes(checkpoint, tensor, text_member(leaf, "sha256"));
    if (tensor.typestr == "string") {
      EXPECT_EQ(checkpoint.read_string(index), text_member(leaf, "value"));
    }
  }

  static void expect_bytes(const Checkpoint& checkpoint, const TensorInfo& tensor,
                           const std::string& sha256) {
    const Array array = checkpoint.read(tensor.name);
    const Bytes elements(array.bytes().begin(), array.bytes().end());
    EXPECT_EQ(sha256_hex(testing::little_endian(elements, array.dtype())), sha256) << tensor.name;
    EXPECT_EQ(tensor.nbytes, array.bytes().size());
    EXPECT_EQ(tensor.chunk_shape.size(), tensor.stored_nbytes == 0 ? 0 : tensor.shape.size())
        << tensor.name;
  }

  static void expect_view(const std::string& folder, const Json& view) {
    const std::string path =
        folder + (text_member(view, "path").empty() ? "" : "/" + text_member(view, "path"));
    const OpenOptions options = options_of(view);
    EXPECT_TRUE(is_orbax(path));
    if (options.allow_uncommitted) {
      EXPECT_THAT([&] { open_orbax(path); },
                  FailsWith(Code::kFailedPrecondition, "--allow-uncommitted"));
    }
    const auto checkpoint = open_orbax(path, options);
    const JsonArray& leaves = *view.find("leaves")->as_array();
    ASSERT_EQ(checkpoint->tensors().size(), leaves.size());
    for (const auto& leaf : leaves) {
      SCOPED_TRACE(text_member(leaf, "name"));
      expect_leaf(*checkpoint, checkpoint->index(text_member(leaf, "name")), leaf);
    }
    const VerifyReport report = checkpoint->verify({});
    // Orbax does not restore such a database either; what is there is whole.
    const bool has_no_tree = folder.ends_with("/no_metadata_ocdbt");
    EXPECT_EQ(report.damaged(), has_no_tree);
    for (const auto& finding : report.findings)
      EXPECT_TRUE((has_no_tree && finding.file == path + "/_METADATA") || is_usual(finding))
          << finding.tensor << " " << finding.file << " " << finding.message;
    const auto with_data = std::count_if(leaves.begin(), leaves.end(), [](const Json& leaf) {
      return leaf.find("dtype") != nullptr;
    });
    EXPECT_EQ(report.tensors, static_cast<std::uint64_t>(with_data));
    (void)checkpoint->load();
  }

  static void expect_views(const std::string& place);
};

// Reads every view of a golden checkpoint that is now at `place`.
void Golden::expect_views(const std::string& place) {
  const Bytes text = read_file(kRoot + GetParam() + ".expected.json");
  const Json expected = parse_json(as_text(text));
  for (const auto& view : *expected.find("views")->as_array()) {
    SCOPED_TRACE(to_text(*view.find("path")) +
                 (view.find("step") ? " step " + to_text(*view.find("step")) : "") +
                 (view.find("item") ? " item " + to_text(*view.find("item")) : ""));
    expect_view(place, view);
  }
}

TEST_P(Golden, ReadsAsSaved) { expect_views(kRoot + GetParam()); }

TEST_P(Golden, ReadsFromAStore) {
  const std::string place = "memory://golden/" + GetParam();
  testing::upload(kRoot + GetParam(), place);
  expect_views(place);
}

INSTANTIATE_TEST_SUITE_P(Orbax, Golden, ::testing::ValuesIn(golden_cases()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
});

}  // namespace
}  // namespace cairn
