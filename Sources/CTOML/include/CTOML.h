// TOML 1.0 for Swift: bytes in, a flat list of nodes with their places out.
//
// toml++ is C++ templates that Swift cannot import; this is all of it that the configuration needs. The nodes of a
// document stand in one array, each table and array directly before its children (preorder), children in the order of
// the source. Everything a node points to lives as long as the document. Lines and columns count from 1; a column is
// one Unicode scalar. How it is tested: Tests/PolicyTests/TOMLValueTests.swift.

#ifndef CTOML_H
#define CTOML_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Most parts that one dotted key or table header may have. The configuration needs six; toml++ itself sets no bound, and
/// takes a nested table apart by recursion.
#define CTOML_MOST_KEY_PARTS 16
/// Most arrays and inline tables inside one another.
#define CTOML_DEEPEST_NESTING 32

typedef enum ctoml_kind {
  CTOML_TABLE,
  CTOML_ARRAY,
  CTOML_STRING,
  CTOML_INTEGER,
  CTOML_FLOAT,
  CTOML_BOOLEAN,
  CTOML_DATE_TIME
} ctoml_kind;

typedef struct ctoml_position {
  uint32_t line;
  uint32_t column;
} ctoml_position;

typedef struct ctoml_node {
  ctoml_kind kind;
  /// Direct children of a table or an array.
  uint32_t children;
  /// UTF-8 without a final NUL; null in the root and in arrays.
  const char *key;
  size_t key_length;
  ctoml_position key_begin;
  ctoml_position begin;
  /// Behind the last character of the value.
  ctoml_position end;
  /// UTF-8 of a string, which may hold NUL, or the text of a date or time.
  const char *text;
  size_t text_length;
  /// The value of an integer; 0 or 1 of a boolean.
  int64_t integer;
  double real;
} ctoml_node;

typedef struct ctoml_document ctoml_document;

/// Parses `count` bytes. Never null; memory that runs out ends the process.
ctoml_document *ctoml_parse(const char *bytes, size_t count);
void ctoml_free(ctoml_document *document);

/// What is wrong with the syntax, NUL-terminated, and where; null where the document is well formed.
const char *ctoml_fault(const ctoml_document *document, ctoml_position *position);

/// The nodes; the first is the root table. Empty where the syntax is wrong.
const ctoml_node *ctoml_nodes(const ctoml_document *document, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
