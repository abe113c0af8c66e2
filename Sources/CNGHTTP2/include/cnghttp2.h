// libnghttp2 for Swift: one session, its callbacks as a table of functions, and the calls that the wire needs.
//
// The library does no I/O. A table's functions are called within `cng_receive` and `cng_next_output`, never otherwise; a
// function that answers false ends what called it.

#ifndef SALLYPORT_CNGHTTP2_H
#define SALLYPORT_CNGHTTP2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cng_session cng_session;

/// What the content of a stream gives when it is asked for more.
enum {
  /// Nothing for now: `cng_resume` when there is more.
  CNG_CONTENT_DEFERRED = -1,
};

/// What `cng_receive` answers where more acknowledgements are owed than may wait, and where a head comes in too many
/// frames.
enum { CNG_FLOODED = -904, CNG_CONTINUED_TOO_OFTEN = -905 };

/// What becomes of a frame with content. Later: there is no room for it, and `cng_next_output` gives nothing more until it
/// is called again. Gone: the stream is no longer served.
enum { CNG_DATA_SENT = 0, CNG_DATA_LATER = 1, CNG_DATA_GONE = 2 };

/// What becomes of a field section with another line. Left: the stream is reset, and no more of its lines are passed on.
enum { CNG_FIELD_TAKEN = 0, CNG_FIELD_LEFT = 1, CNG_FIELD_ENDS_CONNECTION = 2 };

/// How content ends with what was given.
enum { CNG_GOES_ON = 0, CNG_ENDS = 1, CNG_ENDS_WITH_TRAILERS = 2 };

typedef struct {
  /// A field section begins; `is_first`: the peer opens the stream with it.
  bool (*fields_begin)(void *owner, int32_t stream, bool is_first);
  /// The next field of the section must not come into a table on its way (RFC 7541, 6.2.3).
  void (*never_indexed)(void *owner, const uint8_t *name, size_t name_length);
  /// One field line of that section.
  int (*field)(void *owner, const uint8_t *name, size_t name_length, const uint8_t *value, size_t value_length);
  /// The section is whole, and the message well-formed so far; `ends`: nothing follows it.
  bool (*fields_end)(void *owner, int32_t stream, bool ends);
  /// Content of a stream.
  bool (*content)(void *owner, int32_t stream, const uint8_t *bytes, size_t count);
  /// The peer's message is whole.
  bool (*ended)(void *owner, int32_t stream);
  /// The peer has reset the stream.
  bool (*reset)(void *owner, int32_t stream, uint32_t code);
  /// The library resets a stream for a fault of the peer.
  void (*refused)(void *owner, int32_t stream, uint32_t code);
  /// The stream is over; `code` says how. Nothing is called for it afterwards.
  void (*closed)(void *owner, int32_t stream, uint32_t code);
  /// The peer opens no more streams, and of ours it takes those up to `last`.
  void (*goaway)(void *owner, int32_t last, uint32_t code);
  /// The peer's settings are known.
  void (*settled)(void *owner);
  /// GOAWAY with an error leaves that `cng_end` did not ask for: the library has found a fault, and says which.
  void (*ends)(void *owner, uint32_t code, const uint8_t *reason, size_t count);
  /// How much more content of ours there is, `room` bytes at most; `end` says whether that is all.
  ptrdiff_t (*more)(void *owner, int32_t stream, size_t room, int *end);
  /// A frame of that content is sent now, in its place among the output: these nine bytes, then `count` bytes.
  int (*data)(void *owner, int32_t stream, const uint8_t *head, size_t count);
} cng_events;

typedef struct {
  bool is_server;
  /// SETTINGS_MAX_CONCURRENT_STREAMS of ours.
  uint32_t streams;
  /// SETTINGS_INITIAL_WINDOW_SIZE of ours, and the window of the connection, in bytes.
  uint32_t stream_window;
  uint32_t connection_window;
  /// SETTINGS_MAX_HEADER_LIST_SIZE of ours.
  uint32_t header_list;
  /// SETTINGS_ENABLE_CONNECT_PROTOCOL of ours (RFC 8441).
  bool extended_connect;
  /// Acknowledgements that may wait to be sent.
  size_t outbound_acknowledgements;
  /// Frames by which the peer ends streams: how many at once, and how many a second.
  uint64_t reset_burst;
  uint64_t reset_rate;
} cng_settings;

/// nil where memory is short.
cng_session *cng_create(const cng_settings *settings, const cng_events *events, void *owner);
void cng_destroy(cng_session *session);

/// Reads what has come: 0, or the library's error, which ends the connection.
int cng_receive(cng_session *session, const uint8_t *bytes, size_t count);
/// The next bytes to be sent, which hold until the next call: their count; 0: none for now; negative: the library's error.
ptrdiff_t cng_next_output(cng_session *session, const uint8_t **bytes);
/// Whether the session is over: nothing is to be read or written any more.
bool cng_is_over(const cng_session *session);

/// The content of a stream has been taken that far: its window opens again, and that of the connection.
void cng_consume(cng_session *session, int32_t stream, size_t count);
void cng_consume_connection(cng_session *session, size_t count);
/// The window of the stream alone.
void cng_consume_stream(cng_session *session, int32_t stream, size_t count);

typedef struct {
  const uint8_t *name;
  size_t name_length;
  const uint8_t *value;
  size_t value_length;
  /// Kept out of the tables.
  bool never_indexed;
} cng_field;

/// Opens a stream: its number; negative: the library's error.
int32_t cng_request(cng_session *session, const cng_field *fields, size_t count, bool has_content);
/// An informational head, then the final one.
int cng_informational(cng_session *session, int32_t stream, const cng_field *fields, size_t count);
int cng_response(cng_session *session, int32_t stream, const cng_field *fields, size_t count, bool has_content);
int cng_trailers(cng_session *session, int32_t stream, const cng_field *fields, size_t count);
/// There is more content of a stream, or its end.
void cng_resume(cng_session *session, int32_t stream);
int cng_reset(cng_session *session, int32_t stream, uint32_t code);
/// The peer is asked for a sign of life (PING).
void cng_ping(cng_session *session);
/// The peer is told that streams above those it has opened are not taken (GOAWAY); those go on.
void cng_announce_end(cng_session *session);
/// The same, and the connection is over once that is sent.
void cng_end(cng_session *session, uint32_t code);

/// Whether another stream may be opened: numbers are left, and the peer goes on.
bool cng_may_open(const cng_session *session);
/// How many streams the peer lets be open at once, as far as it has said.
uint32_t cng_peer_streams(const cng_session *session);
/// Whether the peer accepts CONNECT with a protocol (RFC 8441, 3), as far as it has said.
bool cng_peer_connects(const cng_session *session);
const char *cng_error(int code);

#endif
