// Load for the tunnel rows of bench.py, for wrk cannot CONNECT: N connections, each asks the proxy for a tunnel to the
// origin, then sends one GET after another inside it for a given time, and reads each response by its Content-Length.
//
//     cc -O2 -Wall -Wextra -Werror -o tunnel-load tunnel-load.c -lssl -lcrypto
//     ./tunnel-load --proxy PORT --origin PORT --path /64k --connections 16 --milliseconds 3000
//
//     --direct             no CONNECT: for the byte pump, which is a tunnel from the start
//     --ca FILE            TLS inside the tunnel; who answers there needs a certificate for the host that FILE vouches for.
//                          TLS 1.3 with one cipher, so that all peers encrypt alike; no session is ever resumed
//     --host NAME          of CONNECT, SNI and Host; 127.0.0.1 where it is not given
//     --close              one request a connection
//     --first-host N --hosts M   each connection asks for a host of its own, hN.NAME to hN+M-1.NAME, one request each;
//                          the run ends with the last of them
//
// All ports are on 127.0.0.1. The latency of a connection's first request includes its opening. Prints one line of
// JSON, and on stderr why the first connection that failed did; exit status 1 when too much went wrong for the figures
// to mean anything. Tested by test_bench.py.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  CONNECTIONS_MAX = 4096,
  MILLISECONDS_MAX = 600 * 1000,
  HEAD_BYTES_MAX = 16 * 1024,  // nginx, Squid and Sallyport all answer in under 1 KiB
  REQUEST_BYTES_MAX = 1024,
  HOST_BYTES_MAX = 256,     // a name of the DNS has 253
  HOSTS_MAX = 1000 * 1000,
  READ_BYTES = 64 * 1024,
  EVENTS_PER_WAIT = 256,
  WAIT_MILLISECONDS = 50,   // how late the end of the run may be noticed when nothing happens
  GRACE_SECONDS = 30,       // after the asked time: SIGALRM ends a run that hangs
  FAILURES_MAX = 1000,      // each failed connection is opened again; beyond this the run is abandoned
  // Latencies are counted in buckets of microseconds, 64 to each power of two: an error below 1.6 %.
  BUCKETS_PER_OCTAVE_LOG2 = 6,
  BUCKETS_PER_OCTAVE = 1 << BUCKETS_PER_OCTAVE_LOG2,
  BUCKETS = BUCKETS_PER_OCTAVE * 32,
};

enum phase { PHASE_CLOSED, PHASE_TUNNEL, PHASE_HANDSHAKE, PHASE_HEAD, PHASE_BODY, PHASE_FINISHED };

struct connection {
  int descriptor;
  enum phase phase;
  SSL *tls;                     // NULL before the handshake, and where there is none
  char host[HOST_BYTES_MAX];
  uint64_t request_started_ns;  // of the first request: when the connection was opened
  uint64_t body_left;
  size_t head_length;
  char head[HEAD_BYTES_MAX];
};

static struct {
  uint16_t proxy_port;
  uint16_t origin_port;
  const char *path;
  const char *host;
  const char *ca_file;
  int connections;
  int milliseconds;
  int first_host;
  int hosts;  // 0: all connections ask for `host` itself
  bool direct;
  bool close;
} options = {.path = "/64k", .host = "127.0.0.1", .connections = 16, .milliseconds = 1000, .first_host = 1};

static struct {
  uint64_t responses;
  uint64_t bytes;  // of response bodies
  uint64_t failures;
  uint64_t latency[BUCKETS];
} counts;

static struct connection connections[CONNECTIONS_MAX];
static char buffer[READ_BYTES];
static int loop;
static SSL_CTX *tls_context;  // NULL: nothing is encrypted
static int hosts_taken;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// MARK: latency

static size_t bucket_of(uint64_t microseconds) {
  if (microseconds < BUCKETS_PER_OCTAVE) return (size_t)microseconds;
  int highest = 63 - __builtin_clzll(microseconds);
  int shift = highest - BUCKETS_PER_OCTAVE_LOG2;
  size_t bucket = (size_t)(shift + 1) * BUCKETS_PER_OCTAVE + (size_t)((microseconds >> shift) - BUCKETS_PER_OCTAVE);
  return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

// The lowest latency that falls into a bucket: the inverse of bucket_of.
static uint64_t microseconds_of(size_t bucket) {
  if (bucket < BUCKETS_PER_OCTAVE) return bucket;
  size_t shift = bucket / BUCKETS_PER_OCTAVE - 1;
  return (uint64_t)(BUCKETS_PER_OCTAVE + bucket % BUCKETS_PER_OCTAVE) << shift;
}

static uint64_t percentile(double share) {
  uint64_t wanted = (uint64_t)(share * (double)counts.responses);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
    seen += counts.latency[bucket];
    if (seen > wanted) return microseconds_of(bucket);
  }
  return 0;
}

