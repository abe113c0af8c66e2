// What a service says to systemd and takes over from it, and the journal. How it is used: Sources/Transport/Systemd.swift
// and Sources/Transport/SystemJournal.swift.

// Without it the journal's calls are macros, which Swift does not import, and each entry names a place in a source.
#define SD_JOURNAL_SUPPRESS_LOCATION 1

#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>
