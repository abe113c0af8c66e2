// zlib, brotli and zstd behind one shape: coded bytes in, plain bytes out, and the other way round.
//
// zlib's stream must not move in memory and is set up by macros, zstd's errors are numbers in a size_t, brotli's are
// enumerations: Swift sees none of it. What a body may hold, how long it may be and how its members follow one another
// is decided in Swift: Sources/Serialization/CodedStream.swift.

#ifndef CCODINGS_H
#define CCODINGS_H

#include <stddef.h>
#include <stdint.h>

typedef enum ccodings_format {
  /// RFC 1952
  CCODINGS_GZIP,
  /// RFC 1950
  CCODINGS_ZLIB,
  /// RFC 7932
  CCODINGS_BROTLI,
  /// RFC 8878
  CCODINGS_ZSTD
} ccodings_format;

/// Largest window of zstd in bytes, as a power of two: 8 MiB, which RFC 9659 demands of decoders for HTTP and allows
/// encoders.
#define CCODINGS_ZSTD_WINDOW_BITS 23
/// Largest window of brotli in bytes, as a power of two (RFC 7932, 9.1).
#define CCODINGS_BROTLI_WINDOW_BITS 24

typedef enum ccodings_outcome {
  /// All room was written to: there may be more that needs no further input.
  CCODINGS_WANTS_ROOM,
  CCODINGS_WANTS_INPUT,
  /// A member, stream or frame is whole, and all of it has been written.
  CCODINGS_ENDED,
  CCODINGS_DAMAGED,
  CCODINGS_WRONG_CHECKSUM,
  CCODINGS_WRONG_LENGTH,
  CCODINGS_NEEDS_DICTIONARY,
  CCODINGS_LARGE_WINDOW,
  CCODINGS_NO_MEMORY
} ccodings_outcome;

typedef struct ccodings_step {
  ccodings_outcome outcome;
  size_t consumed;
  size_t written;
} ccodings_step;

typedef struct ccodings_decoder ccodings_decoder;

/// Null where there is no memory.
ccodings_decoder *ccodings_decoder_create(ccodings_format format);
void ccodings_decoder_destroy(ccodings_decoder *decoder);

/// Decodes what it can. `room` is not zero. Behind the end of a member of gzip, or a frame of zstd, another may follow.
ccodings_step ccodings_decode(
    ccodings_decoder *decoder, const uint8_t *input, size_t count, uint8_t *output, size_t room);

/// Begins again with deflate without a wrapper (RFC 1951), of which `first` has been read. For CCODINGS_ZLIB.
void ccodings_decoder_restart_raw(ccodings_decoder *decoder, uint8_t first);

/// Coded bytes before the fault that `ccodings_decode` found, however the body was cut. zlib's are exact; those of zstd
/// are counted to the block that is at fault, for it is judged as a whole, those of brotli in kibibytes.
uint64_t ccodings_fault_offset(const ccodings_decoder *decoder);

/// Room for whatever `count` bytes are encoded to.
size_t ccodings_encoded_bound(ccodings_format format, size_t count);
/// The bytes written, or zero where there is no memory. `count` is below 4 GiB.
size_t ccodings_encode(ccodings_format format, const uint8_t *input, size_t count, uint8_t *output, size_t room);

#endif
