// See parcel.h.

#define _GNU_SOURCE
#include "parcel.h"

#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <limits.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// Descriptors that one message may hold: a tunnel has three. Room for one more shows a message that holds too many.
#define MOST_DESCRIPTORS 8

// A message needs a byte to travel with.
static char parcel_byte = 'p';

union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * MOST_DESCRIPTORS)];
};

int cl_parcel_create(int ends[2]) {
  return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0 ? 0 : -errno;
}

int cl_parcel_send(int fd, const int *descriptors, size_t count) {
  if (count == 0 || count > MOST_DESCRIPTORS) return -EINVAL;
  union control control = {0};
  struct iovec part = {&parcel_byte, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * count);
  memcpy(CMSG_DATA(header), descriptors, sizeof(int) * count);
  ptrdiff_t sent;
  do sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : 0;
}

int cl_parcel_peek(int fd, int *descriptors, size_t count) {
  if (count == 0 || count >= MOST_DESCRIPTORS) return -EINVAL;
  union control control;
  char byte;
  struct iovec part = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ptrdiff_t received;
  do received = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received < 0) return -errno;
  size_t found = 0;
  int taken[MOST_DESCRIPTORS];
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (here > MOST_DESCRIPTORS - found) here = MOST_DESCRIPTORS - found;
    memcpy(taken + found, CMSG_DATA(header), sizeof(int) * here);
    found += here;
  }
  if (found != count || (message.msg_flags & MSG_CTRUNC) != 0) {
    for (size_t index = 0; index < found; index++) close(taken[index]);
    return -EBADMSG;
  }
  memcpy(descriptors, taken, sizeof(int) * count);
  return (int)count;
}

// Of Linux 6.3; the headers may be older.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

int cl_memory_file(const char *name) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
  // An older kernel knows no files that can never be executed.
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC);
  return fd >= 0 ? fd : -errno;
}

ptrdiff_t cl_regular_file_size(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return -errno;
  return S_ISREG(status.st_mode) ? (ptrdiff_t)status.st_size : -EINVAL;
}

ptrdiff_t cl_read_at(int fd, void *buffer, size_t count, size_t offset) {
  ptrdiff_t result;
  do result = pread(fd, buffer, count, (off_t)offset);
  while (result < 0 && errno == EINTR);
  return result < 0 ? -errno : result;
}

int cl_nameless_file(const char *directory) {
  int fd = open(directory, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  // File systems that know no files without names: one that loses its name at once.
  if (errno != EOPNOTSUPP && errno != EISDIR) return -errno;
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/sallyport-XXXXXX", directory);
  if (length < 0 || (size_t)length >= sizeof path) return -ENAMETOOLONG;
  fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0) return -errno;
  if (unlink(path) == 0) return fd;
  int error = errno;
  close(fd);
  return -error;
}

ptrdiff_t cl_write_at(int fd, const void *buffer, size_t count, size_t offset) {
  ptrdiff_t result;
  do result = pwrite(fd, buffer, count, (off_t)offset);
  while (result < 0 && errno == EINTR);
  return result < 0 ? -errno : result;
}
