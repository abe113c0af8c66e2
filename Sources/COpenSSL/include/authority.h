// The local authority's side of OpenSSL, and that of the chain probe behind `sallyport pin`: what Swift cannot import.

#ifndef SALLYPORT_COPENSSL_AUTHORITY_H
#define SALLYPORT_COPENSSL_AUTHORITY_H

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>

static inline EVP_PKEY *cossl_authority_key(void) { return EVP_EC_gen("P-256"); }

// OpenSSL 3.0 encodes a key that a provider holds, and decodes it again, each time X509_set_pubkey gets it: 0.23 ms. A
// key in the form of OpenSSL 1.1 is copied, 0.005 ms, and signs as fast. There is no way to make one that is not
// deprecated.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline EVP_PKEY *cossl_leaf_key(void) {
  EVP_PKEY *key = EVP_PKEY_new();
  EC_KEY *pair = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
  if (key != NULL && pair != NULL && EC_KEY_generate_key(pair) == 1 && EVP_PKEY_assign_EC_KEY(key, pair) == 1) {
    return key;
  }
  EC_KEY_free(pair);
  EVP_PKEY_free(key);
  return NULL;
}
#pragma GCC diagnostic pop

// name constraints (RFC 5280, 4.2.1.10)
static inline NAME_CONSTRAINTS *cossl_name_constraints(X509 *certificate) {
  return X509_get_ext_d2i(certificate, NID_name_constraints, NULL, NULL);
}

// The type (GEN_…) of a subtree, with its bytes where it is a name or an address block; -1 behind the last one.
static inline int cossl_subtree(
    const NAME_CONSTRAINTS *constraints, bool excluded, int index, const unsigned char **bytes, int *count) {
  const STACK_OF(GENERAL_SUBTREE) *trees = excluded ? constraints->excludedSubtrees : constraints->permittedSubtrees;
  *bytes = NULL;
  *count = 0;
  if (trees == NULL || index >= sk_GENERAL_SUBTREE_num(trees)) return -1;
  const GENERAL_NAME *base = sk_GENERAL_SUBTREE_value(trees, index)->base;
  if (base->type == GEN_DNS || base->type == GEN_IPADD) {
    *bytes = ASN1_STRING_get0_data(base->d.ia5);
    *count = ASN1_STRING_length(base->d.ia5);
  }
  return base->type;
}

// The probe looks at what a server shows, however old its TLS and weak its keys: nothing is sent to it, nothing is
// trusted.
static inline bool cossl_probe_accept_anything(SSL_CTX *context) {
  SSL_CTX_set_security_level(context, 0);
  SSL_CTX_set_options(context, SSL_OP_LEGACY_SERVER_CONNECT | SSL_OP_IGNORE_UNEXPECTED_EOF);
  return SSL_CTX_set_min_proto_version(context, TLS1_VERSION) == 1 &&
         SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0") == 1;
}
static inline bool cossl_probe_server_name(SSL *ssl, const char *name) {
  return SSL_set_tlsext_host_name(ssl, name) == 1;
}
static inline int cossl_probe_count(const SSL *ssl) {
  const STACK_OF(X509) *chain = SSL_get_peer_cert_chain(ssl);
  return chain == NULL ? 0 : sk_X509_num(chain);
}
static inline X509 *cossl_probe_certificate(const SSL *ssl, int index) {
  return sk_X509_value(SSL_get_peer_cert_chain(ssl), index);
}
static inline bool cossl_probe_is_ssl_error(unsigned long error) { return ERR_GET_LIB(error) == ERR_LIB_SSL; }
static inline int cossl_probe_reason(unsigned long error) { return ERR_GET_REASON(error); }

#endif
