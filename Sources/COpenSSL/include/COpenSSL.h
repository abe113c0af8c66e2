// OpenSSL 3 for Swift: its headers, and functions in place of the macros that Swift cannot import.
// One header for each user: x509.h for Security, tls.h for the TLS engine of Transport, authority.h for the local authority.

#ifndef SALLYPORT_COPENSSL_H
#define SALLYPORT_COPENSSL_H

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "authority.h"
#include "tls.h"
#include "x509.h"

#endif
