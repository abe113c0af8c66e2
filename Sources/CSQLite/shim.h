#include <sqlite3.h>

// A macro that Swift cannot read: the library copies what is bound.
static inline sqlite3_destructor_type csqlite_transient(void) { return SQLITE_TRANSIENT; }
