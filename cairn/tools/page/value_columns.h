// value_columns.h -- the statistics of the rows.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/checkpoint.h>
#include <cairn/tools/page/phases.h>
#include <cairn/tools/page/rows.h>

#include <cstddef>

namespace cairn::inline v0::page {

// What the columns hold, and how many arrays could not be read.
struct ValueColumns {
  Json json;
  std::size_t unreadable = 0;
};
// Reads the arrays one after the other. One that cannot be read has its error in the columns.
// Throws cancelled.
ValueColumns value_columns(const Checkpoint& checkpoint, const Rows& rows,
                           const Resources& resources, Phases& phases);

}  // namespace cairn::inline v0::page
