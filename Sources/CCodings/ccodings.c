// The shim over zlib, brotli and zstd: see CCodings.h.

#include "CCodings.h"

#include <brotli/decode.h>
#include <brotli/encode.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

/// Levels for a body that was rewritten and goes to one client, once: speed before size. A JSON document of 90 KB is
/// encoded at 200, 250 and 700 MB/s, to a factor of 3.6, 4.2 and 4.4. The next levels give 2 to 5 % more for a tenth to
/// a quarter of the speed; quality 1 of brotli is both slower and worse.
enum { ZLIB_LEVEL = 1, BROTLI_QUALITY = 2, ZSTD_LEVEL = 1 };

/// A window of 256 KiB: as good at this quality as the 4 MiB that brotli proposes, and less for a decoder to hold.
enum { BROTLI_ENCODER_WINDOW_BITS = 18 };

/// zlib's own default, which `compressBound` assumes.
enum { ZLIB_MEMORY_LEVEL = 8 };

/// By how much the header and trailer of gzip are longer than those of zlib.
enum { GZIP_WRAPPER_EXCESS = 12 };

struct ccodings_decoder {
  ccodings_format format;
  /// Bytes consumed since the decoder was made.
  uint64_t consumed;
  union {
    z_stream zlib;
    BrotliDecoderState *brotli;
    struct {
      ZSTD_DStream *stream;
      /// What zstd reads next, a block as a rule, as offsets into the coded bytes.
      uint64_t unit_begin, unit_end;
    } zstd;
  };
};

// MARK: zlib

static int window_bits(ccodings_format format) { return format == CCODINGS_GZIP ? MAX_WBITS + 16 : MAX_WBITS; }

static uInt clamped(size_t count) { return count < UINT_MAX ? (uInt)count : UINT_MAX; }

/// zlib tells what is wrong in words only.
static ccodings_outcome zlib_fault(const char *message) {
  if (message == NULL) return CCODINGS_DAMAGED;
  if (strcmp(message, "incorrect data check") == 0) return CCODINGS_WRONG_CHECKSUM;
  if (strcmp(message, "incorrect length check") == 0) return CCODINGS_WRONG_LENGTH;
  return CCODINGS_DAMAGED;
}

static ccodings_step zlib_step(
    ccodings_decoder *decoder, const uint8_t *input, size_t count, uint8_t *output, size_t room) {
  z_stream *stream = &decoder->zlib;
  stream->next_in = (Bytef *)input;
  stream->avail_in = clamped(count);
  stream->next_out = output;
  stream->avail_out = clamped(room);
  int result = inflate(stream, Z_NO_FLUSH);
  ccodings_step step = {
      .outcome = stream->avail_out == 0 ? CCODINGS_WANTS_ROOM : CCODINGS_WANTS_INPUT,
      .consumed = clamped(count) - stream->avail_in,
      .written = clamped(room) - stream->avail_out};
  switch (result) {
    case Z_OK:
    case Z_BUF_ERROR: break;
    case Z_STREAM_END:
      step.outcome = CCODINGS_ENDED;
      inflateReset(stream);
      break;
    case Z_NEED_DICT: step.outcome = CCODINGS_NEEDS_DICTIONARY; break;
    case Z_MEM_ERROR: step.outcome = CCODINGS_NO_MEMORY; break;
    default: step.outcome = zlib_fault(stream->msg); break;
  }
  return step;
}

void ccodings_decoder_restart_raw(ccodings_decoder *decoder, uint8_t first) {
  inflateReset2(&decoder->zlib, -MAX_WBITS);
  inflatePrime(&decoder->zlib, 8, first);
}

