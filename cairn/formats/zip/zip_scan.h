// zip_scan.h -- finds the members of a zip archive without its directory, which is at the end and
// so the first thing that a truncated file lacks.
//
// The scan goes from one local header to the next. A header with zeros in place of the sizes is
// followed by the content and a data descriptor, which repeats the size.
#pragma once

#include <cairn/formats/zip/zip_directory.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// The members that were found.
struct ScannedZip {
  std::vector<ZipMember> members;  // located; all of the content lies in the archive
  std::vector<std::pair<std::string, std::string>> lost;  // (name, reason)
  std::vector<std::string> notes;                         // bytes that belong to no member
};
// Never throws because of damage. Contents are checked only where headers are damaged: their
// readers compare them with the CRC-32 that the headers state.
ScannedZip scan_zip(std::uint64_t archive_size, const ReadAtFn& read);

}  // namespace cairn::inline v0
