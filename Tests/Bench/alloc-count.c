// Counts the heap allocations of an unchanged program: how many, and how many bytes were asked for.
//
//     cc -O2 -Wall -Wextra -Werror -shared -fPIC -o alloc-count.so alloc-count.c
//     ALLOC_COUNT_FILE=/tmp/counts LD_PRELOAD=./alloc-count.so program …
//
// The counters are two little-endian uint64 in the mapped file: calls, then bytes. They can be read at any time while the
// program runs, and are added to, never reset: read before and after, and subtract. Children add to the same file.
// With ALLOC_COUNT_THREADS=PREFIX only those threads are counted whose name (pthread_setname_np) begins with PREFIX.
// alloc_count.py builds this, sets the environment and reads the counters. Tested by test_bench.py.
//
// Each function hands over to glibc's own implementation under its second name (__libc_malloc and so on), so that there is
// no dlsym, which itself allocates, and no moment at which the library is not ready. Calls that come before the file is
// mapped are counted aside and added then. Nothing here allocates. free is not touched: the memory is glibc's.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the counters are read as little-endian"
#endif

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

struct counters {
  _Atomic uint64_t calls;
  _Atomic uint64_t bytes;
};

static struct counters before_mapping;
static struct counters *_Atomic counters = &before_mapping;

static char prefix[16];  // as long as a thread's name can be; empty: every thread counts
// Of this thread. The model keeps the first use in a thread from allocating.
static __thread __attribute__((tls_model("initial-exec"))) int has_the_name;

// A thread gets its name after its first allocations: it is asked for until it fits.
static int is_counted(void) {
  if (prefix[0] == 0 || has_the_name) return 1;
  char name[16] = {0};
  prctl(PR_GET_NAME, name);
  has_the_name = strncmp(name, prefix, strlen(prefix)) == 0;
  return has_the_name;
}

static void count(size_t bytes) {
  if (!is_counted()) return;
  struct counters *now = atomic_load_explicit(&counters, memory_order_relaxed);
  atomic_fetch_add_explicit(&now->calls, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&now->bytes, bytes, memory_order_relaxed);
}

// Without a file that can be mapped the program runs on, uncounted: alloc_count.read then says that nothing was counted.
__attribute__((constructor)) static void map_counters(void) {
  const char *path = getenv("ALLOC_COUNT_FILE");
  if (path == NULL) return;
  const char *threads = getenv("ALLOC_COUNT_THREADS");
  if (threads != NULL) strncpy(prefix, threads, sizeof prefix - 1);
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  struct stat status;
  if (fstat(file, &status) == 0 &&
      (status.st_size >= (off_t)sizeof(struct counters) || ftruncate(file, sizeof(struct counters)) == 0)) {
    struct counters *mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) {
      atomic_fetch_add_explicit(&mapped->calls, atomic_load(&before_mapping.calls), memory_order_relaxed);
      atomic_fetch_add_explicit(&mapped->bytes, atomic_load(&before_mapping.bytes), memory_order_relaxed);
      atomic_store(&counters, mapped);
    }
  }
  close(file);
}

void *malloc(size_t bytes) {
  count(bytes);
  return __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes) {
  count(items * bytes);  // where the product overflows, the call fails and the count of bytes does not matter
  return __libc_calloc(items, bytes);
}

// With zero bytes and an old block realloc is free, and counted all the same: the program went to the heap.
void *realloc(void *old, size_t bytes) {
  count(bytes);
  return __libc_realloc(old, bytes);
}

void *reallocarray(void *old, size_t items, size_t bytes) {
  size_t product;
  if (__builtin_mul_overflow(items, bytes, &product)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(old, product);
}

void *memalign(size_t alignment, size_t bytes) {
  count(bytes);
  return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  count(bytes);
  return __libc_memalign(alignment, bytes);
}

// POSIX: the alignment is a power of two and a multiple of the size of a pointer; errno is left as it was.
int posix_memalign(void **result, size_t alignment, size_t bytes) {
  if (alignment == 0 || alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  count(bytes);
  int saved = errno;
  void *block = __libc_memalign(alignment, bytes);
  errno = saved;
  if (block == NULL) return ENOMEM;
  *result = block;
  return 0;
}
