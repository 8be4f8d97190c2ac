// multiprocess_jobs.h -- one process's part of a list of jobs that several do together; the tools
// differ in how their processes meet.
#pragma once

#include <cairn/distributed.h>

#include <memory>
#include <string>

namespace cairn::testing {

// Reads the jobs from one file and writes what became of them to `out`-<process>:
//
// In:  [{"op": "save" | "async_save", "dir": folder, "owners": [[device, ...] of process 0, ...],
// "primary": 0, "options": {...},
//        "array": {...}, "item": tree, "save_args": tree, ...}          see save_jobs.h
//        "killed": {"process": 2, "collective": 3, "after": true}   which kills itself at its
//        collective number 3, from 0
//       {"op": "restore", "dir": folder, "owners": [...], "restore_args": tree}]
// Out: for each {"done": true}, {"error": text, "code": "invalid_argument"}, or of a restore
//      {"tree": tree, "held": {name: {"key": kind of PRNG keys, "shards": [[device, origin, shape,
//      hex], ...]}, ...}}: sharded arrays are placeholders in the tree; of them only what the
//      process's own devices hold is restored. Process 0 also verifies what it restores.
void run_multiprocess_jobs(const std::shared_ptr<Coordinator>& mine, const std::string& jobs,
                           const std::string& out);

}  // namespace cairn::testing
