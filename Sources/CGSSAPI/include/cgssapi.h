// Tokens of Negotiate (RFC 4559) by MIT Kerberos, which is opened when the first of them is asked for: most machines
// have no use for it, and a process that has not opened it pays nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Makes the first token for a service. May ask a key distribution center, and wait for it.
///
/// keytab: path of the keys of the client. principal: which of them; NULL: the first. service: `HTTP@proxy.example`.
/// cache: name of the cache that the tickets are kept in, "MEMORY:…".
///
/// 0: `*token`, of `*count` bytes, is the caller's to free. Else `*fault` is what was in the way, the caller's to free.
int cg_token(
    const char *keytab, const char *principal, const char *service, const char *cache, uint8_t **token, size_t *count,
    char **fault);
