// See CLinux.h. EINTR is retried here, so that no caller has to.

#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

_Static_assert(CL_READABLE == EPOLLIN && CL_WRITABLE == EPOLLOUT && CL_ERROR == EPOLLERR, "epoll");
_Static_assert(CL_HANGUP == EPOLLHUP && CL_PEER_CLOSED == EPOLLRDHUP && CL_EXCLUSIVE == EPOLLEXCLUSIVE, "epoll");
_Static_assert(CL_SIGHUP == SIGHUP && CL_SIGINT == SIGINT && CL_SIGTERM == SIGTERM, "signals");
_Static_assert(CL_EAGAIN == EAGAIN && CL_EINPROGRESS == EINPROGRESS && CL_EMFILE == EMFILE, "errno");
_Static_assert(CL_ENFILE == ENFILE && CL_ENOBUFS == ENOBUFS && CL_ENOMEM == ENOMEM, "errno");
_Static_assert(CL_ECONNABORTED == ECONNABORTED && CL_ECONNREFUSED == ECONNREFUSED, "errno");
_Static_assert(CL_ETIMEDOUT == ETIMEDOUT && CL_EHOSTUNREACH == EHOSTUNREACH, "errno");
_Static_assert(CL_EIO == EIO && CL_ENETUNREACH == ENETUNREACH && CL_EACCES == EACCES && CL_EPERM == EPERM, "errno");
_Static_assert(CL_ENETDOWN == ENETDOWN && CL_ENODEV == ENODEV && CL_EMSGSIZE == EMSGSIZE, "errno");
_Static_assert(CL_NETLINK_ROUTE == NETLINK_ROUTE && CL_NETLINK_SOCK_DIAG == NETLINK_SOCK_DIAG, "netlink");
_Static_assert(CL_EEXIST == EEXIST && CL_ENOTSOCK == ENOTSOCK && CL_ECONNRESET == ECONNRESET, "errno");
_Static_assert(CL_EINVAL == EINVAL && CL_EADDRINUSE == EADDRINUSE, "errno");
_Static_assert(CL_SOCK_STREAM == SOCK_STREAM, "socket types");
_Static_assert(CL_EADDRNOTAVAIL == EADDRNOTAVAIL && CL_EAFNOSUPPORT == EAFNOSUPPORT, "errno");

#define RETRY(expression)                            \
  __extension__({                                    \
    ptrdiff_t result_;                               \
    do result_ = (expression);                       \
    while (result_ < 0 && errno == EINTR);           \
    result_ < 0 ? -(ptrdiff_t)errno : result_;       \
  })

int cl_epoll_create(void) { return (int)RETRY(epoll_create1(EPOLL_CLOEXEC)); }

static int control(int epoll, int operation, int fd, uint32_t events, uint64_t data) {
  struct epoll_event event = {.events = events, .data.u64 = data};
  return (int)RETRY(epoll_ctl(epoll, operation, fd, &event));
}
int cl_epoll_add(int epoll, int fd, uint32_t events, uint64_t data) {
  return control(epoll, EPOLL_CTL_ADD, fd, events, data);
}
int cl_epoll_modify(int epoll, int fd, uint32_t events, uint64_t data) {
  return control(epoll, EPOLL_CTL_MOD, fd, events, data);
}
int cl_epoll_remove(int epoll, int fd) { return control(epoll, EPOLL_CTL_DEL, fd, 0, 0); }

void *cl_epoll_events_create(int count) { return calloc((size_t)count, sizeof(struct epoll_event)); }
void cl_epoll_events_destroy(void *events) { free(events); }
int cl_epoll_wait(int epoll, void *events, int count, int timeout) {
  int result = epoll_wait(epoll, events, count, timeout);
  // An interrupted wait is no error. While the process was stopped, its timers have run out, and what it waited for may
  // have come: the caller hears of that before it looks at the timers.
  if (result < 0 && errno == EINTR) result = epoll_wait(epoll, events, count, 0);
  return result >= 0 ? result : errno == EINTR ? 0 : -errno;
}
cl_event cl_epoll_event(const void *events, int index) {
  const struct epoll_event *event = (const struct epoll_event *)events + index;
  return (cl_event){.data = event->data.u64, .events = event->events};
}

