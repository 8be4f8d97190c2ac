// clean_store.h -- what crashes have left in a store.
#pragma once

#include <cairn/maintain.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// clean_leftovers() for the URL of a store.
std::vector<CleanedPath> clean_store(const std::string& url, const CleanOptions& options);

}  // namespace cairn::inline v0
