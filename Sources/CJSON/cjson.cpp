// The shim over simdjson: see CJSON.h.

#include "CJSON.h"

#include <simdjson.h>

#include <algorithm>

static_assert(CJSON_PADDING_BYTES >= simdjson::SIMDJSON_PADDING, "simdjson reads further than the header says");

struct cjson_parser {
  simdjson::dom::parser dom;
};

cjson_parser *cjson_create(void) { return new cjson_parser; }

void cjson_free(cjson_parser *parser) { delete parser; }

bool cjson_accepts(cjson_parser *parser, const uint8_t *bytes, size_t count, size_t depth) {
  simdjson::dom::parser &dom = parser->dom;
  // The depth is set together with the capacity. Where neither changes, nothing is allocated.
  if (dom.allocate(std::max(dom.capacity(), count), depth) != simdjson::SUCCESS) return false;
  return dom.parse(bytes, count, false).error() == simdjson::SUCCESS;
}
