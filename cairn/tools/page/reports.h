// reports.h -- the results of verify() and diff() as the page's data.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/diff.h>
#include <cairn/tools/page/rows.h>
#include <cairn/verify_report.h>

#include <string>

namespace cairn::inline v0::page {

// At most 500 findings, the worst first.
Json integrity_json(const VerifyReport& report, const Rows& rows);
// At most 5,000 leaves, those that differ most first. `path`: of B.
Json differences_json(const DiffReport& report, const std::string& path, const Rows& rows);

}  // namespace cairn::inline v0::page
