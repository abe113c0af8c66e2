// Macros of libssl as functions, for the TLS engine of Transport.

#ifndef SALLYPORT_COPENSSL_TLS_H
#define SALLYPORT_COPENSSL_TLS_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>

static inline bool cossl_set_versions(SSL_CTX *context, int minimum, int maximum) {
  return SSL_CTX_set_min_proto_version(context, minimum) == 1 && SSL_CTX_set_max_proto_version(context, maximum) == 1;
}

static inline void cossl_set_modes(SSL_CTX *context) {
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}

static inline bool cossl_set_groups(SSL_CTX *context, const char *names) {
  return SSL_CTX_set1_groups_list(context, names) == 1;
}

// The ciphers of TLS 1.2 and lower but those of finite-field Diffie-Hellman; false if none is left. Those of TLS 1.3 are
// a list of their own.
static inline bool cossl_drop_finite_fields(SSL_CTX *context) {
  char names[16 << 10] = "";
  size_t length = 0;
  STACK_OF(SSL_CIPHER) *ciphers = SSL_CTX_get_ciphers(context);
  for (int index = 0; index < sk_SSL_CIPHER_num(ciphers); index++) {
    const SSL_CIPHER *cipher = sk_SSL_CIPHER_value(ciphers, index);
    int exchange = SSL_CIPHER_get_kx_nid(cipher);
    if (exchange == NID_kx_any || exchange == NID_kx_dhe || exchange == NID_kx_dhe_psk) continue;
    int count = snprintf(
        names + length, sizeof names - length, "%s%s", length > 0 ? ":" : "", SSL_CIPHER_get_name(cipher));
    if (count < 0 || (size_t)count >= sizeof names - length) return false;
    length += (size_t)count;
  }
  return length > 0 && SSL_CTX_set_cipher_list(context, names) == 1;
}

static inline int cossl_cipher_count(const STACK_OF(SSL_CIPHER) *ciphers) { return sk_SSL_CIPHER_num(ciphers); }

static inline uint16_t cossl_cipher_number(const STACK_OF(SSL_CIPHER) *ciphers, int index) {
  return SSL_CIPHER_get_protocol_id(sk_SSL_CIPHER_value(ciphers, index));
}

static inline uint64_t cossl_hardening(void) { return SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION; }

// One read(2) for what has come, instead of two for each record.
static inline void cossl_read_ahead(SSL_CTX *context, size_t bytes) {
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, bytes);
}

static inline void cossl_cache_for_client(SSL_CTX *context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}

// Tickets only: nothing is remembered for a client.
static inline void cossl_no_server_cache(SSL_CTX *context) { SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); }

static inline bool cossl_set_server_name(SSL *ssl, const char *name) { return SSL_set_tlsext_host_name(ssl, name) == 1; }
static inline void cossl_ask_for_status(SSL *ssl) { SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp); }

static inline long cossl_status(SSL *ssl, const unsigned char **response) {
  return SSL_get_tlsext_status_ocsp_resp(ssl, response);
}

static inline void cossl_set_status_callback(SSL_CTX *context, int (*callback)(SSL *, void *)) {
  SSL_CTX_set_tlsext_status_cb(context, callback);
}

static inline bool cossl_add_intermediate(SSL *ssl, X509 *certificate) { return SSL_add1_chain_cert(ssl, certificate) == 1; }

// A session is resumed only where the same certificate is shown.
static inline bool cossl_bind_sessions(SSL *ssl, const X509 *certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  return X509_digest(certificate, EVP_sha256(), digest, &count) == 1 && SSL_set_session_id_context(ssl, digest, count) == 1;
}

// A BIO that reads `prefix` first, and the descriptor, which stays the caller's, behind it.
BIO *cossl_prefixed_socket(int fd, const void *prefix, size_t count);

// Lets `ssl` read and write what `carrier` carries, which stays the caller's. (BIO_f_ssl shuts its SSL down when it is freed, by
// when the descriptor may be another's.)
bool cossl_set_carrier(SSL *ssl, SSL *carrier);

// What reads and writes bytes instead of a socket: how many it moved; 0: the end; negative: one of these.
enum { COSSL_LATER = -1, COSSL_BROKEN = -2 };
typedef ptrdiff_t (*cossl_reader)(void *owner, uint8_t *into, size_t room);
typedef ptrdiff_t (*cossl_writer)(void *owner, const uint8_t *from, size_t count);
// Lets `ssl` read and write through these two. `owner` stays the caller's.
bool cossl_set_stream(SSL *ssl, void *owner, cossl_reader read, cossl_writer write);

static inline void cossl_set_owner(SSL *ssl, void *owner) { SSL_set_app_data(ssl, owner); }
static inline void *cossl_owner(const SSL *ssl) { return SSL_get_app_data(ssl); }

static inline SSL *cossl_connection_of(X509_STORE_CTX *context) {
  return X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx());
}

static inline void cossl_reject(X509_STORE_CTX *context) { X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REJECTED); }

static inline bool cossl_add_chain_certificate(SSL_CTX *context, X509 *certificate) {
  return SSL_CTX_add1_chain_cert(context, certificate) == 1;
}

static inline int cossl_reason(unsigned long error) { return ERR_GET_REASON(error); }
// An alert that the peer sent is an error of its own from here on.
static inline int cossl_alert_offset(void) { return SSL_AD_REASON_OFFSET; }
static inline bool cossl_is_truncation(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}
static inline bool cossl_is_verification(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED;
}

static inline int cossl_count(const STACK_OF(X509) *stack) { return sk_X509_num(stack); }
static inline X509 *cossl_at(const STACK_OF(X509) *stack, int index) { return sk_X509_value(stack, index); }

#endif
