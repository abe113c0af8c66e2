// Expat, and what measures the strings that it hands out. How it is used: Sources/Serialization/XMLParse.swift.

// The library is built with DTDs; its header shows the limits on their expansion only where this is said.
#define XML_DTD 1

#include <expat.h>
#include <string.h>
