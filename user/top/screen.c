// SPDX-License-Identifier: BSD-2-Clause
#include "top/top.h"

#include "base/message.h"

#include <curses.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/*
 * curses must not be called from a signal handler. A signal that ends the program may come at any
 * time, so the terminal's former settings and the characters that end the screen are kept ready: a
 * signal handler can write both.
 */

static struct {
	volatile sig_atomic_t taken;
	struct termios settings;
	char end[256];
	size_t end_length;
} terminal;

static void keep_ending(const char *capability)
{
	const char *sequence = tigetstr(capability);
	size_t length = sequence && sequence != (char *)-1 ? strlen(sequence) : 0;

	if (length > sizeof(terminal.end) - terminal.end_length)
		return;
	memcpy(terminal.end + terminal.end_length, length ? sequence : "", length);
	terminal.end_length += length;
}

static void put_back(void)
{
	if (!terminal.taken)
		return;
	terminal.taken = 0;
	/* a terminal that is gone cannot be put back */
	if (write(STDOUT_FILENO, terminal.end, terminal.end_length) >= 0)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.settings);
}

/* SA_RESETHAND has restored the default action: the signal ends the program now. */
static void on_end(int number)
{
	put_back();
	raise(number);
}

static const int ends[] = {SIGQUIT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static struct sigaction former[sizeof(ends) / sizeof(ends[0])];

static const struct appearance {
	attr_t without_colors;
	short text, ground;
	attr_t with_colors;
} appearances[TOP_STYLES] = {
	[TOP_STYLE_PLAIN] = {0, -1, -1, 0},
	[TOP_STYLE_STRONG] = {A_BOLD, -1, -1, A_BOLD},
	[TOP_STYLE_DIM] = {A_DIM, -1, -1, A_DIM},
	[TOP_STYLE_HEAD] = {A_REVERSE, COLOR_BLACK, COLOR_GREEN, 0},
	[TOP_STYLE_SORTED] = {A_REVERSE | A_BOLD, COLOR_BLACK, COLOR_CYAN, 0},
	[TOP_STYLE_SELECTED] = {A_REVERSE, COLOR_BLACK, COLOR_WHITE, 0},
	[TOP_STYLE_LABEL] = {0, COLOR_CYAN, -1, 0},
	[TOP_STYLE_CHART] = {0, COLOR_GREEN, -1, 0},
	[TOP_STYLE_HIGH] = {A_BOLD, COLOR_RED, -1, A_BOLD},
	[TOP_STYLE_MEDIUM] = {0, COLOR_YELLOW, -1, 0},
	[TOP_STYLE_LOW] = {0, COLOR_BLUE, -1, 0},
	[TOP_STYLE_PHASE + PROFILE_PHASE_OTHER] = {A_REVERSE, COLOR_BLACK, COLOR_WHITE, 0},
	[TOP_STYLE_PHASE + PROFILE_PHASE_FORWARD] = {0, COLOR_BLACK, COLOR_GREEN, 0},
	[TOP_STYLE_PHASE + PROFILE_PHASE_DATA] = {A_REVERSE, COLOR_BLACK, COLOR_YELLOW, 0},
	[TOP_STYLE_PHASE + PROFILE_PHASE_BACKWARD] = {A_REVERSE, COLOR_BLACK, COLOR_CYAN, 0},
	[TOP_STYLE_PHASE + PROFILE_PHASE_OPTIMIZER] = {0, COLOR_BLACK, COLOR_MAGENTA, 0},
	[TOP_STYLE_PHASE + PROFILE_PHASE_UNTRACED] = {0, -1, -1, A_DIM},
};

static attr_t styles[TOP_STYLES];

static SCREEN *screen; /* curses has one current screen, too */

bool screen_is_possible(void)
{
	const char *name = getenv("TERM");

	/* "dumb": one without a cursor that can be moved, such as an editor's shell */
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !(name && !strcmp(name, "dumb"));
}

bool screen_open(void)
{
	struct sigaction action = {.sa_handler = on_end, .sa_flags = SA_RESETHAND | SA_NODEFER};
	struct termios settings;
	bool colors;

	if (tcgetattr(STDIN_FILENO, &terminal.settings))
		return false;
	/* under sudo often nothing is set; the terminal knows UTF-8 nevertheless */
	if (MB_CUR_MAX == 1)
		setlocale(LC_CTYPE, "C.UTF-8");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return false;
	terminal.end_length = 0;
	keep_ending("sgr0");
	keep_ending("cnorm");
	keep_ending("rmkx");
	keep_ending("rmcup");
	terminal.taken = 1;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &action, &former[i]);
	interrupt_at_exit(put_back);
	msg_hold();
	colors = has_colors() && !getenv("NO_COLOR") && start_color() == OK;
	if (colors)
		use_default_colors();
	for (short i = 0; i < TOP_STYLES; i++) {
		const struct appearance *a = &appearances[i];

		styles[i] = colors ? a->with_colors : a->without_colors;
		if (colors && (a->text >= 0 || a->ground >= 0) &&
		    init_pair((short)(i + 1), a->text, a->ground) == OK)
			styles[i] |= (attr_t)COLOR_PAIR(i + 1);
	}
	cbreak();
	noecho();
	/* a terminal whose Ctrl-S stops the output would stop the recording */
	if (!tcgetattr(STDIN_FILENO, &settings)) {
		settings.c_iflag &= ~(tcflag_t)(IXON | IXOFF);
		tcsetattr(STDIN_FILENO, TCSADRAIN, &settings);
		def_prog_mode();
	}
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	return true;
}

