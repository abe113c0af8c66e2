// The shim over ncurses, in its wide form. See include/cncurses.h.
#define _XOPEN_SOURCE_EXTENDED 1
#define _GNU_SOURCE 1

#include "cncurses.h"

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>
#include <wchar.h>

/* How long the rest of a key that begins with ESC may take, in milliseconds: over a slow link its bytes come apart. */
enum { escape_milliseconds = 100 };

static SCREEN *screen;
static chtype attributes[CN_FAINT + 1];

bool cn_is_terminal(void) { return isatty(0) && isatty(1); }

static void choose_attributes(void) {
  attributes[CN_BOLD] = A_BOLD;
  attributes[CN_SELECTED] = A_REVERSE;
  attributes[CN_TITLE] = A_BOLD | A_UNDERLINE;
  attributes[CN_ALARM] = A_STANDOUT | A_BOLD;
  attributes[CN_FAINT] = A_DIM;
  const char *plain = getenv("NO_COLOR");
  if ((plain != NULL && *plain != 0) || !has_colors() || start_color() != OK || use_default_colors() != OK) return;
  init_pair(1, COLOR_RED, -1);
  init_pair(2, COLOR_CYAN, -1);
  attributes[CN_ALARM] = A_BOLD | (chtype)COLOR_PAIR(1);
  attributes[CN_TITLE] = A_BOLD | (chtype)COLOR_PAIR(2);
}

bool cn_start(void) {
  setlocale(LC_CTYPE, "");
  int outcome = 0;
  if (setupterm(NULL, 1, &outcome) != OK) return false;
  const char *place = tigetstr("cup");
  bool places = place != NULL && place != (char *)-1;
  /* newterm makes one of its own. */
  del_curterm(cur_term);
  if (!places) return false;
  screen = newterm(NULL, stdout, stdin);
  if (screen == NULL) return false;
  choose_attributes();
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(escape_milliseconds);
  curs_set(0);
  return true;
}

void cn_stop(void) {
  if (screen == NULL) return;
  endwin();
  delscreen(screen);
  screen = NULL;
}

bool cn_is_unicode(void) { return strcmp(nl_langinfo(CODESET), "UTF-8") == 0; }
int cn_columns_of(uint32_t character) { return wcwidth((wchar_t)character); }

bool cn_follow_size(void) {
  struct winsize size;
  if (ioctl(1, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return false;
  if (size.ws_row == LINES && size.ws_col == COLS) return false;
  clearok(curscr, TRUE);
  return resize_term(size.ws_row, size.ws_col) == OK;
}

int cn_lines(void) { return LINES; }
int cn_columns(void) { return COLS; }

void cn_clear(void) { erase(); }
void cn_begin_line(int line) { move(line, 0); }

void cn_put(const char *text, int style) {
  attrset(style >= 0 && style <= CN_FAINT ? attributes[style] : A_NORMAL);
  addstr(text);
}

void cn_show(void) {
  attrset(A_NORMAL);
  refresh();
}

int cn_key(void) {
  wint_t key = 0;
  switch (get_wch(&key)) {
  case OK: break;
  case KEY_CODE_YES:
    switch (key) {
    case KEY_UP: return CN_UP;
    case KEY_DOWN: return CN_DOWN;
    case KEY_LEFT: return CN_LEFT;
    case KEY_RIGHT: return CN_RIGHT;
    case KEY_PPAGE: return CN_PAGE_UP;
    case KEY_NPAGE: return CN_PAGE_DOWN;
    case KEY_HOME: return CN_HOME;
    case KEY_END: return CN_END;
    case KEY_ENTER: return CN_ENTER;
    case KEY_BACKSPACE: return CN_BACKSPACE;
    case KEY_BTAB: return CN_BACK_TAB;
    case KEY_RESIZE:
      /* What the terminal made of its lines nobody knows: all is drawn anew. */
      clearok(curscr, TRUE);
      return CN_RESIZE;
    default: return CN_OTHER;
    }
  default: return CN_NONE;
  }
  switch (key) {
  case 0: return CN_OTHER;
  case '\r':
  case '\n': return CN_ENTER;
  case '\t': return CN_TAB;
  case 0x1b: return CN_ESCAPE;
  case 0x08:
  case 0x7f: return CN_BACKSPACE;
  default: return (int)key;
  }
}