static socklen_t to_sockaddr(const cl_address *from, struct sockaddr_storage *to) {
  memset(to, 0, sizeof *to);
  if (from->is_ipv4) {
    struct sockaddr_in *in = (struct sockaddr_in *)to;
    in->sin_family = AF_INET;
    in->sin_port = htons(from->port);
    in->sin_addr.s_addr = htonl((uint32_t)from->low);
    return sizeof *in;
  }
  struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(from->port);
  for (int index = 0; index < 8; index++) {
    in6->sin6_addr.s6_addr[index] = (uint8_t)(from->high >> (56 - 8 * index));
    in6->sin6_addr.s6_addr[8 + index] = (uint8_t)(from->low >> (56 - 8 * index));
  }
  return sizeof *in6;
}

static void from_sockaddr(const struct sockaddr_storage *from, cl_address *to) {
  *to = (cl_address){.is_ipv4 = true};
  if (from->ss_family == AF_INET) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)from;
    to->low = ntohl(in->sin_addr.s_addr);
    to->port = ntohs(in->sin_port);
  } else if (from->ss_family == AF_INET6) {
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
    for (int index = 0; index < 8; index++) {
      to->high = to->high << 8 | in6->sin6_addr.s6_addr[index];
      to->low = to->low << 8 | in6->sin6_addr.s6_addr[8 + index];
    }
    to->port = ntohs(in6->sin6_port);
    to->is_ipv4 = false;
  }
}

static ptrdiff_t await_address(int fd, bool is_ipv4) {
  int on = 1;
  return is_ipv4 ? RETRY(setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on))
                 : RETRY(setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof on));
}

int cl_listen(const cl_address *address, int backlog, bool reuse_port, bool awaits_address) {
  struct sockaddr_storage storage;
  socklen_t length = to_sockaddr(address, &storage);
  int fd = (int)RETRY(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd < 0) return fd;
  int on = 1;
  ptrdiff_t result = RETRY(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  if (result >= 0 && reuse_port) result = RETRY(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on));
  if (result >= 0 && !address->is_ipv4) result = RETRY(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
  // Accepted sockets inherit it, which saves a call for each.
  if (result >= 0) result = RETRY(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  // So is this: a client that does not read takes this much of the kernel's memory, and not the megabytes that a socket
  // may grow to. What is on its way and not acknowledged does not count, so that a long way is filled all the same.
  int unsent = CL_UNSENT_BYTES;
  if (result >= 0) result = RETRY(setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent));
  if (result >= 0 && awaits_address) result = await_address(fd, address->is_ipv4);
  if (result >= 0) result = RETRY(bind(fd, (struct sockaddr *)&storage, length));
  if (result >= 0) result = RETRY(listen(fd, backlog));
  if (result < 0) {
    close(fd);
    return (int)result;
  }
  return fd;
}

// The path is shorter than sun_path: the reader of the configuration sees to it.
static socklen_t to_sockaddr_un(const char *path, struct sockaddr_un *to) {
  memset(to, 0, sizeof *to);
  to->sun_family = AF_UNIX;
  strncpy(to->sun_path, path, sizeof to->sun_path - 1);
  return sizeof *to;
}

int cl_listen_local(const char *path, unsigned mode, int backlog) {
  struct sockaddr_un address;
  socklen_t length = to_sockaddr_un(path, &address);
  int fd = (int)RETRY(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd < 0) return fd;
  // Nobody may connect before the mode is right: Linux gives the file the mode of the socket. The umask is the whole
  // process's, and files and directories that other threads make meanwhile would have it too.
  ptrdiff_t result = RETRY(fchmod(fd, 0600));
  if (result >= 0) result = RETRY(bind(fd, (struct sockaddr *)&address, length));
  if (result >= 0) result = RETRY(chmod(path, (mode_t)mode));
  if (result >= 0) result = RETRY(listen(fd, backlog));
  if (result < 0) {
    close(fd);
    return (int)result;
  }
  return fd;
}

int64_t cl_peer_user(int fd) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  ptrdiff_t result = RETRY(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length));
  return result < 0 ? (int64_t)result : (int64_t)peer.uid;
}

