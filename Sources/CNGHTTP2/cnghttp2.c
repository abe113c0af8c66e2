// See the header. Debian 12 has libnghttp2 1.52: calls that came later are not used.

#include "cnghttp2.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct cng_session {
  nghttp2_session *raw;
  cng_events events;
  void *owner;
  bool is_server;
  // Ended by us.
  bool is_ended;
  // The library's buffer for one frame, of which an idle connection has touched a page or none.
  void *frame;
};

_Static_assert(
    CNG_FLOODED == NGHTTP2_ERR_FLOODED && CNG_CONTINUED_TOO_OFTEN == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS, "nghttp2_error");

// Four times the largest `header_bytes`: the library counts twelve bytes more for each field than it has.
enum { MOST_HEADER_BYTES = 4 << 20 };

// Fields of one head that are sent from the stack; a longer one takes memory for the call.
enum { FIELDS_ON_STACK = 64 };

// Memory of the library. Each session keeps a buffer that holds the largest frame. Content does not go through it, so
// few bytes of it are ever used. From the heap its pages would be those that others have used; mapped, they are taken
// when touched.

enum { FRAME_BYTES = 16384 };
enum { FRAME_MAPPED_BYTES = 5 * 4096 };

static void *allocate(size_t count, void *data) {
  cng_session *session = data;
  if (count < FRAME_BYTES || count > FRAME_MAPPED_BYTES || session->frame != NULL) return malloc(count);
  void *mapped = mmap(NULL, FRAME_MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return malloc(count);
  return session->frame = mapped;
}

static void release(void *memory, void *data) {
  cng_session *session = data;
  if (memory == NULL || memory != session->frame) return free(memory);
  // Where the kernel splits no more mappings it may at least have the pages.
  if (munmap(memory, FRAME_MAPPED_BYTES) != 0) madvise(memory, FRAME_MAPPED_BYTES, MADV_DONTNEED);
  session->frame = NULL;
}

static void *allocate_zeroes(size_t count, size_t size, void *data) {
  (void)data;
  return calloc(count, size);
}

static void *reallocate(void *memory, size_t count, void *data) {
  cng_session *session = data;
  if (memory == NULL) return allocate(count, data);
  if (memory != session->frame) return realloc(memory, count);
  if (count <= FRAME_MAPPED_BYTES) return memory;
  void *moved = malloc(count);
  if (moved == NULL) return NULL;
  memcpy(moved, memory, FRAME_MAPPED_BYTES);
  release(memory, data);
  return moved;
}

static int answered(bool goes_on) { return goes_on ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE; }

static bool opens_stream(const nghttp2_frame *frame) {
  return frame->headers.cat == NGHTTP2_HCAT_REQUEST || frame->headers.cat == NGHTTP2_HCAT_RESPONSE;
}

static int on_begin_headers(nghttp2_session *raw, const nghttp2_frame *frame, void *data) {
  (void)raw;
  cng_session *session = data;
  if (frame->hd.type != NGHTTP2_HEADERS) return 0;
  return answered(session->events.fields_begin(session->owner, frame->hd.stream_id, opens_stream(frame)));
}

static int on_header(
    nghttp2_session *raw, const nghttp2_frame *frame, const uint8_t *name, size_t name_length, const uint8_t *value,
    size_t value_length, uint8_t flags, void *data) {
  (void)raw;
  cng_session *session = data;
  if (frame->hd.type != NGHTTP2_HEADERS) return 0;
  if (flags & NGHTTP2_NV_FLAG_NO_INDEX) session->events.never_indexed(session->owner, name, name_length);
  switch (session->events.field(session->owner, name, name_length, value, value_length)) {
    case CNG_FIELD_TAKEN: return 0;
    case CNG_FIELD_LEFT: return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    default: return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

// Left to itself the library passes over a field that is malformed.
static int on_invalid_header(
    nghttp2_session *raw, const nghttp2_frame *frame, const uint8_t *name, size_t name_length, const uint8_t *value,
    size_t value_length, uint8_t flags, void *data) {
  (void)raw, (void)frame, (void)name, (void)name_length, (void)value, (void)value_length, (void)flags, (void)data;
  return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data(
    nghttp2_session *raw, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t count, void *data) {
  (void)raw;
  (void)flags;
  cng_session *session = data;
  return answered(session->events.content(session->owner, stream, bytes, count));
}

static int on_frame(nghttp2_session *raw, const nghttp2_frame *frame, void *data) {
  (void)raw;
  cng_session *session = data;
  const cng_events *events = &session->events;
  bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  switch (frame->hd.type) {
  case NGHTTP2_HEADERS:
    if (!events->fields_end(session->owner, frame->hd.stream_id, ends)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    return ends ? answered(events->ended(session->owner, frame->hd.stream_id)) : 0;
  case NGHTTP2_DATA: return ends ? answered(events->ended(session->owner, frame->hd.stream_id)) : 0;
  case NGHTTP2_RST_STREAM:
    return answered(events->reset(session->owner, frame->hd.stream_id, frame->rst_stream.error_code));
  case NGHTTP2_SETTINGS:
    if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) events->settled(session->owner);
    return 0;
  case NGHTTP2_GOAWAY:
    events->goaway(session->owner, frame->goaway.last_stream_id, frame->goaway.error_code);
    return 0;
  default: return 0;
  }
}

static int on_invalid_frame(nghttp2_session *raw, const nghttp2_frame *frame, int error, void *data) {
  (void)raw;
  cng_session *session = data;
  uint32_t code = error == NGHTTP2_ERR_REFUSED_STREAM ? NGHTTP2_REFUSED_STREAM : NGHTTP2_PROTOCOL_ERROR;
  session->events.refused(session->owner, frame->hd.stream_id, code);
  return 0;
}

static int on_close(nghttp2_session *raw, int32_t stream, uint32_t code, void *data) {
  (void)raw;
  cng_session *session = data;
  session->events.closed(session->owner, stream, code);
  return 0;
}

static int on_frame_sent(nghttp2_session *raw, const nghttp2_frame *frame, void *data) {
  (void)raw;
  cng_session *session = data;
  if (frame->hd.type != NGHTTP2_GOAWAY || frame->goaway.error_code == NGHTTP2_NO_ERROR || session->is_ended) return 0;
  session->is_ended = true;
  session->events.ends(
      session->owner, frame->goaway.error_code, frame->goaway.opaque_data, frame->goaway.opaque_data_len);
  return 0;
}

static ssize_t on_more(
    nghttp2_session *raw, int32_t stream, uint8_t *into, size_t room, uint32_t *flags, nghttp2_data_source *source,
    void *data) {
  (void)raw;
  (void)into;
  (void)source;
  cng_session *session = data;
  int end = CNG_GOES_ON;
  ptrdiff_t count = session->events.more(session->owner, stream, room, &end);
  if (count == CNG_CONTENT_DEFERRED) return NGHTTP2_ERR_DEFERRED;
  if (count < 0) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (end != CNG_GOES_ON) *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (end == CNG_ENDS_WITH_TRAILERS) *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
  if (count > 0) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  return count;
}

static int on_send_data(
    nghttp2_session *raw, nghttp2_frame *frame, const uint8_t *head, size_t count, nghttp2_data_source *source,
    void *data) {
  (void)raw;
  (void)source;
  cng_session *session = data;
  switch (session->events.data(session->owner, frame->hd.stream_id, head, count)) {
    case CNG_DATA_SENT: return 0;
    // The library asks again with the same frame.
    case CNG_DATA_LATER: return NGHTTP2_ERR_WOULDBLOCK;
    default: return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
}

static bool submit_settings(nghttp2_session *raw, const cng_settings *settings) {
  nghttp2_settings_entry entries[5];
  size_t count = 0;
  if (settings->is_server) {
    entries[count++] =
        (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings->streams};
    if (settings->extended_connect) {
      entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1};
    }
  } else {
    entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
  }
  entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings->stream_window};
  entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings->header_list};
  if (nghttp2_submit_settings(raw, NGHTTP2_FLAG_NONE, entries, count) != 0) return false;
  return nghttp2_session_set_local_window_size(raw, NGHTTP2_FLAG_NONE, 0, (int32_t)settings->connection_window) == 0;
}

static int open_session(cng_session *session, const cng_settings *settings) {
  nghttp2_session_callbacks *callbacks = NULL;
  nghttp2_option *option = NULL;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) return NGHTTP2_ERR_NOMEM;
  if (nghttp2_option_new(&option) != 0) {
    nghttp2_session_callbacks_del(callbacks);
    return NGHTTP2_ERR_NOMEM;
  }
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_reserved_remote_streams(option, 0);
  // Heads are limited before they come here. Unless told so, the library drops longer ones without a word.
  nghttp2_option_set_max_send_header_block_length(option, MOST_HEADER_BYTES);
  nghttp2_option_set_max_outbound_ack(option, settings->outbound_acknowledgements);
  nghttp2_option_set_stream_reset_rate_limit(option, settings->reset_burst, settings->reset_rate);
  nghttp2_mem memory = {session, allocate, release, allocate_zeroes, reallocate};
  int status = settings->is_server
      ? nghttp2_session_server_new3(&session->raw, callbacks, session, option, &memory)
      : nghttp2_session_client_new3(&session->raw, callbacks, session, option, &memory);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  return status;
}

cng_session *cng_create(const cng_settings *settings, const cng_events *events, void *owner) {
  cng_session *session = calloc(1, sizeof *session);
  if (session == NULL) return NULL;
  session->events = *events;
  session->owner = owner;
  session->is_server = settings->is_server;
  if (open_session(session, settings) != 0 || !submit_settings(session->raw, settings)) {
    cng_destroy(session);
    return NULL;
  }
  return session;
}

void cng_destroy(cng_session *session) {
  if (session->raw != NULL) nghttp2_session_del(session->raw);
  free(session);
}

int cng_receive(cng_session *session, const uint8_t *bytes, size_t count) {
  ssize_t taken = nghttp2_session_mem_recv(session->raw, bytes, count);
  return taken < 0 ? (int)taken : 0;
}

ptrdiff_t cng_next_output(cng_session *session, const uint8_t **bytes) {
  return nghttp2_session_mem_send(session->raw, bytes);
}

bool cng_is_over(const cng_session *session) {
  return nghttp2_session_want_read(session->raw) == 0 && nghttp2_session_want_write(session->raw) == 0;
}

void cng_consume(cng_session *session, int32_t stream, size_t count) {
  // Of a stream that is over the connection's part still counts.
  nghttp2_session_consume(session->raw, stream, count);
}

void cng_consume_connection(cng_session *session, size_t count) {
  nghttp2_session_consume_connection(session->raw, count);
}

void cng_consume_stream(cng_session *session, int32_t stream, size_t count) {
  nghttp2_session_consume_stream(session->raw, stream, count);
}

// MARK: Messages of ours

// Other credentials are kept out of the tables by the library (RFC 7541, 7.1.3).
static bool is_for_proxy(const cng_field *field) {
  static const char name[] = "proxy-authorization";
  return field->name_length == sizeof name - 1 && memcmp(field->name, name, sizeof name - 1) == 0;
}

static nghttp2_nv *list(const cng_field *fields, size_t count, nghttp2_nv *on_stack) {
  nghttp2_nv *values = count <= FIELDS_ON_STACK ? on_stack : malloc(count * sizeof *values);
  if (values == NULL) return NULL;
  for (size_t index = 0; index < count; index++) {
    // The library does not write to them.
    values[index].name = (uint8_t *)fields[index].name;
    values[index].namelen = fields[index].name_length;
    values[index].value = (uint8_t *)fields[index].value;
    values[index].valuelen = fields[index].value_length;
    bool is_sensitive = fields[index].never_indexed || is_for_proxy(&fields[index]);
    values[index].flags = is_sensitive ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE;
  }
  return values;
}

static void discard(nghttp2_nv *values, const nghttp2_nv *on_stack) {
  if (values != on_stack) free(values);
}

static const nghttp2_data_provider content = {.read_callback = on_more};

int32_t cng_request(cng_session *session, const cng_field *fields, size_t count, bool has_content) {
  nghttp2_nv on_stack[FIELDS_ON_STACK];
  nghttp2_nv *values = list(fields, count, on_stack);
  if (values == NULL) return NGHTTP2_ERR_NOMEM;
  int32_t stream = nghttp2_submit_request(session->raw, NULL, values, count, has_content ? &content : NULL, NULL);
  discard(values, on_stack);
  return stream;
}

int cng_informational(cng_session *session, int32_t stream, const cng_field *fields, size_t count) {
  nghttp2_nv on_stack[FIELDS_ON_STACK];
  nghttp2_nv *values = list(fields, count, on_stack);
  if (values == NULL) return NGHTTP2_ERR_NOMEM;
  int status = nghttp2_submit_headers(session->raw, NGHTTP2_FLAG_NONE, stream, NULL, values, count, NULL);
  discard(values, on_stack);
  return status;
}

int cng_response(cng_session *session, int32_t stream, const cng_field *fields, size_t count, bool has_content) {
  nghttp2_nv on_stack[FIELDS_ON_STACK];
  nghttp2_nv *values = list(fields, count, on_stack);
  if (values == NULL) return NGHTTP2_ERR_NOMEM;
  int status = nghttp2_submit_response(session->raw, stream, values, count, has_content ? &content : NULL);
  discard(values, on_stack);
  return status;
}

int cng_trailers(cng_session *session, int32_t stream, const cng_field *fields, size_t count) {
  nghttp2_nv on_stack[FIELDS_ON_STACK];
  nghttp2_nv *values = list(fields, count, on_stack);
  if (values == NULL) return NGHTTP2_ERR_NOMEM;
  int status = nghttp2_submit_trailer(session->raw, stream, values, count);
  discard(values, on_stack);
  return status;
}

void cng_resume(cng_session *session, int32_t stream) { nghttp2_session_resume_data(session->raw, stream); }

int cng_reset(cng_session *session, int32_t stream, uint32_t code) {
  return nghttp2_submit_rst_stream(session->raw, NGHTTP2_FLAG_NONE, stream, code);
}

void cng_ping(cng_session *session) { nghttp2_submit_ping(session->raw, NGHTTP2_FLAG_NONE, NULL); }

void cng_announce_end(cng_session *session) {
  nghttp2_submit_goaway(
      session->raw, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session->raw), NGHTTP2_NO_ERROR, NULL,
      0);
}

void cng_end(cng_session *session, uint32_t code) {
  session->is_ended = true;
  nghttp2_session_terminate_session(session->raw, code);
}

bool cng_may_open(const cng_session *session) { return nghttp2_session_check_request_allowed(session->raw) != 0; }

uint32_t cng_peer_streams(const cng_session *session) {
  return nghttp2_session_get_remote_settings(session->raw, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool cng_peer_connects(const cng_session *session) {
  return nghttp2_session_get_remote_settings(session->raw, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
}

const char *cng_error(int code) { return nghttp2_strerror(code); }
