// read_ahead.h -- reads a file of a store in blocks, for readers of many small parts.
#pragma once

#include <cairn/io/file.h>

namespace cairn::inline v0 {

// Returns a local file as it is. Small reads of a file in a store fetch the whole block that they
// lie in, and the last few blocks are kept: a request takes as long as the transfer of a block.
File with_read_ahead(File file);

}  // namespace cairn::inline v0