void screen_close(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
	/* exactly the former settings: curses restores only those that it knows */
	terminal.taken = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.settings);
	interrupt_at_exit(NULL);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &former[i], NULL);
	msg_release();
}

bool screen_is_open(void)
{
	return screen != NULL;
}

void screen_size(unsigned *width, unsigned *height)
{
	*width = COLS > 0 ? (unsigned)COLS : 80;
	*height = LINES > 0 ? (unsigned)LINES : 24;
}

/* From the top: characters that are wider than they were thought are overwritten by the next line,
 * not the other way round. */
void screen_draw(const struct top_layout *layout)
{
	for (size_t y = 0; y < layout->lines_count && (int)y < LINES; y++) {
		const struct top_line *line = &layout->lines[y];

		move((int)y, 0);
		clrtoeol();
		for (size_t i = 0; i < line->runs_count; i++) {
			const struct top_run *run = &line->runs[i];
			size_t end = i + 1 < line->runs_count ? run[1].at : line->text.length;

			attrset(styles[run->style]);
			mvaddnstr((int)y, (int)run->column, text_peek(&line->text) + run->at,
				  (int)(end - run->at));
		}
		attrset(A_NORMAL);
	}
	move((int)layout->lines_count, 0);
	clrtobot();
	refresh();
}

static const struct {
	wint_t code;
	enum top_key key;
} special_keys[] = {
	{KEY_UP, TOP_KEY_UP},	      {KEY_DOWN, TOP_KEY_DOWN},
	{KEY_LEFT, TOP_KEY_LEFT},     {KEY_RIGHT, TOP_KEY_RIGHT},
	{KEY_PPAGE, TOP_KEY_PAGE_UP}, {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
	{KEY_HOME, TOP_KEY_HOME},     {KEY_END, TOP_KEY_END},
	{KEY_BTAB, TOP_KEY_BACK_TAB}, {KEY_BACKSPACE, TOP_KEY_BACKSPACE},
	{KEY_ENTER, TOP_KEY_ENTER},
};

enum screen_input screen_key(uint32_t *key)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	wint_t code;
	int kind = get_wch(&code);

	if (kind == ERR)
		return poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL))
			       ? SCREEN_GONE
			       : SCREEN_NONE;
	if (kind == KEY_CODE_YES && code == KEY_RESIZE)
		return SCREEN_RESIZED;
	*key = (uint32_t)code;
	if (kind != KEY_CODE_YES)
		return SCREEN_KEY;
	*key = 0; /* a key without a meaning here */
	for (size_t i = 0; i < sizeof(special_keys) / sizeof(special_keys[0]); i++)
		if (special_keys[i].code == code)
			*key = special_keys[i].key;
	return SCREEN_KEY;
}