int cl_connect_local(const char *path) {
  struct sockaddr_un address;
  socklen_t length = to_sockaddr_un(path, &address);
  int fd = (int)RETRY(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return fd;
  // Where the queue of a listener is full, connect(2) waits for room: who does not take connections has hung.
  struct timeval limit = {.tv_sec = 10};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  ptrdiff_t result = RETRY(connect(fd, (struct sockaddr *)&address, length));
  if (result < 0) {
    close(fd);
    return (int)(result == -EAGAIN ? -ETIMEDOUT : result);
  }
  return fd;
}

int cl_unlink_socket(const char *path) {
  struct stat status;
  ptrdiff_t result = RETRY(lstat(path, &status));
  if (result < 0) return (int)result;
  return S_ISSOCK(status.st_mode) ? (int)RETRY(unlink(path)) : -EEXIST;
}

int64_t cl_resident_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return 0;
  long total = 0, resident = 0;
  int read = fscanf(file, "%ld %ld", &total, &resident);
  fclose(file);
  return read == 2 ? (int64_t)resident * sysconf(_SC_PAGESIZE) : 0;
}

int cl_probe_listen(const cl_address *address, bool awaits_address) {
  struct sockaddr_storage storage;
  socklen_t length = to_sockaddr(address, &storage);
  int fd = (int)RETRY(socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return fd;
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!address->is_ipv4) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (awaits_address) await_address(fd, address->is_ipv4);
  ptrdiff_t result = RETRY(bind(fd, (struct sockaddr *)&storage, length));
  close(fd);
  return (int)result;
}

int cl_adopt_listener(int fd) {
  int flags = (int)RETRY(fcntl(fd, F_GETFL));
  if (flags < 0) return flags;
  int result = (int)RETRY(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
  if (result < 0) return result;
  int on = 1;
  // A socket of the file system has no such option.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  int unsent = CL_UNSENT_BYTES;
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  return 0;
}

int cl_accept(int fd, cl_address *peer) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  int result = (int)RETRY(accept4(fd, (struct sockaddr *)&storage, &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (result >= 0) from_sockaddr(&storage, peer);
  return result;
}

int cl_set_traffic_class(int fd, bool is_ipv4, int traffic_class) {
  ptrdiff_t result =
      is_ipv4 ? RETRY(setsockopt(fd, IPPROTO_IP, IP_TOS, &traffic_class, sizeof traffic_class))
              : RETRY(setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class, sizeof traffic_class));
  return (int)result;
}

int cl_connect(const cl_address *address, int traffic_class, const char *interface, bool *connected) {
  struct sockaddr_storage storage;
  socklen_t length = to_sockaddr(address, &storage);
  int fd = (int)RETRY(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd < 0) return fd;
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (interface != NULL) {
    ptrdiff_t bound = RETRY(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)));
    if (bound < 0) {
      close(fd);
      return (int)bound;
    }
  }
  // Before the first packet, so that it bears the mark too.
  if (traffic_class != 0) cl_set_traffic_class(fd, storage.ss_family == AF_INET, traffic_class);
  ptrdiff_t result = RETRY(connect(fd, (struct sockaddr *)&storage, length));
  if (result < 0 && result != -EINPROGRESS) {
    close(fd);
    return (int)result;
  }
  *connected = result == 0;
  return fd;
}

bool cl_is_connected(int fd) {
  // ENOTCONN once it is reset or over; a fraction of what TCP_INFO costs.
  struct sockaddr_storage peer;
  socklen_t length = sizeof peer;
  return getpeername(fd, (struct sockaddr *)&peer, &length) == 0;
}

bool cl_peer_closed(int fd) {
  struct pollfd entry = {.fd = fd, .events = POLLRDHUP};
  return RETRY(poll(&entry, 1, 0)) > 0;
}

int64_t cl_send_room(int fd) {
  uint32_t memory[SK_MEMINFO_VARS] = {0};
  socklen_t length = sizeof memory;
  int unsent = 0;
  if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &length) < 0 || ioctl(fd, SIOCOUTQNSD, &unsent) < 0) return 0;
  int64_t room = (int64_t)memory[SK_MEMINFO_SNDBUF] - memory[SK_MEMINFO_WMEM_QUEUED];
  int64_t left = CL_UNSENT_BYTES - (int64_t)unsent;
  if (left < room) room = left;
  return room > 0 ? room : 0;
}

