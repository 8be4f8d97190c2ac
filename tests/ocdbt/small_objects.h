// small_objects.h -- the smallest manifest, nodes and file table that have everything, and how the
// tests of their codecs spoil them.
#pragma once

#include <cairn/ocdbt/format/btree.h>
#include <cairn/ocdbt/format/manifest.h>
#include <cairn/ocdbt/format/version_tree.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string_view>

#include "tests/ocdbt/damaged_body.h"
#include "tests/support/check_codec.h"
#include "tests/support/matchers.h"

namespace cairn::ocdbt::testing {

// A decoder of owned bytes as one of views.
template <auto decode>
constexpr auto of_view = [](ByteView bytes) { return decode(Bytes(bytes.begin(), bytes.end())); };

// The data file of the objects that TensorStore wrote and the documentation of the format shows.
inline constexpr std::string_view kDocumentedFile = "d/9c53ae1a097293cc1a18b14f825e1874";

inline DataFileTable one_file() { return {{"", "d/x"}}; }
// "" is the object's own file
inline DataFileTable this_and_one_file() { return {{"", ""}, {"", "d/x"}}; }
// two processes
inline DataFileTable files_of_two() { return {{"p0/", "d/a"}, {"p0/", "d/b"}, {"p1/", "d/a"}}; }

inline BtreeNode small_leaf() {
  BtreeNode node;
  node.files = {{"", "d/x"}, {"p/", "d/y"}};
  node.add_inline("ab", as_bytes("one"));
  node.add_out_of_line("abc", {.file = 1, .offset = 5, .length = 7});
  node.add_inline("b", {});
  return node;
}

inline BtreeNode small_interior() {
  BtreeNode node;
  node.height = 3;
  node.files = one_file();
  node.add_child(
      "ab", {.location = {0, 10, 20}, .statistics = {1, 2, 3}, .subtree_common_prefix_length = 1});
  node.add_child(
      "abc", {.location = {0, 30, 40}, .statistics = {4, 5, 6}, .subtree_common_prefix_length = 3});
  return node;
}

inline VersionNode small_version_leaf() {
  VersionNode node;
  node.arity_log2 = 2;
  node.files = this_and_one_file();
  node.versions = {{.generation = 5, .commit_time_ns = 100},
                   {.generation = 6,
                    .root_height = 1,
                    .root = {1, 10, 20},
                    .statistics = {3, 4, 5},
                    .commit_time_ns = 101},
                   {.generation = 8,
                    .root_height = 0,
                    .root = {1, 30, 40},
                    .statistics = {6, 7, 8},
                    .commit_time_ns = 200}};
  return node;
}

inline VersionNode small_version_interior() {
  VersionNode node;
  node.arity_log2 = 2;
  node.height = 2;
  node.files = one_file();
  node.children = {{.generation = 80,
                    .location = {0, 10, 20},
                    .num_generations = 16,
                    .commit_time_ns = 100,
                    .height = 1},
                   {.generation = 112,
                    .location = {0, 30, 40},
                    .num_generations = 1,
                    .commit_time_ns = 200,
                    .height = 1}};
  return node;
}

// Generation 24 with A = 2: heights 3, 2, 1 and two inline versions.
inline Manifest small_manifest() {
  Manifest m;
  m.config.uuid = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  m.config.version_tree_arity_log2 = 1;
  m.config.zstd_level = std::nullopt;
  m.files = this_and_one_file();
  m.versions = {{.generation = 23, .commit_time_ns = 1000},
                {.generation = 24,
                 .root_height = 2,
                 .root = {1, 10, 20},
                 .statistics = {1, 2, 3},
                 .commit_time_ns = 1001}};
  m.version_nodes = {{.generation = 16,
                      .location = {1, 30, 40},
                      .num_generations = 16,
                      .commit_time_ns = 1,
                      .height = 3},
                     {.generation = 20,
                      .location = {1, 70, 40},
                      .num_generations = 4,
                      .commit_time_ns = 17,
                      .height = 2},
                     {.generation = 22,
                      .location = {1, 110, 40},
                      .num_generations = 2,
                      .commit_time_ns = 21,
                      .height = 1}};
  return m;
}

// A value made wrong before it is encoded: its bytes are what a bad writer would leave.
template <class Value>
struct Spoilt {
  const char* name;
  std::function<void(Value&)> spoil;
  const char* expect;  // in the message of a data_loss
};
template <class Value, class Encode, class Decode>
void check_spoilt(const Value& good, std::span<const Spoilt<Value>> table, Encode encode,
                  Decode decode) {
  for (const auto& bad : table) {
    SCOPED_TRACE(bad.name);
    Value value = good;
    bad.spoil(value);
    const Bytes bytes = encode(value);
    EXPECT_THAT([&] { decode(bytes); }, cairn::testing::FailsWith(Code::kDataLoss, bad.expect));
  }
}

}  // namespace cairn::ocdbt::testing
