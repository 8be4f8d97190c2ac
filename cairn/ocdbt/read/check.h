// check.h -- reads a whole OCDBT database and reports all damage.
#pragma once

#include <cairn/storage/kvstore.h>
#include <cairn/verify_report.h>

#include <set>
#include <string>

namespace cairn::inline v0::ocdbt {

// Walks the manifest (all numbered manifests), all reachable versions, and all version-tree and
// B+tree nodes (each once). Checks that every value reference of the newest version lies inside its
// data file. Adds damage to report.findings with file and offset, and continues with the other
// objects. `files` receives every key of `base` that belongs to the database (manifests, data
// files), so that the caller can find orphans. Never throws because of damage.
void check_database(const StorePtr& base, VerifyReport& report, std::set<std::string>& files);

}  // namespace cairn::inline v0::ocdbt
