// What the Glibc module does not import: Linux system calls, and socket addresses without casts between structures.
//
// An address is two 64-bit halves in host order (an IPv4 address is the low 32 bits of `low`), so that Swift never
// touches a sockaddr. Every function answers what the system call answers; a failure is -errno, never errno itself.
#ifndef CLINUX_H
#define CLINUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parcel.h"

typedef struct {
  uint64_t high;
  uint64_t low;
  uint16_t port;
  bool is_ipv4;
} cl_address;

typedef struct {
  uint64_t data;
  uint32_t events;
} cl_event;

// epoll
#define CL_READABLE 0x001u
#define CL_WRITABLE 0x004u
#define CL_ERROR 0x008u
#define CL_HANGUP 0x010u
#define CL_PEER_CLOSED 0x2000u
#define CL_EXCLUSIVE 0x10000000u
int cl_epoll_create(void);
int cl_epoll_add(int epoll, int fd, uint32_t events, uint64_t data);
int cl_epoll_modify(int epoll, int fd, uint32_t events, uint64_t data);
int cl_epoll_remove(int epoll, int fd);
/// Room for events that `cl_epoll_wait` fills and `cl_epoll_event` reads; aligned, of the kernel's own shape.
void *cl_epoll_events_create(int count);
void cl_epoll_events_destroy(void *events);
int cl_epoll_wait(int epoll, void *events, int count, int timeout_milliseconds);
cl_event cl_epoll_event(const void *events, int index);

// sockets
/// `awaits_address`: whether the machine may have the address only later.
int cl_listen(const cl_address *address, int backlog, bool reuse_port, bool awaits_address);
/// Sets a listening socket that was passed to what `cl_listen` sets: non-blocking, and no delay for what it accepts.
int cl_adopt_listener(int fd);
int cl_accept(int fd, cl_address *peer);
/// A listening socket of the file system, or -errno.
int cl_listen_local(const char *path, unsigned mode, int backlog);
/// A blocking connection to one, or -errno.
// The user at the other end of a connected socket of the file system, or -errno.
int64_t cl_peer_user(int fd);
int cl_connect_local(const char *path);
/// Takes the name of a socket away; what is no socket stays.
int cl_unlink_socket(const char *path);
/// Memory of this process that is resident, in bytes; 0 where it cannot be read.
int64_t cl_resident_bytes(void);
/// A non-blocking TCP socket whose connect has begun, or is through already: the descriptor, or -errno. `interface`: the name
/// of the one that its packets must leave by (SO_BINDTODEVICE), or NULL.
int cl_connect(const cl_address *address, int traffic_class, const char *interface, bool *connected);
/// Whether a TCP connection stands: the peer is still there, or has only closed its sending direction.
bool cl_is_connected(int fd);
/// Whether the peer has said that it sends nothing more, or is gone.
bool cl_peer_closed(int fd);
/// How many bytes a socket takes at once, in about; it is connected and TCP.
int64_t cl_send_room(int fd);
/// The user at the other end of a socket of the file system, or -errno.
int64_t cl_peer_user(int fd);
/// What waits unsent in a socket of cl_listen's or one that it accepted, at most, in bytes.
#define CL_UNSENT_BYTES (128 << 10)
// The traffic class (IPv4: type of service) of what is sent from now on.
int cl_set_traffic_class(int fd, bool is_ipv4, int traffic_class);
/// 0 where no socket listens on the address, -EADDRINUSE where one does.
int cl_probe_listen(const cl_address *address, bool awaits_address);
int cl_socket_error(int fd);
int cl_local_address(int fd, cl_address *address);
int cl_peer_address(int fd, cl_address *address);
int cl_shutdown_write(int fd);
/// Makes close send a reset instead of the data and the end that are still queued.
int cl_reset_on_close(int fd);
int cl_close(int fd);
/// Whether a byte or an end is waiting: 1 data, 0 end, -EAGAIN nothing, else -errno.
int cl_peek(int fd);

