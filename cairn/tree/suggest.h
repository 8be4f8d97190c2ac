// suggest.h -- finds the word that a user probably meant.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// "; did you mean 'a', 'b'?" with up to three of the words that are like `wanted`, the most alike
// first; "" if none is. Upper and lower case do not count.
std::string suggestion_text(std::string_view wanted, std::span<const std::string> words);
// The same for `count` words, which the function returns by index.
std::string suggestion_text(std::string_view wanted, std::size_t count,
                            const std::function<std::string_view(std::size_t)>& word);

}  // namespace cairn::inline v0
