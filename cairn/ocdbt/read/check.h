// check.h -- reads a whole OCDBT database and says what is wrong with it.
#pragma once

#include <cairn/kvstore.h>
#include <cairn/verify_report.h>

#include <set>
#include <string>

namespace cairn::ocdbt {

// Walks the manifest (every numbered one), all versions still reachable, all version-tree and
// B+tree nodes (each once) and checks that every value reference of the newest version lies inside
// its data file. Damage goes to report.findings with file and offset; the walk goes on elsewhere.
// `files` receives every key of `base` that the database refers to or is made of (manifests, data
// files), so that the caller can find orphans. Never throws for damage.
void check_database(const StorePtr& base, VerifyReport& report, std::set<std::string>& files);

}  // namespace cairn::ocdbt