// MARK: TLS

static void create_tls_context(void) {
  tls_context = SSL_CTX_new(TLS_client_method());
  if (tls_context == NULL || SSL_CTX_load_verify_file(tls_context, options.ca_file) != 1 ||
      SSL_CTX_set_min_proto_version(tls_context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(tls_context, "TLS_AES_256_GCM_SHA384") != 1) {
    fprintf(stderr, "tunnel-load: --ca %s: ", options.ca_file);
    ERR_print_errors_fp(stderr);
    exit(2);
  }
  SSL_CTX_set_verify(tls_context, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_session_cache_mode(tls_context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(tls_context, 1);
}

// False, once it is said on stderr why: of the first connection only, for the others fail alike.
static bool failed(const struct connection *connection, const char *what) {
  if (counts.failures > 0) return false;
  long verified = connection->tls == NULL ? X509_V_OK : SSL_get_verify_result(connection->tls);
  const char *reason = verified == X509_V_OK ? ERR_reason_error_string(ERR_peek_error())
                                             : X509_verify_cert_error_string(verified);
  fprintf(stderr, "tunnel-load: %s: %.*s%s%s\n", connection->host, (int)strcspn(what, "\r"), what,
          reason != NULL ? ": " : "", reason != NULL ? reason : "");
  return false;
}

// What a call of OpenSSL that did not succeed means: true is to wait. Writes are small and never wait.
static bool must_wait(const struct connection *connection, int result) {
  return SSL_get_error(connection->tls, result) == SSL_ERROR_WANT_READ;
}

// MARK: one connection

static void report_and_exit(uint64_t started_ns, int status);

// What is sent is small and the socket's buffer is empty, so a short write is a failure, not a case to handle.
static bool send_all(struct connection *connection, const char *text) {
  int length = (int)strlen(text);
  if (connection->tls != NULL) return SSL_write(connection->tls, text, length) == length;
  return send(connection->descriptor, text, (size_t)length, MSG_NOSIGNAL) == length;
}

static bool send_request(struct connection *connection) {
  char request[REQUEST_BYTES_MAX];
  snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s:%u\r\n%s\r\n", options.path, connection->host,
           (unsigned)options.origin_port, options.close ? "Connection: close\r\n" : "");
  connection->phase = PHASE_HEAD;
  connection->head_length = 0;
  return send_all(connection, request);
}

static bool send_connect(struct connection *connection) {
  char request[REQUEST_BYTES_MAX];
  snprintf(request, sizeof request, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n\r\n", connection->host,
           (unsigned)options.origin_port, connection->host, (unsigned)options.origin_port);
  connection->phase = PHASE_TUNNEL;
  connection->head_length = 0;
  return send_all(connection, request);
}

static bool continue_handshake(struct connection *connection) {
  ERR_clear_error();
  int result = SSL_do_handshake(connection->tls);
  if (result == 1) return send_request(connection);
  return must_wait(connection, result) || failed(connection, "the TLS handshake did not succeed");
}

// Through the tunnel, or without one: the first request, or the handshake that comes before it.
static bool start_exchange(struct connection *connection) {
  if (tls_context == NULL) return send_request(connection);
  connection->phase = PHASE_HANDSHAKE;
  connection->tls = SSL_new(tls_context);
  if (connection->tls == NULL || SSL_set_fd(connection->tls, connection->descriptor) != 1 ||
      SSL_set_tlsext_host_name(connection->tls, connection->host) != 1 ||
      SSL_set1_host(connection->tls, connection->host) != 1) {
    return false;
  }
  SSL_set_connect_state(connection->tls);
  return continue_handshake(connection);
}

static void close_connection(struct connection *connection) {
  if (connection->tls != NULL) {
    // Only close_notify is sent; that of the other side is not waited for.
    if (connection->phase == PHASE_FINISHED) SSL_shutdown(connection->tls);
    SSL_free(connection->tls);
    connection->tls = NULL;
  }
  if (connection->phase != PHASE_CLOSED) close(connection->descriptor);
  connection->phase = PHASE_CLOSED;
}

// Connects while blocking, which over loopback does not wait, and says what comes first.
static bool open_connection(struct connection *connection) {
  connection->request_started_ns = now_ns();
  connection->descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection->descriptor < 0) return false;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.proxy_port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int one = 1;
  setsockopt(connection->descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
  if (connect(connection->descriptor, (struct sockaddr *)&address, sizeof address) < 0 ||
      fcntl(connection->descriptor, F_SETFL, O_NONBLOCK) < 0 ||
      epoll_ctl(loop, EPOLL_CTL_ADD, connection->descriptor, &event) < 0) {
    close(connection->descriptor);
    return false;
  }
  return options.direct ? start_exchange(connection) : send_connect(connection);
}

// The next host of its own, if there is one left. Without --hosts there always is.
static bool take_host(struct connection *connection) {
  if (options.hosts == 0) {
    snprintf(connection->host, sizeof connection->host, "%s", options.host);
    return true;
  }
  if (hosts_taken == options.hosts) return false;
  snprintf(connection->host, sizeof connection->host, "h%d.%s", options.first_host + hosts_taken++, options.host);
  return true;
}

// Opens a connection in place of the one before. Each that fails is counted, at most FAILURES_MAX in a run.
static void open_next(struct connection *connection, uint64_t started_ns) {
  close_connection(connection);
  while (take_host(connection) && !open_connection(connection)) {
    close_connection(connection);
    if (++counts.failures > FAILURES_MAX) report_and_exit(started_ns, 1);
  }
}

// The value of Content-Length in a head that ends in NUL, or -1.
static int64_t content_length(const char *head) {
  static const char name[] = "\r\ncontent-length:";
  for (const char *line = strchr(head, '\r'); line != NULL; line = strchr(line + 1, '\r')) {
    if (strncasecmp(line, name, sizeof name - 1) == 0) return strtoll(line + sizeof name - 1, NULL, 10);
  }
  return -1;
}

static bool response_ended(struct connection *connection) {
  uint64_t now = now_ns();
  counts.responses++;
  counts.latency[bucket_of((now - connection->request_started_ns) / 1000)]++;
  connection->request_started_ns = now;
  if (!options.close) return send_request(connection);
  connection->phase = PHASE_FINISHED;
  return true;
}

// The head is complete: `connection->head` holds it, with a NUL behind it. False is a failure.
static bool head_received(struct connection *connection) {
  bool successful = strncmp(connection->head, "HTTP/1.", 7) == 0 && connection->head[9] == '2';
  if (!successful) return failed(connection, connection->head);
  if (connection->phase == PHASE_TUNNEL) return start_exchange(connection);
  int64_t length = content_length(connection->head);
  if (length < 0) return failed(connection, "a head without Content-Length");
  connection->body_left = (uint64_t)length;
  connection->phase = PHASE_BODY;
  return true;
}

// Takes `length` bytes that arrived. Nothing is pipelined, so whatever is left over when a message ends is a failure.
static bool bytes_received(struct connection *connection, const char *bytes, size_t length) {
  if (connection->phase == PHASE_TUNNEL || connection->phase == PHASE_HEAD) {
    size_t room = HEAD_BYTES_MAX - 1 - connection->head_length;
    size_t taken = length < room ? length : room;
    size_t before = connection->head_length;
    memcpy(connection->head + before, bytes, taken);
    connection->head_length += taken;
    connection->head[connection->head_length] = '\0';
    char *end = memmem(connection->head, connection->head_length, "\r\n\r\n", 4);
    if (end == NULL) return taken == length;
    size_t head_length = (size_t)(end - connection->head) + 4;
    bytes += head_length - before;
    length -= head_length - before;
    *end = '\0';
    bool tunnel = connection->phase == PHASE_TUNNEL;
    if (!head_received(connection)) return false;
    if (tunnel) return length == 0;
  }
  if (length > connection->body_left) return failed(connection, "more bytes than Content-Length says");
  connection->body_left -= length;
  counts.bytes += length;
  return connection->body_left > 0 || response_ended(connection);
}

// How many bytes arrived, 0 when none did yet, below 0 when none will.
static ssize_t receive(struct connection *connection) {
  if (connection->tls == NULL) {
    ssize_t received = recv(connection->descriptor, buffer, sizeof buffer, 0);
    if (received < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (received == 0) failed(connection, "the connection ended within a response");
    return received > 0 ? received : -1;
  }
  ERR_clear_error();
  int received = SSL_read(connection->tls, buffer, sizeof buffer);
  if (received > 0) return received;
  if (must_wait(connection, received)) return 0;
  failed(connection, "the TLS connection ended within a response");
  return -1;
}

static bool readable(struct connection *connection) {
  if (connection->phase == PHASE_HANDSHAKE) return continue_handshake(connection);
  for (;;) {
    ssize_t received = receive(connection);
    if (received <= 0) return received == 0;
    if (!bytes_received(connection, buffer, (size_t)received)) return false;
    // Of TLS, what was read may be more than one record, of which no event will tell.
    bool reading = connection->phase == PHASE_HEAD || connection->phase == PHASE_BODY;
    if (connection->tls == NULL || !reading) return true;
  }
}

// MARK: the run

static void report_and_exit(uint64_t started_ns, int status) {
  double seconds = (double)(now_ns() - started_ns) / 1e9;
  printf("{\"requests\":%llu,\"bytes\":%llu,\"errors\":%llu,\"seconds\":%.6f,\"p50_us\":%llu,\"p99_us\":%llu}\n",
         (unsigned long long)counts.responses, (unsigned long long)counts.bytes, (unsigned long long)counts.failures,
         seconds, (unsigned long long)percentile(0.50), (unsigned long long)percentile(0.99));
  exit(status);
}

static int number(const char *name, const char *text, int most) {
  char *end = NULL;
  long value = strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < 1 || value > most) {
    fprintf(stderr, "tunnel-load: --%s is a number from 1 to %d, not '%s'\n", name, most, text);
    exit(2);
  }
  return (int)value;
}

static void read_options(int count, char **arguments) {
  static const struct option known[] = {
      {"proxy", required_argument, NULL, 'p'},       {"origin", required_argument, NULL, 'o'},
      {"path", required_argument, NULL, 'u'},        {"connections", required_argument, NULL, 'c'},
      {"milliseconds", required_argument, NULL, 'm'}, {"direct", no_argument, NULL, 'd'},
      {"ca", required_argument, NULL, 'a'},          {"host", required_argument, NULL, 'h'},
      {"close", no_argument, NULL, 'x'},             {"first-host", required_argument, NULL, 'f'},
      {"hosts", required_argument, NULL, 'n'},       {NULL, 0, NULL, 0},
  };
  for (int option; (option = getopt_long(count, arguments, "", known, NULL)) != -1;) {
    switch (option) {
      case 'p': options.proxy_port = (uint16_t)number("proxy", optarg, UINT16_MAX); break;
      case 'o': options.origin_port = (uint16_t)number("origin", optarg, UINT16_MAX); break;
      case 'u': options.path = optarg; break;
      case 'c': options.connections = number("connections", optarg, CONNECTIONS_MAX); break;
      case 'm': options.milliseconds = number("milliseconds", optarg, MILLISECONDS_MAX); break;
      case 'd': options.direct = true; break;
      case 'a': options.ca_file = optarg; break;
      case 'h': options.host = optarg; break;
      case 'x': options.close = true; break;
      case 'f': options.first_host = number("first-host", optarg, HOSTS_MAX); break;
      case 'n': options.hosts = number("hosts", optarg, HOSTS_MAX); break;
      default: exit(2);
    }
  }
  if (options.hosts > 0) options.close = true;
  if (options.proxy_port == 0 || options.origin_port == 0 || optind != count) {
    fprintf(stderr, "usage: tunnel-load --proxy PORT --origin PORT [--path P] [--connections N] [--milliseconds N] "
                    "[--direct] [--ca FILE] [--host NAME] [--close] [--first-host N --hosts N]\n");
    exit(2);
  }
  if (strlen(options.path) + strlen(options.host) > REQUEST_BYTES_MAX - HOST_BYTES_MAX ||
      strlen(options.host) > HOST_BYTES_MAX - sizeof "h1000000.") {
    fprintf(stderr, "tunnel-load: --path or --host is too long\n");
    exit(2);
  }
}

// Whether --hosts was given and every one of them has been asked, with or without success.
static bool all_hosts_done(void) {
  return options.hosts > 0 && counts.responses + counts.failures >= (uint64_t)options.hosts;
}

int main(int count, char **arguments) {
  read_options(count, arguments);
  if (options.ca_file != NULL) create_tls_context();
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  alarm((unsigned)(options.milliseconds / 1000 + GRACE_SECONDS));
  if ((loop = epoll_create1(EPOLL_CLOEXEC)) < 0) {
    perror("epoll_create1");
    return 1;
  }

  uint64_t started_ns = now_ns();
  uint64_t deadline_ns = started_ns + (uint64_t)options.milliseconds * 1000000u;
  for (int i = 0; i < options.connections; i++) open_next(&connections[i], started_ns);
  while (now_ns() < deadline_ns && !all_hosts_done()) {
    struct epoll_event events[EVENTS_PER_WAIT];
    int ready = epoll_wait(loop, events, EVENTS_PER_WAIT, WAIT_MILLISECONDS);
    for (int i = 0; i < ready; i++) {
      struct connection *connection = events[i].data.ptr;
      bool successful = readable(connection);
      if (!successful && ++counts.failures > FAILURES_MAX) report_and_exit(started_ns, 1);
      if (!successful || connection->phase == PHASE_FINISHED) open_next(connection, started_ns);
    }
  }
  report_and_exit(started_ns, counts.responses == 0 && counts.failures > 0 ? 1 : 0);
}
