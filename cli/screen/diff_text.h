// diff_text.h -- the differences of two checkpoints as text for people.
#pragma once

#include <cairn/cairn.h>

#include <cstddef>
#include <string>

namespace cairn::cli {

// Sorts the leaves of the report: by name, or the worst first by different, max-abs, rms, relative
// or cosine. Leaves without that measure come last. "" keeps the order. Leaves in which a NaN or an
// infinity differs come before all others.
void sort_diff(DiffReport& report, const std::string& by);
// The leaves: first what differs in structure, one line each, then a table of values. Shows at most
// `limit` leaves and says how many more there are.
std::string leaves_text(const DiffReport& report, std::size_t limit);
// One line for each kind of difference that does not count.
std::string notes_text(const DiffReport& report);
// The most differences of NaN and infinities, the largest errors and the smallest cosine, with their
// leaves. "" if no values differ.
std::string worst_text(const DiffReport& report);
// The counts of leaves.
std::string counts_text(const DiffReport& report);

}  // namespace cairn::cli
