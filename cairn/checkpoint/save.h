// save.h -- a whole checkpoint of one item, whatever its leaves come from.
#pragma once

#include <cairn/checkpoint/item_writer.h>

#include <string>

namespace cairn::checkpoint {

// As cairn::save_orbax. The item's own custom metadata counts, not that of the options.
void save_item(const std::string& path, const SaveItem& item, const SaveOptions& options);

}  // namespace cairn::checkpoint
