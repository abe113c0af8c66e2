// asprintf(3)
#define _GNU_SOURCE

#include "cgssapi.h"

#include <dlfcn.h>
#include <gssapi/gssapi.h>
#include <gssapi/gssapi_ext.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// MIT's, with the version of its interface. Heimdal's has no credential stores.
static const char *const library_name = "libgssapi_krb5.so.2";

static struct {
  void *handle;
  __typeof__(gss_import_name) *import_name;
  __typeof__(gss_release_name) *release_name;
  __typeof__(gss_acquire_cred_from) *acquire_cred_from;
  __typeof__(gss_release_cred) *release_cred;
  __typeof__(gss_init_sec_context) *init_sec_context;
  __typeof__(gss_delete_sec_context) *delete_sec_context;
  __typeof__(gss_release_buffer) *release_buffer;
  __typeof__(gss_display_status) *display_status;
  gss_OID *user_name;
  gss_OID *hostbased_service;
} library;

static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void) {
  void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return;
  library.import_name = (__typeof__(library.import_name))dlsym(handle, "gss_import_name");
  library.release_name = (__typeof__(library.release_name))dlsym(handle, "gss_release_name");
  library.acquire_cred_from = (__typeof__(library.acquire_cred_from))dlsym(handle, "gss_acquire_cred_from");
  library.release_cred = (__typeof__(library.release_cred))dlsym(handle, "gss_release_cred");
  library.init_sec_context = (__typeof__(library.init_sec_context))dlsym(handle, "gss_init_sec_context");
  library.delete_sec_context = (__typeof__(library.delete_sec_context))dlsym(handle, "gss_delete_sec_context");
  library.release_buffer = (__typeof__(library.release_buffer))dlsym(handle, "gss_release_buffer");
  library.display_status = (__typeof__(library.display_status))dlsym(handle, "gss_display_status");
  library.user_name = dlsym(handle, "GSS_C_NT_USER_NAME");
  library.hostbased_service = dlsym(handle, "GSS_C_NT_HOSTBASED_SERVICE");
  if (library.import_name && library.release_name && library.acquire_cred_from && library.release_cred &&
      library.init_sec_context && library.delete_sec_context && library.release_buffer && library.display_status &&
      library.user_name && library.hostbased_service)
    library.handle = handle;
}

// SPNEGO, 1.3.6.1.5.5.2 (RFC 4178), and Kerberos, 1.2.840.113554.1.2.2 (RFC 4121).
static gss_OID_desc spnego = {6, "\x2b\x06\x01\x05\x05\x02"};
static gss_OID_desc kerberos = {9, "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"};

// What the mechanism says says more than what the interface says.
static char *words(OM_uint32 major, OM_uint32 minor) {
  OM_uint32 ignored, next = 0;
  gss_buffer_desc text = GSS_C_EMPTY_BUFFER;
  OM_uint32 status = minor ? library.display_status(&ignored, minor, GSS_C_MECH_CODE, &kerberos, &next, &text)
                           : library.display_status(&ignored, major, GSS_C_GSS_CODE, GSS_C_NO_OID, &next, &text);
  if (GSS_ERROR(status)) return strdup("no reason was given");
  char *copy = strndup(text.value, text.length);
  library.release_buffer(&ignored, &text);
  return copy;
}

static OM_uint32 name_of(const char *text, gss_OID type, gss_name_t *name, OM_uint32 *minor) {
  gss_buffer_desc bytes = {strlen(text), (void *)text};
  return library.import_name(minor, &bytes, type, name);
}

int cg_token(
    const char *keytab, const char *principal, const char *service, const char *cache, uint8_t **token, size_t *count,
    char **fault) {
  *token = NULL;
  *fault = NULL;
  pthread_once(&opened, open_library);
  if (!library.handle) {
    if (asprintf(fault, "%s of MIT Kerberos is not there; install libgssapi-krb5-2", library_name) < 0) *fault = NULL;
    return -1;
  }
  OM_uint32 major, minor = 0, ignored;
  gss_name_t client = GSS_C_NO_NAME, server = GSS_C_NO_NAME;
  gss_cred_id_t credential = GSS_C_NO_CREDENTIAL;
  gss_ctx_id_t context = GSS_C_NO_CONTEXT;
  gss_buffer_desc output = GSS_C_EMPTY_BUFFER;
  gss_key_value_element_desc places[] = {{"client_keytab", keytab}, {"ccache", cache}};
  gss_key_value_set_desc store = {2, places};
  gss_OID_set_desc mechanisms = {1, &spnego};

  major = principal ? name_of(principal, *library.user_name, &client, &minor) : GSS_S_COMPLETE;
  if (!GSS_ERROR(major)) major = name_of(service, *library.hostbased_service, &server, &minor);
  if (!GSS_ERROR(major))
    major = library.acquire_cred_from(
        &minor, client, GSS_C_INDEFINITE, &mechanisms, GSS_C_INITIATE, &store, &credential, NULL, NULL);
  if (!GSS_ERROR(major))
    major = library.init_sec_context(
        &minor, credential, &context, server, &spnego, 0, 0, GSS_C_NO_CHANNEL_BINDINGS, GSS_C_NO_BUFFER, NULL, &output,
        NULL, NULL);
  int result = -1;
  if (GSS_ERROR(major) && credential == GSS_C_NO_CREDENTIAL) {
    // SPNEGO says that none of its mechanisms will do; Kerberos says why.
    mechanisms.elements = &kerberos;
    OM_uint32 inner = library.acquire_cred_from(
        &ignored, client, GSS_C_INDEFINITE, &mechanisms, GSS_C_INITIATE, &store, &credential, NULL, NULL);
    if (GSS_ERROR(inner)) {
      major = inner;
      minor = ignored;
    }
  }
  if (GSS_ERROR(major)) {
    *fault = words(major, minor);
  } else if (output.length == 0) {
    *fault = strdup("no token was made");
  } else {
    *token = malloc(output.length);
    if (*token) {
      memcpy(*token, output.value, output.length);
      *count = output.length;
      result = 0;
    }
  }
  library.release_buffer(&ignored, &output);
  if (context != GSS_C_NO_CONTEXT) library.delete_sec_context(&ignored, &context, GSS_C_NO_BUFFER);
  if (credential != GSS_C_NO_CREDENTIAL) library.release_cred(&ignored, &credential);
  if (server != GSS_C_NO_NAME) library.release_name(&ignored, &server);
  if (client != GSS_C_NO_NAME) library.release_name(&ignored, &client);
  return result;
}
