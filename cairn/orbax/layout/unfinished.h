// unfinished.h -- whether the save of a checkpoint has ended.
#pragma once

#include <cairn/orbax/layout/layout.h>

#include <string>

namespace cairn::inline v0::orbax {

// Returns why the directory at `path` is unfinished, judging by its name; "" if it is finished.
std::string unfinished_name(const std::string& path);

// Returns why the checkpoint is unfinished, judging by its files; "" if it is finished.
// Orbax judges a directory by its name only. It records the start time first, the handlers after
// the data, and the commit time last. So a start time alone means that the data is incomplete. A
// commit time that is merely absent does not: Orbax lists it among the metadata that may be absent.
std::string unfinished_content(const Listing& listing);

// As unfinished_content, also for the items of the checkpoint `layout`.
std::string unfinished_part(const Layout& layout, const Listing& listing);

}  // namespace cairn::inline v0::orbax
