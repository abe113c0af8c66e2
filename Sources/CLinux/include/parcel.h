// Descriptors that one process leaves to the next: packed into a socket, and bytes that live in memory.
#ifndef CLINUX_PARCEL_H
#define CLINUX_PARCEL_H

#include <stddef.h>

/// Two connected sockets that keep the bounds of messages; 0 or -errno.
int cl_parcel_create(int ends[2]);
/// Sends one message that holds `count` descriptors; they stay open here too. 0 or -errno.
int cl_parcel_send(int fd, const int *descriptors, size_t count);
/// Takes copies of the descriptors in the first message that waits, and leaves it waiting. `count` of them or -errno; -EBADMSG
/// where the message holds another number of them.
int cl_parcel_peek(int fd, int *descriptors, size_t count);

/// A file without a name, in memory; the descriptor or -errno.
int cl_memory_file(const char *name);
/// Bytes of a regular file, or -errno; -EINVAL where it is none.
ptrdiff_t cl_regular_file_size(int fd);
/// Reads at an offset, whatever the position of the file.
ptrdiff_t cl_read_at(int fd, void *buffer, size_t count, size_t offset);

/// A file without a name on the file system of `directory`, for its owner alone; the descriptor or -errno.
int cl_nameless_file(const char *directory);
/// Writes at an offset, whatever the position of the file. Less than `count` where the rest finds no room.
ptrdiff_t cl_write_at(int fd, const void *buffer, size_t count, size_t offset);

#endif
