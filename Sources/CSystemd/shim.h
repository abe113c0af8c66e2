// What a service says to systemd, asks it and takes over from it, and the journal. How it is used: Systemd.swift,
// ServiceQuestion.swift and SystemJournal.swift in Sources/Transport.

// Without it the journal's calls are macros, which Swift does not import, and each entry names a place in a source.
#define SD_JOURNAL_SUPPRESS_LOCATION 1

#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>
#include <systemd/sd-login.h>
