// foreign.h -- names files of formats that Cairn does not read.
#pragma once

#include <cairn/bytes.h>

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Returns the kind of a file of another program, judging by its first bytes: "a PyTorch
// checkpoint". Empty if it is not recognised.
std::string_view foreign_format(ByteView first);
// Throws unimplemented if the file is recognised.
void refuse_foreign_file(const std::string& path);
// Throws unimplemented for the first file in the folder, by name, that is recognised. Passes over
// files that cannot be read, and looks at no more than 1000: the folder may be anybody's.
void refuse_foreign_files_in(const std::string& folder);

}  // namespace cairn::inline v0