static size_t zlib_encode(ccodings_format format, const uint8_t *input, size_t count, uint8_t *output, size_t room) {
  z_stream stream = {
      .next_in = (Bytef *)input, .avail_in = clamped(count), .next_out = output, .avail_out = clamped(room)};
  int bits = window_bits(format);
  int result = deflateInit2(&stream, ZLIB_LEVEL, Z_DEFLATED, bits, ZLIB_MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
  if (result != Z_OK) return 0;
  result = deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  return result == Z_STREAM_END ? stream.total_out : 0;
}

// MARK: brotli

static ccodings_outcome brotli_fault(BrotliDecoderErrorCode code) {
  if (code == BROTLI_DECODER_ERROR_FORMAT_WINDOW_BITS) return CCODINGS_LARGE_WINDOW;
  if (code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES && code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES) {
    return CCODINGS_NO_MEMORY;
  }
  return CCODINGS_DAMAGED;
}

/// Of a fault brotli does not say where it is, and finds it sooner or later, depending on how the body is cut. Whatever
/// it has put off comes out when its input is spent: at multiples of this, in bytes, nothing is left open.
enum { BROTLI_UNIT = 1 << 10 };

static ccodings_step brotli_step(
    ccodings_decoder *decoder, const uint8_t *input, size_t count, uint8_t *output, size_t room) {
  size_t wanted = BROTLI_UNIT - decoder->consumed % BROTLI_UNIT;
  size_t given = count < wanted ? count : wanted;
  size_t input_left = given, output_left = room;
  BrotliDecoderResult result =
      BrotliDecoderDecompressStream(decoder->brotli, &input_left, &input, &output_left, &output, NULL);
  if (result == BROTLI_DECODER_RESULT_ERROR) {
    return (ccodings_step){brotli_fault(BrotliDecoderGetErrorCode(decoder->brotli)), 0, 0};
  }
  ccodings_outcome more = output_left == 0 ? CCODINGS_WANTS_ROOM : CCODINGS_WANTS_INPUT;
  return (ccodings_step){
      result == BROTLI_DECODER_RESULT_SUCCESS ? CCODINGS_ENDED : more, given - input_left, room - output_left};
}

static size_t brotli_encode(const uint8_t *input, size_t count, uint8_t *output, size_t room) {
  BROTLI_BOOL whole = BrotliEncoderCompress(
      BROTLI_QUALITY, BROTLI_ENCODER_WINDOW_BITS, BROTLI_MODE_GENERIC, count, input, &room, output);
  return whole ? room : 0;
}

// MARK: zstd

static ccodings_outcome zstd_fault(size_t result) {
  switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_checksum_wrong: return CCODINGS_WRONG_CHECKSUM;
    case ZSTD_error_dictionary_wrong: return CCODINGS_NEEDS_DICTIONARY;
    case ZSTD_error_frameParameter_windowTooLarge: return CCODINGS_LARGE_WINDOW;
    case ZSTD_error_memory_allocation: return CCODINGS_NO_MEMORY;
    default: return CCODINGS_DAMAGED;
  }
}

/// The shortest header of a frame, and that of its first block.
enum { ZSTD_FIRST_UNIT = 9 };

/// Of a fault zstd does not say where it is: it is given no more at once than the unit that it asks for, so that the
/// fault is in that unit however the body is cut.
static ccodings_step zstd_step(
    ccodings_decoder *decoder, const uint8_t *input, size_t count, uint8_t *output, size_t room) {
  uint64_t wanted = decoder->zstd.unit_end - decoder->consumed;
  ZSTD_inBuffer in = {input, count < wanted ? count : wanted, 0};
  ZSTD_outBuffer out = {output, room, 0};
  size_t result = ZSTD_decompressStream(decoder->zstd.stream, &out, &in);
  if (ZSTD_isError(result)) return (ccodings_step){zstd_fault(result), 0, 0};
  uint64_t end = decoder->consumed + in.pos + (result == 0 ? ZSTD_FIRST_UNIT : result);
  if (end != decoder->zstd.unit_end) {
    decoder->zstd.unit_begin = decoder->consumed + in.pos;
    decoder->zstd.unit_end = end;
  }
  ccodings_outcome more = out.pos == room ? CCODINGS_WANTS_ROOM : CCODINGS_WANTS_INPUT;
  return (ccodings_step){result == 0 ? CCODINGS_ENDED : more, in.pos, out.pos};
}

