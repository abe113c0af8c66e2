/* iconv(3), and what became of a step of it as one value. */
#include <errno.h>
#include <iconv.h>
#include <stddef.h>

enum ciconv_outcome { CICONV_DONE, CICONV_WANTS_ROOM, CICONV_UNFIT };

/* Converts what it can of the input. Without input it writes what brings a state back to its beginning. `in_left` and
   `out_left` are bytes; what a step leaves of them is written there. A conversion that is not reversible is unfit too. */
static inline enum ciconv_outcome ciconv_step(
    void *descriptor, const unsigned char *in, size_t *in_left, unsigned char *out, size_t *out_left) {
  char *from = (char *)in;
  char *to = (char *)out;
  size_t done = *in_left == 0 ? iconv((iconv_t)descriptor, NULL, NULL, &to, out_left)
                              : iconv((iconv_t)descriptor, &from, in_left, &to, out_left);
  if (done == 0) return CICONV_DONE;
  return done == (size_t)-1 && errno == E2BIG ? CICONV_WANTS_ROOM : CICONV_UNFIT;
}

/* Forgets the state of an earlier text. */
static inline void ciconv_reset(void *descriptor) { iconv((iconv_t)descriptor, NULL, NULL, NULL, NULL); }

/* NULL where an encoding is unknown, or there is no memory. */
static inline void *ciconv_open(const char *to, const char *from) {
  iconv_t descriptor = iconv_open(to, from);
  return descriptor == (iconv_t)-1 ? NULL : (void *)descriptor;
}

static inline void ciconv_close(void *descriptor) { iconv_close((iconv_t)descriptor); }
