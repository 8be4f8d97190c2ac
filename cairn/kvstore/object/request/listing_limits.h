// listing_limits.h -- ListingLimits, which ends a listing that a store would continue for ever.
#pragma once

#include <cairn/kvstore/object/request/store_error.h>

#include <cstddef>
#include <string>

namespace cairn::inline v0::object {

// Some stores answer pages without names, such as those of removed objects. A store that never
// answers anything else, or never ends, is refused.
class ListingLimits {
 public:
  static constexpr int kMostEmptyPages = 1000;  // one after the other
  // Names of one listing. They take about 200 bytes of memory each.
  static constexpr std::size_t kMostNames = 20'000'000;

  // Call it after each page, with the number of all names so far. Throws WrongAnswer.
  void check(std::size_t names) {
    empty_pages_ = names > names_ ? 0 : empty_pages_ + 1;
    names_ = names;
    if (empty_pages_ >= kMostEmptyPages)
      throw WrongAnswer("the listing does not end: " + std::to_string(kMostEmptyPages) +
                        " pages bring no names");
    if (names > kMostNames)
      throw WrongAnswer("the listing has more than " + std::to_string(kMostNames) + " names");
  }

 private:
  int empty_pages_ = 0;
  std::size_t names_ = 0;
};

}  // namespace cairn::inline v0::object
