// RFC 8259 at the speed of simdjson, for Swift: whether bytes are a JSON text, and nothing else.
//
// simdjson is C++ that Swift cannot import; this is all of it that a check needs. A parser keeps the memory that the
// longest text so far has needed, about fourteen times as much, so that a steady load allocates nothing: whoever owns
// one bounds the texts. One parser serves one thread. How it is tested:
// Tests/SerializationTests/JSONCheckerTests.swift and Tests/Fuzz/JSON.

#ifndef CJSON_H
#define CJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Bytes behind the text that must be readable, whatever they hold: simdjson reads whole blocks.
#define CJSON_PADDING_BYTES 64

typedef struct cjson_parser cjson_parser;

/// A parser without memory of its own yet. Never null; memory that runs out ends the process.
cjson_parser *cjson_create(void);
void cjson_free(cjson_parser *parser);

/// Whether `count` bytes with their padding are a JSON text with at most `depth` (at least 1) arrays and objects inside
/// one another. False does not mean that they are none: simdjson also refuses integers beyond 64 bits, numbers beyond a
/// double, and an array or object at the limit of depth unless it is empty; and memory may have run out.
bool cjson_accepts(cjson_parser *parser, const uint8_t *bytes, size_t count, size_t depth);

#ifdef __cplusplus
}
#endif

#endif
