// interrupt.h -- handles Ctrl-C and similar signals: removes half-written files, then ends the
// program.
#pragma once

namespace cairn::cli {

// From now on SIGINT, SIGTERM and SIGHUP remove the temporary files of this process and end it with
// status 128 + signal (130 for Ctrl-C, 143 for SIGTERM). A commit that has begun is finished first.
// Signals that are ignored stay ignored (nohup). Call this before any other thread starts.
void end_cleanly_on_signals();

// Does not return if such a signal has arrived. From then on operations fail because their files
// are gone, and the exit status must be the signal's.
void wait_if_ending();

}  // namespace cairn::cli