ptrdiff_t cl_read(int fd, void *buffer, size_t count);
ptrdiff_t cl_write(int fd, const void *buffer, size_t count);
ptrdiff_t cl_write2(int fd, const void *first, size_t first_count, const void *second, size_t second_count);
ptrdiff_t cl_splice(int from, int to, size_t count, bool more);
int cl_pipe(int *read_end, int *write_end, int capacity);

// netlink
#define CL_NETLINK_ROUTE 0
#define CL_NETLINK_SOCK_DIAG 4
/// A non-blocking socket to the kernel, or -errno. `receive_buffer`: in bytes, 0 for the system's own choice.
int cl_netlink_open(int protocol, int receive_buffer);
int cl_netlink_join(int fd, unsigned group);
/// Takes one datagram of the kernel's; whatever anybody else sent is dropped. -EAGAIN nothing, -ENOBUFS some were lost, -EMSGSIZE
/// one that `buffer` is too small for.
ptrdiff_t cl_netlink_receive(int fd, void *buffer, size_t count);

// wakes and signals
int cl_eventfd(void);
int cl_eventfd_signal(int fd);
int cl_eventfd_clear(int fd);
/// Blocks SIGHUP, SIGTERM, SIGINT in the calling thread and those it starts, ignores SIGPIPE, answers a descriptor.
int cl_signals(void);
int cl_signal_read(int fd);

/// Waits for one descriptor: 1 readable, 0 time out, -errno.
int cl_poll_readable(int fd, int timeout_milliseconds);

typedef struct {
  int fd;
  bool wants_read;
  bool wants_write;
  bool can_read;
  bool can_write;
} cl_poll_entry;
int cl_poll(cl_poll_entry *entries, int count, int timeout_milliseconds);

// time, in milliseconds
int64_t cl_monotonic_milliseconds(void);
int64_t cl_monotonic_microseconds(void);
int64_t cl_wall_milliseconds(void);

// process
/// Memory that is free in the allocator goes back to the kernel.
void cl_give_back_memory(void);
/// Takes the code and constants of the program and its libraries out of the page tables, but not out of the page cache:
/// whatever runs again is mapped again, at a fault for every 16 pages. A debugger's breakpoints, which are written into
/// the code, would be lost.
void cl_unmap_code(void);
/// Names a thread for tools that list them; cut to 15 bytes.
void cl_thread_name(unsigned long thread, const char *name);
int cl_raise_descriptor_limit(void);
int cl_processors(void);
/// Starts a program, found by PATH, in a session of its own and with nothing to read or write. 0, or -errno.
int cl_start(char *const *arguments);
uint64_t cl_random(void);
/// Modification time of a file in nanoseconds, or -errno.
int64_t cl_modified_nanoseconds(const char *path);
const char *cl_error_text(int error);

#define CL_SIGHUP 1
#define CL_SIGINT 2
#define CL_SIGTERM 15
#define CL_EAGAIN 11
#define CL_EINPROGRESS 115
#define CL_EMFILE 24
#define CL_ENFILE 23
#define CL_ENOBUFS 105
#define CL_ENOMEM 12
#define CL_ECONNABORTED 103
#define CL_ECONNREFUSED 111
#define CL_ETIMEDOUT 110
#define CL_EHOSTUNREACH 113
#define CL_EIO 5
#define CL_ENETUNREACH 101
#define CL_ENETDOWN 100
#define CL_ENODEV 19
#define CL_EMSGSIZE 90
#define CL_EACCES 13
#define CL_EPERM 1
#define CL_EINVAL 22
#define CL_EADDRINUSE 98
#define CL_EEXIST 17
#define CL_ENOTSOCK 88
#define CL_ECONNRESET 104
#define CL_SOCK_STREAM 1
#define CL_EADDRNOTAVAIL 99
#define CL_EAFNOSUPPORT 97

// look-ups that block, for commands
/// Addresses of a name or of an address in text, as getaddrinfo(3) orders them: how many were found, at most `capacity`, or an
/// error (EAI_…, negative) that `cl_look_up_error_text` has the words for.
int cl_look_up(const char *host, uint16_t port, cl_address *found, int capacity);
const char *cl_look_up_error_text(int error);

#endif
