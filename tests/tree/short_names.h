// short_names.h -- keys and trees in as few letters as the tables of these tests want.
#pragma once

#include <cairn/tree.h>

#include <cstdint>
#include <string>
#include <utility>

namespace cairn::testing {

inline Key d(std::string text) { return {std::move(text), KeyType::kDict}; }
inline Key s(std::string text) { return {std::move(text), KeyType::kSequence}; }
inline Tree i(std::int64_t v) { return Tree(v); }
inline Tree dict(Tree::Dict members) { return Tree(std::move(members)); }

}  // namespace cairn::testing
