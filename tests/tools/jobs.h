// jobs.h -- several processes that use a tool together: how it is told, and how all of them ended.
#pragma once

#include <cairn/distributed.h>
#include <cairn/error.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace cairn::testing {

inline MultiprocessingOptions job_of(const std::shared_ptr<Coordinator>& coordinator) {
  return {.coordinator = coordinator};
}

// errors: of run_as_processes.
inline void expect_all_well(const std::vector<std::optional<Error>>& errors) {
  for (std::size_t p = 0; p < errors.size(); ++p)
    EXPECT_FALSE(errors[p]) << "process " << p << ": " << errors[p]->message();
}

}  // namespace cairn::testing
