// The floor that every hop in bench.py is compared with: a byte pump that parses nothing.
//
// Each accepted connection gets one connection of its own to the target, and bytes are copied between the two with one
// recv and one send a wake. What it costs is what the kernel asks of any program that stands between two sockets.
//
//     cc -O2 -Wall -Wextra -Werror -o pump pump.c && ./pump LISTEN_PORT TARGET_PORT     (both on 127.0.0.1)
//
// bench.py builds, starts and kills it. Tested by test_bench.py.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  // A descriptor is an index into `sides`; what lies above is refused. The machine's usual hard limit.
  DESCRIPTORS_MAX = 20000,
  // As much as is copied in one wake: large enough that 64 KiB responses are not cut into many, small enough for L2.
  BUFFER_BYTES = 64 * 1024,
  EVENTS_PER_WAIT = 256,
  LISTEN_BACKLOG = 4096,
};

// One of the two sockets of a pair. `pending` is what the last send to this socket left over; while there is any, the
// peer is not read: so at most BUFFER_BYTES wait on each side.
struct side {
  bool open;
  bool ended;  // its peer sent FIN: recv returned 0 here
  int peer;
  uint32_t events;
  unsigned char *pending;
  size_t pending_start;
  size_t pending_end;
};

static struct side sides[DESCRIPTORS_MAX];
static unsigned char buffer[BUFFER_BYTES];
static int loop;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static struct sockaddr_in loopback(uint16_t port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static void set_events(int descriptor, uint32_t events) {
  struct side *side = &sides[descriptor];
  if (side->events == events) return;
  side->events = events;
  struct epoll_event event = {.events = events, .data.fd = descriptor};
  if (epoll_ctl(loop, EPOLL_CTL_MOD, descriptor, &event) < 0) fail("epoll_ctl MOD");
}

static void close_pair(int descriptor) {
  int both[2] = {descriptor, sides[descriptor].peer};
  for (int i = 0; i < 2; i++) {
    struct side *side = &sides[both[i]];
    free(side->pending);
    *side = (struct side){0};
    close(both[i]);
  }
}

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

static void readable(int descriptor) {
  struct side *side = &sides[descriptor];
  struct side *peer = &sides[side->peer];
  if (side->ended || peer->pending != NULL) {
    // Not being read, yet awake: epoll reports a reset whatever was asked for, and would again for ever.
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) < 0 || error != 0) close_pair(descriptor);
    return;
  }

  ssize_t received = recv(descriptor, buffer, sizeof buffer, 0);
  if (received < 0) {
    if (!would_block()) close_pair(descriptor);
    return;
  }
  if (received == 0) {
    side->ended = true;
    if (peer->ended || shutdown(side->peer, SHUT_WR) < 0) {
      close_pair(descriptor);
      return;
    }
    set_events(descriptor, side->events & ~(uint32_t)EPOLLIN);
    return;
  }

  ssize_t sent = send(side->peer, buffer, (size_t)received, MSG_NOSIGNAL);
  if (sent < 0) {
    if (!would_block()) {
      close_pair(descriptor);
      return;
    }
    sent = 0;
  }
  if (sent == received) return;

  size_t rest = (size_t)(received - sent);
  peer->pending = malloc(BUFFER_BYTES);
  if (peer->pending == NULL) fail("malloc");
  memcpy(peer->pending, buffer + sent, rest);
  peer->pending_start = 0;
  peer->pending_end = rest;
  set_events(side->peer, peer->events | EPOLLOUT);
  set_events(descriptor, side->events & ~(uint32_t)EPOLLIN);
}

static void writable(int descriptor) {
  struct side *side = &sides[descriptor];
  if (side->pending == NULL) return;

  size_t rest = side->pending_end - side->pending_start;
  ssize_t sent = send(descriptor, side->pending + side->pending_start, rest, MSG_NOSIGNAL);
  if (sent < 0) {
    if (!would_block()) close_pair(descriptor);
    return;
  }
  side->pending_start += (size_t)sent;
  if (side->pending_start < side->pending_end) return;

  free(side->pending);
  side->pending = NULL;
  set_events(descriptor, side->events & ~(uint32_t)EPOLLOUT);
  set_events(side->peer, sides[side->peer].events | EPOLLIN);
}

static void watch(int descriptor, int peer) {
  int one = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  sides[descriptor] = (struct side){.open = true, .peer = peer, .events = EPOLLIN};
  struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
  if (epoll_ctl(loop, EPOLL_CTL_ADD, descriptor, &event) < 0) fail("epoll_ctl ADD");
}

// Connects while blocking: over loopback the handshake is over before connect returns, with or without O_NONBLOCK.
static int connect_to(uint16_t port) {
  int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  struct sockaddr_in address = loopback(port);
  if (descriptor >= DESCRIPTORS_MAX || connect(descriptor, (struct sockaddr *)&address, sizeof address) < 0 ||
      fcntl(descriptor, F_SETFL, O_NONBLOCK) < 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

// One connection a wake: the listener is level-triggered, so the next one wakes the loop again.
static void accept_one(int listener, uint16_t target_port) {
  int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (client < 0) return;
  int upstream = client < DESCRIPTORS_MAX ? connect_to(target_port) : -1;
  if (upstream < 0) {
    close(client);
    return;
  }
  watch(client, upstream);
  watch(upstream, client);
}

static int listen_on(uint16_t port) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) fail("socket");
  int one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = loopback(port);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
  if (listen(listener, LISTEN_BACKLOG) < 0) fail("listen");
  return listener;
}

static uint16_t port_of(const char *text) {
  char *end = NULL;
  unsigned long port = strtoul(text, &end, 10);
  if (*text == '\0' || *end != '\0' || port == 0 || port > UINT16_MAX) {
    fprintf(stderr, "pump: a port is a number from 1 to 65535, not '%s'\n", text);
    exit(2);
  }
  return (uint16_t)port;
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: pump LISTEN_PORT TARGET_PORT\n");
    return 2;
  }
  int listener = listen_on(port_of(arguments[1]));
  uint16_t target_port = port_of(arguments[2]);
  if ((loop = epoll_create1(EPOLL_CLOEXEC)) < 0) fail("epoll_create1");
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  if (epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event) < 0) fail("epoll_ctl ADD");

  for (;;) {
    struct epoll_event events[EVENTS_PER_WAIT];
    int ready = epoll_wait(loop, events, EVENTS_PER_WAIT, -1);
    if (ready < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < ready; i++) {
      int descriptor = events[i].data.fd;
      if (descriptor == listener) {
        accept_one(listener, target_port);
        continue;
      }
      // An event may be stale: its pair was closed, or even its number used again, earlier in this batch. What recv and
      // send answer decides, never the event's flags, so a stale one does no harm.
      if (sides[descriptor].open && (events[i].events & EPOLLOUT)) writable(descriptor);
      if (sides[descriptor].open && (events[i].events & ~(uint32_t)EPOLLOUT)) readable(descriptor);
    }
  }
}
