// What cannot be an inline function of the headers.

#include "COpenSSL.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// MARK: A socket of which the first bytes have been read already

typedef struct {
  int fd;
  size_t at, count;
  unsigned char bytes[];
} prefixed_socket;

static int prefixed_read(BIO *bio, char *out, size_t room, size_t *count) {
  prefixed_socket *source = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  size_t left = source->count - source->at;
  if (left > 0) {
    *count = left < room ? left : room;
    memcpy(out, source->bytes + source->at, *count);
    source->at += *count;
    return 1;
  }
  ssize_t result;
  do result = read(source->fd, out, room);
  while (result < 0 && errno == EINTR);
  if (result > 0) {
    *count = (size_t)result;
    return 1;
  }
  if (result == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(bio);
  return 0;
}

static long prefixed_control(BIO *bio, int command, long number, void *pointer) {
  (void)number, (void)pointer;
  switch (command) {
    case BIO_CTRL_EOF: return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    case BIO_CTRL_FLUSH: return 1;
    default: return 0;
  }
}

static int prefixed_destroy(BIO *bio) {
  free(BIO_get_data(bio));
  return 1;
}

static void note_retry(BIO *bio, SSL *carrier, int status) {
  BIO_clear_retry_flags(bio);
  if (status == 1) return;
  switch (SSL_get_error(carrier, status)) {
    case SSL_ERROR_WANT_READ: BIO_set_retry_read(bio); break;
    case SSL_ERROR_WANT_WRITE: BIO_set_retry_write(bio); break;
    default: break;
  }
}

static int carried_read(BIO *bio, char *buffer, size_t count, size_t *done) {
  SSL *carrier = BIO_get_data(bio);
  int status = SSL_read_ex(carrier, buffer, count, done);
  note_retry(bio, carrier, status);
  return status;
}

static int carried_write(BIO *bio, const char *buffer, size_t count, size_t *done) {
  SSL *carrier = BIO_get_data(bio);
  int status = SSL_write_ex(carrier, buffer, count, done);
  note_retry(bio, carrier, status);
  return status;
}

static long carried_control(BIO *bio, int command, long number, void *pointer) {
  (void)number;
  (void)pointer;
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return (SSL_get_shutdown(BIO_get_data(bio)) & SSL_RECEIVED_SHUTDOWN) != 0;
  return 0;
}

// A BIO of a kind that is made once. Two threads may make it at once: the one that comes second leaves a few bytes
// behind, once.
static BIO *new_bio(
    BIO_METHOD *volatile *kind, const char *name, int (*read)(BIO *, char *, size_t, size_t *),
    int (*write)(BIO *, const char *, size_t, size_t *), long (*control)(BIO *, int, long, void *),
    int (*destroy)(BIO *), void *data) {
  if (!*kind) {
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, name);
    if (!made) return NULL;
    BIO_meth_set_read_ex(made, read);
    if (write) BIO_meth_set_write_ex(made, write);
    BIO_meth_set_ctrl(made, control);
    if (destroy) BIO_meth_set_destroy(made, destroy);
    __atomic_store_n(kind, made, __ATOMIC_RELEASE);
  }
  BIO *bio = BIO_new(__atomic_load_n(kind, __ATOMIC_ACQUIRE));
  if (!bio) return NULL;
  BIO_set_data(bio, data);
  BIO_set_init(bio, 1);
  return bio;
}

bool cossl_set_carrier(SSL *ssl, SSL *carrier) {
  static BIO_METHOD *volatile kind;
  BIO *bio = new_bio(&kind, "TLS connection", carried_read, carried_write, carried_control, NULL, carrier);
  if (!bio) return false;
  SSL_set_bio(ssl, bio, bio);
  return true;
}

typedef struct {
  void *owner;
  cossl_reader read;
  cossl_writer write;
} bridged_stream;

static int bridged_read(BIO *bio, char *out, size_t room, size_t *count) {
  bridged_stream *stream = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  ptrdiff_t moved = stream->read(stream->owner, (uint8_t *)out, room);
  if (moved == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (moved == COSSL_LATER) BIO_set_retry_read(bio);
  if (moved <= 0) return 0;
  *count = (size_t)moved;
  return 1;
}

static int bridged_write(BIO *bio, const char *bytes, size_t length, size_t *count) {
  bridged_stream *stream = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  ptrdiff_t moved = stream->write(stream->owner, (const uint8_t *)bytes, length);
  if (moved == COSSL_LATER) BIO_set_retry_write(bio);
  if (moved <= 0) return 0;
  *count = (size_t)moved;
  return 1;
}

bool cossl_set_stream(SSL *ssl, void *owner, cossl_reader read, cossl_writer write) {
  static BIO_METHOD *volatile kind;
  bridged_stream *stream = malloc(sizeof *stream);
  if (!stream) return false;
  *stream = (bridged_stream){owner, read, write};
  BIO *bio = new_bio(&kind, "stream", bridged_read, bridged_write, prefixed_control, prefixed_destroy, stream);
  if (!bio) {
    free(stream);
    return false;
  }
  SSL_set_bio(ssl, bio, bio);
  return true;
}

BIO *cossl_prefixed_socket(int fd, const void *prefix, size_t count) {
  static BIO_METHOD *volatile kind;
  prefixed_socket *source = malloc(sizeof *source + count);
  if (!source) return NULL;
  source->fd = fd;
  source->at = 0;
  source->count = count;
  memcpy(source->bytes, prefix, count);
  BIO *bio = new_bio(&kind, "socket behind a prefix", prefixed_read, NULL, prefixed_control, prefixed_destroy, source);
  if (!bio) free(source);
  return bio;
}