int cl_netlink_open(int protocol, int receive_buffer) {
  int fd = (int)RETRY(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
  if (fd < 0) return fd;
  struct sockaddr_nl own = {.nl_family = AF_NETLINK};
  ptrdiff_t bound = RETRY(bind(fd, (struct sockaddr *)&own, sizeof own));
  if (bound < 0) {
    close(fd);
    return (int)bound;
  }
  // As root past net.core.rmem_max, else up to it.
  if (receive_buffer > 0 &&
      setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof receive_buffer) < 0) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  return fd;
}

int cl_netlink_join(int fd, unsigned group) {
  return (int)RETRY(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group));
}

ptrdiff_t cl_netlink_receive(int fd, void *buffer, size_t count) {
  for (;;) {
    struct sockaddr_nl sender;
    socklen_t length = sizeof sender;
    ptrdiff_t result = RETRY(recvfrom(fd, buffer, count, MSG_TRUNC, (struct sockaddr *)&sender, &length));
    if (result < 0) return result;
    if (length < sizeof sender || sender.nl_pid != 0) continue;
    return (size_t)result > count ? -EMSGSIZE : result;
  }
}

int cl_socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  ptrdiff_t result = RETRY(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
  return result < 0 ? (int)result : -error;
}

int cl_local_address(int fd, cl_address *address) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  ptrdiff_t result = RETRY(getsockname(fd, (struct sockaddr *)&storage, &length));
  if (result >= 0) from_sockaddr(&storage, address);
  return (int)result;
}

int cl_peer_address(int fd, cl_address *address) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  ptrdiff_t result = RETRY(getpeername(fd, (struct sockaddr *)&storage, &length));
  if (result >= 0) from_sockaddr(&storage, address);
  return (int)result;
}

int cl_shutdown_write(int fd) { return (int)RETRY(shutdown(fd, SHUT_WR)); }

int cl_reset_on_close(int fd) {
  struct linger linger = {.l_onoff = 1, .l_linger = 0};
  return (int)RETRY(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
}

int cl_close(int fd) {
  // On Linux the descriptor is gone whatever close answers; retrying would close someone else's.
  if (close(fd) == 0 || errno == EINTR) return 0;
  return -errno;
}

int cl_peek(int fd) {
  char byte;
  return (int)RETRY(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT));
}

