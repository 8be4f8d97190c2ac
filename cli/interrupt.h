// interrupt.h -- Ctrl-C and its like: what is half written goes, then the program ends.
#pragma once

namespace cairn::cli {

// From now on SIGINT, SIGTERM and SIGHUP remove the temporary files of this process and end it with
// status 128 + signal (130 for Ctrl-C, 143 for SIGTERM). A commit that has begun is finished first.
// Signals that are ignored stay ignored (nohup). Call it before any other thread starts.
void end_cleanly_on_signals();

// Does not return if such a signal has come: what fails from then on fails because its files are
// gone, and the status is the signal's.
void wait_if_ending();

}  // namespace cairn::cli