static size_t zstd_encode(const uint8_t *input, size_t count, uint8_t *output, size_t room) {
  size_t written = ZSTD_compress(output, room, input, count, ZSTD_LEVEL);
  return ZSTD_isError(written) ? 0 : written;
}

// MARK: One for all

ccodings_decoder *ccodings_decoder_create(ccodings_format format) {
  ccodings_decoder *decoder = calloc(1, sizeof *decoder);
  if (decoder == NULL) return NULL;
  decoder->format = format;
  switch (format) {
    case CCODINGS_GZIP:
    case CCODINGS_ZLIB:
      if (inflateInit2(&decoder->zlib, window_bits(format)) == Z_OK) return decoder;
      break;
    case CCODINGS_BROTLI:
      decoder->brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
      if (decoder->brotli == NULL) break;
      BrotliDecoderSetParameter(decoder->brotli, BROTLI_DECODER_PARAM_LARGE_WINDOW, BROTLI_FALSE);
      return decoder;
    case CCODINGS_ZSTD:
      decoder->zstd.stream = ZSTD_createDStream();
      if (decoder->zstd.stream == NULL) break;
      decoder->zstd.unit_end = ZSTD_FIRST_UNIT;
      ZSTD_DCtx_setParameter(decoder->zstd.stream, ZSTD_d_windowLogMax, CCODINGS_ZSTD_WINDOW_BITS);
      return decoder;
  }
  free(decoder);
  return NULL;
}

void ccodings_decoder_destroy(ccodings_decoder *decoder) {
  switch (decoder->format) {
    case CCODINGS_GZIP:
    case CCODINGS_ZLIB: inflateEnd(&decoder->zlib); break;
    case CCODINGS_BROTLI: BrotliDecoderDestroyInstance(decoder->brotli); break;
    case CCODINGS_ZSTD: ZSTD_freeDStream(decoder->zstd.stream); break;
  }
  free(decoder);
}

ccodings_step ccodings_decode(
    ccodings_decoder *decoder, const uint8_t *input, size_t count, uint8_t *output, size_t room) {
  ccodings_step step = {CCODINGS_DAMAGED, 0, 0};
  switch (decoder->format) {
    case CCODINGS_GZIP:
    case CCODINGS_ZLIB: step = zlib_step(decoder, input, count, output, room); break;
    case CCODINGS_BROTLI: step = brotli_step(decoder, input, count, output, room); break;
    case CCODINGS_ZSTD: step = zstd_step(decoder, input, count, output, room); break;
  }
  decoder->consumed += step.consumed;
  return step;
}

uint64_t ccodings_fault_offset(const ccodings_decoder *decoder) {
  switch (decoder->format) {
    case CCODINGS_GZIP:
    case CCODINGS_ZLIB: return decoder->consumed;
    case CCODINGS_BROTLI: return decoder->consumed - decoder->consumed % BROTLI_UNIT;
    case CCODINGS_ZSTD: return decoder->zstd.unit_begin;
  }
  return 0;
}

size_t ccodings_encoded_bound(ccodings_format format, size_t count) {
  switch (format) {
    case CCODINGS_GZIP:
    case CCODINGS_ZLIB: return compressBound(count) + GZIP_WRAPPER_EXCESS;
    case CCODINGS_BROTLI: return BrotliEncoderMaxCompressedSize(count);
    case CCODINGS_ZSTD: return ZSTD_compressBound(count);
  }
  return 0;
}

size_t ccodings_encode(ccodings_format format, const uint8_t *input, size_t count, uint8_t *output, size_t room) {
  switch (format) {
    case CCODINGS_GZIP:
    case CCODINGS_ZLIB: return zlib_encode(format, input, count, output, room);
    case CCODINGS_BROTLI: return brotli_encode(input, count, output, room);
    case CCODINGS_ZSTD: return zstd_encode(input, count, output, room);
  }
  return 0;
}