ptrdiff_t cl_read(int fd, void *buffer, size_t count) { return RETRY(read(fd, buffer, count)); }
ptrdiff_t cl_write(int fd, const void *buffer, size_t count) { return RETRY(write(fd, buffer, count)); }
ptrdiff_t cl_write2(int fd, const void *first, size_t first_count, const void *second, size_t second_count) {
  struct iovec parts[2] = {{(void *)(uintptr_t)first, first_count}, {(void *)(uintptr_t)second, second_count}};
  return RETRY(writev(fd, parts, 2));
}
ptrdiff_t cl_splice(int from, int to, size_t count, bool more) {
  return RETRY(splice(from, NULL, to, NULL, count, SPLICE_F_NONBLOCK | SPLICE_F_MOVE | (more ? SPLICE_F_MORE : 0)));
}
int cl_pipe(int *read_end, int *write_end, int capacity) {
  int ends[2];
  ptrdiff_t result = RETRY(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
  if (result < 0) return (int)result;
  // A user over its share of pipe memory keeps the default capacity, which only makes the moves smaller.
  fcntl(ends[1], F_SETPIPE_SZ, capacity);
  *read_end = ends[0];
  *write_end = ends[1];
  return fcntl(ends[1], F_GETPIPE_SZ);
}

int cl_eventfd(void) { return (int)RETRY(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }
int cl_eventfd_signal(int fd) {
  uint64_t one = 1;
  return (int)RETRY(write(fd, &one, sizeof one));
}
int cl_eventfd_clear(int fd) {
  uint64_t count;
  return (int)RETRY(read(fd, &count, sizeof count));
}

int cl_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  int error = pthread_sigmask(SIG_BLOCK, &set, NULL);
  if (error != 0) return -error;
  signal(SIGPIPE, SIG_IGN);
  return (int)RETRY(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}
int cl_signal_read(int fd) {
  struct signalfd_siginfo info;
  ptrdiff_t result = RETRY(read(fd, &info, sizeof info));
  return result < 0 ? (int)result : (int)info.ssi_signo;
}

int cl_poll_readable(int fd, int timeout) {
  struct pollfd entry = {.fd = fd, .events = POLLIN};
  int result = poll(&entry, 1, timeout);
  return result >= 0 ? result : errno == EINTR ? 0 : -errno;
}

int cl_poll(cl_poll_entry *entries, int count, int timeout) {
  struct pollfd set[64];
  if (count > 64) count = 64;
  for (int index = 0; index < count; index++) {
    set[index] = (struct pollfd){
        .fd = entries[index].fd,
        .events = (short)((entries[index].wants_read ? POLLIN : 0) | (entries[index].wants_write ? POLLOUT : 0))};
  }
  int result = poll(set, (nfds_t)count, timeout);
  if (result < 0) return errno == EINTR ? 0 : -errno;
  for (int index = 0; index < count; index++) {
    entries[index].can_read = (set[index].revents & (POLLIN | POLLERR | POLLHUP)) != 0;
    entries[index].can_write = (set[index].revents & (POLLOUT | POLLERR | POLLHUP)) != 0;
  }
  return result;
}

void cl_give_back_memory(void) { malloc_trim(0); }

// Segments that are not writable hold what the file holds: Debian builds everything without text relocations.
static int unmap_code_of(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size, (void)unused;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int index = 0; index < object->dlpi_phnum; index++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[index];
    if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W)) continue;
    uintptr_t begin = (object->dlpi_addr + segment->p_vaddr) & -page;
    uintptr_t end = (object->dlpi_addr + segment->p_vaddr + segment->p_memsz + page - 1) & -page;
    madvise((void *)begin, end - begin, MADV_DONTNEED);
  }
  return 0;
}
void cl_unmap_code(void) { dl_iterate_phdr(unmap_code_of, NULL); }

static int64_t milliseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
// Goes on while the machine sleeps, for verdicts and sessions grow old all the same.
int64_t cl_monotonic_milliseconds(void) { return milliseconds(CLOCK_BOOTTIME); }

int64_t cl_monotonic_microseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}
int64_t cl_wall_milliseconds(void) { return milliseconds(CLOCK_REALTIME); }

void cl_thread_name(unsigned long thread, const char *name) {
  char cut[16] = {0};
  strncpy(cut, name, sizeof cut - 1);
  pthread_setname_np((pthread_t)thread, cut);
}

int cl_raise_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -errno;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > INT_MAX ? INT_MAX : (int)limit.rlim_cur;
}

int cl_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return 1;
}

int cl_start(char *const *arguments) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return -error;
  error = posix_spawnattr_init(&attributes);
  if (error == 0) {
    for (int number = 0; number < 3 && error == 0; number++)
      error = posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0);
    if (error == 0) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    pid_t process;
    if (error == 0) error = posix_spawnp(&process, arguments[0], &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return -error;
}

uint64_t cl_random(void) {
  uint64_t value;
  if (RETRY(getrandom(&value, sizeof value, 0)) != sizeof value) abort();
  return value;
}

int64_t cl_modified_nanoseconds(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return -errno;
  return (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
}

const char *cl_error_text(int error) {
  const char *text = strerrordesc_np(error);
  return text != NULL ? text : "unknown error";
}

#include <netdb.h>

int cl_look_up(const char *host, uint16_t port, cl_address *found, int capacity) {
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *list = NULL;
  int result = getaddrinfo(host, NULL, &hints, &list);
  if (result != 0) return result;
  int count = 0;
  for (const struct addrinfo *entry = list; entry != NULL && count < capacity; entry = entry->ai_next) {
    struct sockaddr_storage storage = {0};
    memcpy(&storage, entry->ai_addr, entry->ai_addrlen);
    from_sockaddr(&storage, &found[count]);
    found[count++].port = port;
  }
  freeaddrinfo(list);
  return count;
}

const char *cl_look_up_error_text(int error) { return gai_strerror(error); }
