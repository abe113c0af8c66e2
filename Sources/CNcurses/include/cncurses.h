// A terminal as lines of attributed text and keys, by ncurses: no other file sees its macros and its global state.
// Text must hold nothing that a terminal obeys; who calls has seen to that. How it is tested:
// Tests/EndToEndTests/test_top.py.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// What `cn_key` answers beside characters.
enum cn_key_code {
  CN_NONE = 0,
  CN_UP = -1,
  CN_DOWN = -2,
  CN_LEFT = -3,
  CN_RIGHT = -4,
  CN_PAGE_UP = -5,
  CN_PAGE_DOWN = -6,
  CN_HOME = -7,
  CN_END = -8,
  CN_ENTER = -9,
  CN_ESCAPE = -10,
  CN_BACKSPACE = -11,
  CN_TAB = -12,
  CN_BACK_TAB = -13,
  CN_RESIZE = -14,
  CN_OTHER = -15,
};

enum cn_style { CN_PLAIN, CN_BOLD, CN_SELECTED, CN_TITLE, CN_ALARM, CN_FAINT };

/// Whether standard input and output are terminals.
bool cn_is_terminal(void);

/// Takes the terminal over. False: the terminal that TERM names is not known, or cannot place the cursor.
bool cn_start(void);

/// Gives it back as it was.
void cn_stop(void);

/// Whether the locale is one of UTF-8, and how many columns a character takes in it. `cn_start` sets the locale.
bool cn_is_unicode(void);
int cn_columns_of(uint32_t character);

int cn_lines(void);
int cn_columns(void);

/// Takes the size of the terminal as it is now; whether it has changed. A signal of a change can come before the library listens.
bool cn_follow_size(void);

/// Draws: `cn_clear`, then text from the left of each line on, then `cn_show`, which sends only what has changed.
void cn_clear(void);
void cn_begin_line(int line);
void cn_put(const char *text, int style);
void cn_show(void);

/// The next key that was pressed, at once: a character, or a `cn_key_code`.
int cn_key(void);
