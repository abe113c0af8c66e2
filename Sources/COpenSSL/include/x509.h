// Certificates, for Security and its tests: the stacks of OpenSSL, which are macros, and what takes a constant that is one.
#ifndef SALLYPORT_COPENSSL_X509_H
#define SALLYPORT_COPENSSL_X509_H

#include <openssl/pkcs12.h>
#include <openssl/x509v3.h>
#include <stdbool.h>

static inline STACK_OF(X509) * cossl_x509_stack_new(void) { return sk_X509_new_null(); }

/// Takes no reference: the stack must go before its certificates do. Zero where there is no memory.
static inline int cossl_x509_stack_push(STACK_OF(X509) * stack, X509 *certificate) {
  return sk_X509_push(stack, certificate);
}

static inline int cossl_x509_stack_count(const STACK_OF(X509) * stack) { return stack ? sk_X509_num(stack) : 0; }
static inline X509 *cossl_x509_stack_at(const STACK_OF(X509) * stack, int index) { return sk_X509_value(stack, index); }

/// Frees the stack, not what is in it.
static inline void cossl_x509_stack_free(STACK_OF(X509) * stack) { sk_X509_free(stack); }

static inline STACK_OF(X509_CRL) * cossl_crl_stack_new(void) { return sk_X509_CRL_new_null(); }
static inline int cossl_crl_stack_push(STACK_OF(X509_CRL) * stack, X509_CRL *list) {
  return sk_X509_CRL_push(stack, list);
}

/// Frees the stack and the lists in it.
static inline void cossl_crl_stack_free(STACK_OF(X509_CRL) * stack) { sk_X509_CRL_pop_free(stack, X509_CRL_free); }

/// Of the lists in the stack the entries are sorted, so that threads that look certificates up later change nothing.
static inline void cossl_crl_stack_sort(STACK_OF(X509_CRL) * stack) {
  for (int index = 0; index < sk_X509_CRL_num(stack); index++) X509_CRL_sort(sk_X509_CRL_value(stack, index));
}

/// The names of subjectAltName, to be freed; none where the extension is absent or malformed.
static inline GENERAL_NAMES *cossl_alternative_names(const X509 *certificate) {
  return X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
}

static inline int cossl_names_count(const GENERAL_NAMES *names) { return names ? sk_GENERAL_NAME_num(names) : 0; }
static inline const GENERAL_NAME *cossl_names_at(const GENERAL_NAMES *names, int index) {
  return sk_GENERAL_NAME_value(names, index);
}

/// The algorithm of a certificate's key (NID_…), as its SubjectPublicKeyInfo names it.
static inline int cossl_key_algorithm(const X509 *certificate) {
  ASN1_OBJECT *algorithm = NULL;
  X509_PUBKEY_get0_param(&algorithm, NULL, NULL, NULL, X509_get_X509_PUBKEY(certificate));
  return OBJ_obj2nid(algorithm);
}

/// The curve that the parameters of a certificate's key name (NID_…); NID_undef where they name none, but describe one.
static inline int cossl_key_curve(const X509 *certificate) {
  X509_ALGOR *algorithm = NULL;
  X509_PUBKEY_get0_param(NULL, NULL, NULL, &algorithm, X509_get_X509_PUBKEY(certificate));
  int type = V_ASN1_UNDEF;
  const void *value = NULL;
  X509_ALGOR_get0(NULL, &type, &value, algorithm);
  return type == V_ASN1_OBJECT ? OBJ_obj2nid(value) : NID_undef;
}

/// Whether the algorithm beside the signature is the one that was signed.
static inline bool cossl_signature_algorithms_agree(const X509 *certificate) {
  const X509_ALGOR *outer = NULL;
  X509_get0_signature(NULL, &outer, certificate);
  return X509_ALGOR_cmp(outer, X509_get0_tbs_sigalg(certificate)) == 0;
}

/// Writes a name in the form of RFC 4514; what is not printable ASCII is escaped.
static inline int cossl_name_print(BIO *to, const X509_NAME *name) {
  return X509_NAME_print_ex(to, name, 0, XN_FLAG_RFC2253);
}

/// What a memory BIO holds, borrowed.
static inline long cossl_memory_contents(BIO *memory, char **contents) { return BIO_get_mem_data(memory, contents); }

#endif
