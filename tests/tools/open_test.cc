// open_test.cc -- opening what is being saved: not damaged and not absent, but unavailable.
#include <cairn/formats/files/output_names.h>
#include <cairn/io/save_lock.h>
#include <cairn/open.h>
#include <gmock/gmock.h>

#include <string>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::TempDir;

TEST(Open, WhatIsBeingSavedIsUnavailable) {
  const TempDir dir;
  struct Row {
    std::string saved;   // the save takes the lock of this path
    std::string opened;  // a path that the save may write
  };
  const Row rows[] = {{"new", "new"},
                      {"new", "new/"},
                      {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"},
                      {"model.safetensors.index.json", "model-00002-of-00002.safetensors"},
                      {"ckpt-1.index", "ckpt-1"},
                      {"ckpt-1.index", "ckpt-1.data-00000-of-00001"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.saved + " " + row.opened);
    const auto open_it = [&] { open(dir / row.opened); };
    {
      const SaveLock save(save_lock_path(dir / row.saved));
      EXPECT_THAT(open_it, FailsWith(Code::kUnavailable, "a save to it is in progress"));
    }
    EXPECT_THAT(open_it, FailsWith(Code::kNotFound, row.opened));
  }
}

}  // namespace
}  // namespace cairn
