// event_sinks.h -- observers that are ready to use: one prints events for people, the other appends
// them to a file for programs. Both may be called from several threads, and may be given to several
// saves, restores and managers at the same time.
#pragma once

#include <cairn/observer.h>

#include <cstdio>
#include <string>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Prints each event of at least this level as one line, event_text(). Lines of several threads do
// not mix. The stream must stay open as long as the observer is used.
Observer event_printer(EventLevel least = EventLevel::kWarning, std::FILE* stream = stderr);

// Options of json_lines_sink().
struct JsonLinesOptions {
  EventLevel least = EventLevel::kInfo;  // events of lower levels are left out
  // Receives each event that cannot be written, after an event "observer.not_written" (error) with
  // the path and the message of the failure. Null: event_printer(least).
  Observer otherwise = {};
};
// Appends each event to a file as one line, event_json(). The file is made if it is missing, and
// stays open as long as the observer or a copy of it exists. Each line is written with one call of
// the system and is in the file when the observer returns, so a killed process loses none; a
// machine that loses its power may lose the last ones. Processes may append to one file of a local
// file system. An incomplete line, from a full disk or a killed process, stays on a line of its
// own. Throws io if the file cannot be opened, not_found if its directory is missing.
Observer json_lines_sink(const std::string& path, JsonLinesOptions options = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
