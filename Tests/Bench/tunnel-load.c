// Load for the tunnel rows of bench.py, for wrk cannot CONNECT: N connections, each asks the proxy for a tunnel to the
// origin, then sends one GET after another inside it for a given time, and reads each response by its Content-Length.
//
//     cc -O2 -Wall -Wextra -Werror -o tunnel-load tunnel-load.c
//     ./tunnel-load --proxy PORT --origin PORT --path /64k --connections 16 --milliseconds 3000 [--direct]
//
// All ports are on 127.0.0.1. --direct leaves CONNECT out: for the byte pump, which is a tunnel from the start. Prints one
// line of JSON; exit status 1 when too much went wrong for the figures to mean anything. Tested by test_bench.py.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

enum phase { PHASE_CLOSED, PHASE_TUNNEL, PHASE_HEAD, PHASE_BODY };

struct connection {
  int descriptor;
  enum phase phase;
  uint64_t request_started_ns;
  uint64_t body_left;
  size_t head_length;
  char head[HEAD_BYTES_MAX];
};

static struct {
  uint16_t proxy_port;
  uint16_t origin_port;
  const char *path;
  int connections;
  int milliseconds;
  bool direct;
} options = {.path = "/64k", .connections = 16, .milliseconds = 1000};

static struct {
  uint64_t responses;
  uint64_t bytes;  // of response bodies
  uint64_t failures;
  uint64_t latency[BUCKETS];
} counts;

static struct connection connections[CONNECTIONS_MAX];
static char request[REQUEST_BYTES_MAX];
static char connect_request[REQUEST_BYTES_MAX];
static char buffer[READ_BYTES];
static int loop;

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

// MARK: one connection

static void report_and_exit(uint64_t started_ns, int status);

// What is sent is small and the socket's buffer is empty, so a short write is a failure, not a case to handle.
static bool send_all(struct connection *connection, const char *text) {
  size_t length = strlen(text);
  return send(connection->descriptor, text, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static bool next_request(struct connection *connection) {
  connection->phase = PHASE_HEAD;
  connection->head_length = 0;
  connection->request_started_ns = now_ns();
  return send_all(connection, request);
}

// Connects while blocking, which over loopback does not wait, and says what comes first.
static bool open_connection(struct connection *connection) {
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
  if (options.direct) return next_request(connection);
  connection->phase = PHASE_TUNNEL;
  connection->head_length = 0;
  return send_all(connection, connect_request);
}

// A connection that failed is counted and opened again, at most FAILURES_MAX times in a run.
static void reopen(struct connection *connection, uint64_t started_ns) {
  do {
    if (connection->phase != PHASE_CLOSED) close(connection->descriptor);
    connection->phase = PHASE_CLOSED;
    if (++counts.failures > FAILURES_MAX) report_and_exit(started_ns, 1);
  } while (!open_connection(connection));
}

// The value of Content-Length in a head that ends in NUL, or -1.
static int64_t content_length(const char *head) {
  static const char name[] = "\r\ncontent-length:";
  for (const char *line = strchr(head, '\r'); line != NULL; line = strchr(line + 1, '\r')) {
    if (strncasecmp(line, name, sizeof name - 1) == 0) return strtoll(line + sizeof name - 1, NULL, 10);
  }
  return -1;
}

static void response_ended(struct connection *connection) {
  counts.responses++;
  counts.latency[bucket_of((now_ns() - connection->request_started_ns) / 1000)]++;
}

// The head is complete: `connection->head` holds it, with a NUL behind it. False is a failure.
static bool head_received(struct connection *connection) {
  bool successful = strncmp(connection->head, "HTTP/1.", 7) == 0 && connection->head[9] == '2';
  if (!successful) return false;
  if (connection->phase == PHASE_TUNNEL) return next_request(connection);
  int64_t length = content_length(connection->head);
  if (length < 0) return false;
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
  if (length > connection->body_left) return false;
  connection->body_left -= length;
  counts.bytes += length;
  if (connection->body_left > 0) return true;
  response_ended(connection);
  return next_request(connection);
}

static bool readable(struct connection *connection) {
  ssize_t received = recv(connection->descriptor, buffer, sizeof buffer, 0);
  if (received < 0) return errno == EAGAIN || errno == EINTR;
  return received > 0 && bytes_received(connection, buffer, (size_t)received);
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
      {NULL, 0, NULL, 0},
  };
  for (int option; (option = getopt_long(count, arguments, "", known, NULL)) != -1;) {
    switch (option) {
      case 'p': options.proxy_port = (uint16_t)number("proxy", optarg, UINT16_MAX); break;
      case 'o': options.origin_port = (uint16_t)number("origin", optarg, UINT16_MAX); break;
      case 'u': options.path = optarg; break;
      case 'c': options.connections = number("connections", optarg, CONNECTIONS_MAX); break;
      case 'm': options.milliseconds = number("milliseconds", optarg, MILLISECONDS_MAX); break;
      case 'd': options.direct = true; break;
      default: exit(2);
    }
  }
  if (options.proxy_port == 0 || options.origin_port == 0 || optind != count) {
    fprintf(stderr, "usage: tunnel-load --proxy PORT --origin PORT [--path P] [--connections N] [--milliseconds N] "
                    "[--direct]\n");
    exit(2);
  }
}

static void write_requests(void) {
  int length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", options.path,
                        (unsigned)options.origin_port);
  if (length >= (int)sizeof request) {
    fprintf(stderr, "tunnel-load: --path is longer than %d bytes\n", REQUEST_BYTES_MAX);
    exit(2);
  }
  snprintf(connect_request, sizeof connect_request, "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
           (unsigned)options.origin_port, (unsigned)options.origin_port);
}

int main(int count, char **arguments) {
  read_options(count, arguments);
  write_requests();
  alarm((unsigned)(options.milliseconds / 1000 + GRACE_SECONDS));
  if ((loop = epoll_create1(EPOLL_CLOEXEC)) < 0) {
    perror("epoll_create1");
    return 1;
  }

  uint64_t started_ns = now_ns();
  uint64_t deadline_ns = started_ns + (uint64_t)options.milliseconds * 1000000u;
  for (int i = 0; i < options.connections; i++) {
    if (!open_connection(&connections[i])) reopen(&connections[i], started_ns);
  }
  while (now_ns() < deadline_ns) {
    struct epoll_event events[EVENTS_PER_WAIT];
    int ready = epoll_wait(loop, events, EVENTS_PER_WAIT, WAIT_MILLISECONDS);
    for (int i = 0; i < ready; i++) {
      struct connection *connection = events[i].data.ptr;
      if (!readable(connection)) reopen(connection, started_ns);
    }
  }
  report_and_exit(started_ns, 0);
}
