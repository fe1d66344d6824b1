// SPDX-License-Identifier: BSD-2-Clause
/* top, but for the terminal: frames, keys, and what a screen of some size says. */
#include "golden_file.h"
#include "top_scene.h"

#include "base/message.h"
#include "top/layout.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>

static struct top_frame *frame_of(struct top_scene *s, struct top_past *past, uint64_t cpu_ns)
{
	struct top_frame *frame = top_frame__new(&s->snapshot, past, cpu_ns);

	cr_assert_not_null(frame);
	return frame;
}

/* A scene, its frame, and what the user sees of it at first. */
struct shown {
	struct top_scene scene;
	struct top_past past;
	struct top_frame *frame;
	struct top_model model;
};

static void show(struct shown *shown)
{
	*shown = (struct shown){0};
	top_scene(&shown->scene);
	shown->frame = frame_of(&shown->scene, &shown->past, 2 * S);
	top_model_init(&shown->model);
}

static void end(struct shown *shown)
{
	top_frame__free(shown->frame);
	top_past_clear(&shown->past);
}

Test(top, rates_of_functions)
{
	struct shown shown;
	const struct top_table *table;

	show(&shown);
	table = &shown.frame->tables[TOP_FUNCTIONS];
	cr_assert_eq(table->rows_count, SCENE_FUNCTIONS);
	cr_expect_float_eq(table->rows[0].cells[0].value, 0.4, 1e-9);	 /* of a second */
	cr_expect_float_eq(table->rows[0].cells[2].value, 40, 1e-9);	 /* calls a second */
	cr_expect_float_eq(table->rows[0].cells[3].value, 12.5e6, 1e-3); /* average */
	cr_expect_float_eq(table->rows[2].cells[4].value, 15e9, 1);	 /* FLOP/s */
	cr_expect(isnan(table->rows[0].cells[4].value));		 /* no known cost */
	cr_expect(isnan(table->rows[3].cells[3].value), "counted only");
	cr_expect_eq(table->rows[3].pid, 77);
	end(&shown);
}

/* In a period of two seconds all rates are half as large. */
Test(top, longer_periods)
{
	struct shown shown;

	show(&shown);
	top_frame__free(shown.frame);
	shown.scene.snapshot.from_ns -= S;
	shown.frame = frame_of(&shown.scene, &shown.past, 2 * S);
	cr_expect_float_eq(shown.frame->tables[TOP_FUNCTIONS].rows[0].cells[2].value, 20, 1e-9);
	cr_expect_float_eq(shown.frame->processes[0].steps_per_s, 40, 1e-9);
	end(&shown);
}

/* CPU times are known at samples of /proc: two of these may be in one period, or none. */
Test(top, shares_are_of_the_time_between_samples)
{
	struct shown shown;
	const struct top_cell *cells;

	show(&shown);
	top_frame__free(shown.frame);
	shown.scene.live_threads[0].on_cpu_ns = 1800 * MS;
	shown.scene.live_threads[0].blocked_ns = 200 * MS;
	shown.scene.live_threads[0].wall_ns = 2 * S;
	shown.frame = frame_of(&shown.scene, &shown.past, 2 * S);
	cells = shown.frame->tables[TOP_THREADS].rows[0].cells;
	cr_expect_float_eq(cells[1].value, 0.9, 1e-9);
	cr_expect_float_eq(cells[3].value, 0.1, 1e-9);
	end(&shown);
}

Test(top, cost_and_losses)
{
	struct shown shown;

	show(&shown);
	cr_expect_float_eq(shown.frame->slowdown, 0.032, 1e-9);
	cr_expect(isnan(shown.frame->tracer_share), "the start is no cost of a period");
	cr_expect_str_eq(shown.frame->losses, "5 ring_drops");
	top_frame__free(shown.frame);
	shown.scene.snapshot.totals.hits_count += 500;
	shown.frame = frame_of(&shown.scene, &shown.past, 2 * S + 100 * MS);
	cr_expect_float_eq(shown.frame->hits_per_s, 500, 1e-9);
	cr_expect_float_eq(shown.frame->tracer_share, 0.1, 1e-9);
	end(&shown);
}

static double age_of(const struct top_frame *frame, size_t row)
{
	return frame->tables[TOP_FINDINGS].rows[row].cells[2].value;
}

/* The next snapshot, a second later, with so many of the findings. */
static void next_second(struct shown *shown, size_t findings_count)
{
	struct live_snapshot *snapshot = &shown->scene.snapshot;

	top_frame__free(shown->frame);
	snapshot->number++;
	snapshot->from_ns += S;
	snapshot->to_ns += S;
	shown->scene.analyzed[0].findings_count = findings_count;
	shown->frame = frame_of(&shown->scene, &shown->past, 2 * S);
}

Test(top, findings_have_an_age)
{
	struct shown shown;

	show(&shown);
	cr_expect_eq(shown.frame->findings_counts[FINDING_HIGH], 1);
	cr_expect_eq(age_of(shown.frame, 1), 0);
	next_second(&shown, 2);
	cr_expect_eq(age_of(shown.frame, 1), 1e9);
	next_second(&shown, 1); /* the second one is gone … */
	cr_expect_eq(shown.frame->tables[TOP_FINDINGS].rows_count, 1);
	next_second(&shown, 2); /* … and comes again */
	cr_expect_eq(age_of(shown.frame, 0), 3e9);
	cr_expect_eq(age_of(shown.frame, 1), 0);
	end(&shown);
}

Test(top, nothing_yet)
{
	struct shown shown;

	show(&shown);
	top_frame__free(shown.frame);
	shown.scene.snapshot = (struct live_snapshot){.number = 1,
						      .from_ns = 1,
						      .to_ns = 1, /* an empty period, too */
						      .profile = &(struct profile){0}};
	shown.frame = frame_of(&shown.scene, &shown.past, 0);
	cr_expect_str_eq(shown.frame->verdict, "");
	cr_expect_str_eq(shown.frame->tables[TOP_FINDINGS].why, "not judged yet");
	cr_expect_null(top_model_process(&shown.model, shown.frame));
	end(&shown);
}

static enum top_action press(struct shown *shown, const char *keys)
{
	enum top_action action = TOP_NOTHING;
	uint32_t key;

	for (; *keys; keys += utf8_next(keys, &key)) {
		utf8_next(keys, &key);
		action = top_model_key(&shown->model, shown->frame, key);
	}
	return action;
}

/* The rows in their order, by their first letters: "ahss" */
static const char *order_of(const struct shown *shown)
{
	static char letters[8];
	const struct top_row **rows;
	size_t count = top_model_rows(&shown->model, shown->frame, &rows);
	const struct top_table *table = &shown->frame->tables[shown->model.view];

	for (size_t i = 0; i < count; i++)
		letters[i] = rows[i]->cells[table->columns_count - 1].text[0];
	letters[count] = '\0';
	free(rows);
	return letters;
}

Test(top, views)
{
	struct shown shown;

	show(&shown);
	press(&shown, "3");
	cr_expect_eq(shown.model.view, TOP_THREADS);
	press(&shown, "\t\t\t");
	cr_expect_eq(shown.model.view, TOP_FUNCTIONS);
	top_model_key(&shown.model, shown.frame, TOP_KEY_BACK_TAB);
	cr_expect_eq(shown.model.view, TOP_MEMORY);
	press(&shown, "6"); /* there is none */
	cr_expect_eq(shown.model.view, TOP_MEMORY);
	end(&shown);
}

Test(top, sorting)
{
	struct shown shown;

	show(&shown);
	cr_expect_str_eq(order_of(&shown), "a\\ss");
	press(&shown, "sss"); /* calls a second */
	cr_expect_str_eq(order_of(&shown), "sa\\s");
	press(&shown, "r");
	cr_expect_str_eq(order_of(&shown), "s\\as");
	press(&shown, "ss"); /* FLOP/s: who has none comes last, as before */
	cr_expect_str_eq(order_of(&shown), "sa\\s");
	press(&shown, "r");
	cr_expect_str_eq(order_of(&shown), "sa\\s");
	press(&shown, "ss"); /* the names, ascending */
	cr_expect_str_eq(order_of(&shown), "\\ass");
	press(&shown, "s"); /* past the last: as it came */
	cr_expect_str_eq(order_of(&shown), "a\\ss");
	press(&shown, "r");
	cr_expect_str_eq(order_of(&shown), "ss\\a");
	press(&shown, "S");
	cr_expect_str_eq(order_of(&shown), "\\ass");
	end(&shown);
}

/* With one process the column of their ids is not shown, nor sorted by. */
Test(top, sorting_leaves_hidden_columns_out)
{
	struct shown shown;

	show(&shown);
	shown.frame->processes_count = 1;
	press(&shown, "ssssss");
	cr_expect_str_eq(shown.frame->tables[TOP_FUNCTIONS]
				 .columns[shown.model.order[TOP_FUNCTIONS].column]
				 .title,
			 "Function");
	end(&shown);
}

Test(top, filter)
{
	struct shown shown;

	show(&shown);
	press(&shown, "/GEmm");
	cr_expect_eq(shown.model.mode, TOP_FILTER);
	cr_expect_str_eq(order_of(&shown), "s");
	press(&shown, "\n");
	cr_expect_eq(shown.model.mode, TOP_BROWSE);
	cr_expect_str_eq(order_of(&shown), "s");
	press(&shown, "\x1b");
	cr_expect_str_eq(order_of(&shown), "a\\ss");
	press(&shown, "/日é\x7f");
	cr_expect_str_eq(shown.model.filter, "日");
	cr_expect_str_eq(order_of(&shown), "\\");
	press(&shown, "\x15q\x1b");
	cr_expect_str_eq(shown.model.filter, "");
	end(&shown);
}

/* Longer than there is room for. */
Test(top, filter_is_bounded)
{
	struct shown shown;

	show(&shown);
	press(&shown, "/");
	for (size_t i = 0; i < 2 * TOP_INPUT_MAX; i++)
		press(&shown, "😀");
	cr_expect_lt(strlen(shown.model.filter), TOP_INPUT_MAX);
	cr_expect_eq(strlen(shown.model.filter) % strlen("😀"), 0);
	end(&shown);
}

Test(top, selection)
{
	struct shown shown;

	show(&shown);
	press(&shown, "jjjjjjjj");
	cr_expect_eq(shown.model.selected[TOP_FUNCTIONS], SCENE_FUNCTIONS - 1);
	press(&shown, "k");
	cr_expect_eq(shown.model.selected[TOP_FUNCTIONS], SCENE_FUNCTIONS - 2);
	press(&shown, "gk");
	cr_expect_eq(shown.model.selected[TOP_FUNCTIONS], 0);
	press(&shown, "G");
	cr_expect_eq(shown.model.selected[TOP_FUNCTIONS], SCENE_FUNCTIONS - 1);
	press(&shown, "5jG k"); /* a view without rows */
	cr_expect_eq(shown.model.selected[TOP_MEMORY], 0);
	end(&shown);
}

Test(top, processes)
{
	struct shown shown;

	show(&shown);
	cr_expect_eq(top_model_process(&shown.model, shown.frame)->pid, 42);
	press(&shown, "n");
	cr_expect_eq(top_model_process(&shown.model, shown.frame)->pid, 77);
	press(&shown, "n");
	cr_expect_eq(top_model_process(&shown.model, shown.frame)->pid, 42);
	end(&shown);
}

Test(top, quit_write_pause_help)
{
	struct shown shown;

	show(&shown);
	cr_expect_eq(press(&shown, "q"), TOP_QUIT);
	cr_expect_eq(press(&shown, "p"), TOP_NOTHING);
	cr_expect(shown.model.paused);
	cr_expect_eq(press(&shown, "hq"), TOP_NOTHING, "q ends the help alone");
	cr_expect_eq(press(&shown, "w\x15q.md"), TOP_NOTHING);
	cr_expect_eq(press(&shown, "\x1b"), TOP_NOTHING);
	cr_expect_eq(press(&shown, "w\r"), TOP_WRITE_REPORT);
	cr_expect_str_eq(shown.model.path, "q.md");
	cr_expect_eq(press(&shown, "w\x15\n"), TOP_NOTHING, "nowhere");
	end(&shown);
}

Test(top, keys_before_the_first_frame)
{
	struct top_model model;

	top_model_init(&model);
	for (uint32_t key = 1; key <= TOP_KEY_BACK_TAB; key = key == 255 ? TOP_KEY_UP : key + 1) {
		model.mode = TOP_BROWSE;
		top_model_key(&model, NULL, key);
	}
	cr_expect_eq(model.view, TOP_FINDINGS, "5, and at last back from there");
}

static struct top_layout layout_of(struct shown *shown, unsigned width, unsigned height)
{
	struct top_layout layout = {
		.width = width, .height = height, .message = "", .flight_ns = 30 * S};

	top_layout_screen(&layout, shown->frame, &shown->model);
	cr_expect_not(layout.failed);
	return layout;
}

static void expect_golden(const char *path, const struct top_layout *layout)
{
	struct text text = {0};

	top_layout_text(layout, &text);
	golden_expect(path, text_peek(&text), text.length);
	text_clear(&text);
}

Test(top, golden_screens)
{
	static const struct {
		unsigned width, height;
		const char *keys, *path;
	} screens[] = {
		{80, 24, "1", "tests/golden/top.functions.80x24.txt"},
		{80, 24, "4", "tests/golden/top.findings.80x24.txt"},
		{80, 24, "h", "tests/golden/top.help.80x24.txt"},
		{200, 60, "1", "tests/golden/top.functions.200x60.txt"},
		{200, 60, "3", "tests/golden/top.threads.200x60.txt"},
	};

	for (size_t i = 0; i < sizeof(screens) / sizeof(screens[0]); i++) {
		struct shown shown;
		struct top_layout layout;

		show(&shown);
		press(&shown, screens[i].keys);
		layout = layout_of(&shown, screens[i].width, screens[i].height);
		cr_expect_eq(layout.lines_count, screens[i].height);
		expect_golden(screens[i].path, &layout);
		top_layout_clear(&layout);
		end(&shown);
	}
}

Test(top, golden_frame)
{
	struct shown shown;
	struct top_layout layout = {.width = 100, .rows_max = 3, .message = ""};

	show(&shown);
	top_layout_plain(&layout, shown.frame);
	expect_golden("tests/golden/top.plain.100.txt", &layout);
	top_layout_clear(&layout);
	end(&shown);
}

/* No line is longer than the screen is wide, whatever is in it; runs are in order; nothing that a
 * terminal would take for a command is left. */
static void check_lines(const struct top_layout *layout)
{
	cr_expect_leq(layout->lines_count, layout->height);
	for (size_t i = 0; i < layout->lines_count; i++) {
		const struct top_line *line = &layout->lines[i];
		const char *text = text_peek(&line->text);

		cr_expect_leq(utf8_width(text), layout->width, "%ux%u: %s", layout->width,
			      layout->height, text);
		cr_expect_eq(utf8_width(text), line->columns);
		for (const char *c = text; *c; c++)
			cr_expect((unsigned char)*c >= 0x20 && *c != 0x7f, "%s", text);
		for (size_t k = 1; k < line->runs_count; k++)
			cr_expect(line->runs[k].at >= line->runs[k - 1].at &&
				  line->runs[k].column >= line->runs[k - 1].column);
	}
}

Test(top, any_size, .timeout = 60)
{
	static const char *const states[] = {"1", "2", "3", "4", "5", "h", "/日本語", "w", "nn1n"};
	struct shown shown;

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		show(&shown);
		press(&shown, states[i]);
		for (unsigned width = 1; width <= 90; width += width < 30 ? 1 : 7) {
			for (unsigned height = 1; height <= 40; height += height < 12 ? 1 : 5) {
				struct top_layout layout = layout_of(&shown, width, height);

				check_lines(&layout);
				top_layout_clear(&layout);
			}
		}
		end(&shown);
	}
}

/* A number that a narrow screen shows is one of the wide screen's: none has lost digits or its
 * place behind the decimal point. */
static void expect_whole_numbers(const struct top_layout *layout, const char *wide)
{
	for (size_t i = 0; i < layout->lines_count; i++) {
		char *line = strdup(text_peek(&layout->lines[i].text)), *rest = line;

		for (char *word; (word = strsep(&rest, " "));) {
			struct text between = {0};

			if (*word < '0' || *word > '9')
				continue;
			text_printf(&between, " %s ", word);
			cr_expect(strstr(wide, text_peek(&between)), "%u: \"%s\" in %s",
				  layout->width, word, text_peek(&layout->lines[i].text));
			text_clear(&between);
		}
		free(line);
	}
}

Test(top, no_number_is_cut)
{
	static const char *const views[] = {"1", "2", "3", "4", "5"};

	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		struct text wide = {0};
		struct top_layout layout;
		struct shown shown;

		show(&shown);
		press(&shown, views[i]);
		layout = layout_of(&shown, 400, 60);
		for (size_t k = 0; k < layout.lines_count; k++)
			text_printf(&wide, " %s ", text_peek(&layout.lines[k].text));
		top_layout_clear(&layout);
		for (unsigned width = 14; width < 200; width++) {
			layout = layout_of(&shown, width, 60);
			expect_whole_numbers(&layout, text_peek(&wide));
			top_layout_clear(&layout);
		}
		text_clear(&wide);
		end(&shown);
	}
}

/* Each phase of the steps has its figure at 80 columns. */
Test(top, phases_have_their_figures)
{
	static const char *const phases[] = {"data 49 %", "forward 25 %", "backward 20 %",
					     "optimizer 1 %", "untraced 5 %"};
	struct text text = {0};
	struct top_layout layout;
	struct shown shown;

	show(&shown);
	layout = layout_of(&shown, 80, 24);
	top_layout_text(&layout, &text);
	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		cr_expect(strstr(text_peek(&text), phases[i]), "%s", phases[i]);
	text_clear(&text);
	top_layout_clear(&layout);
	layout = layout_of(&shown, 40, 24);
	top_layout_text(&layout, &text);
	cr_expect(strstr(text_peek(&text), "│forward 25 %"), "the largest stay");
	text_clear(&text);
	top_layout_clear(&layout);
	end(&shown);
}

Test(top, before_the_first_frame)
{
	struct top_model model;
	struct top_layout layout = {.width = 80, .height = 24, .message = ""};

	top_model_init(&model);
	top_layout_screen(&layout, NULL, &model);
	cr_expect_eq(layout.lines_count, 24);
	cr_expect_str_eq(text_peek(&layout.lines[1].text), "Waiting for the first second…");
	top_layout_clear(&layout);
}

/* The row that is selected is on the page that is shown, and the style says which it is. */
Test(top, selected_row_is_shown)
{
	struct shown shown;
	struct top_layout layout;
	size_t selected = 0;

	show(&shown);
	press(&shown, "G");
	layout = layout_of(&shown, 80, 6);
	for (size_t i = 0; i < layout.lines_count; i++)
		for (size_t k = 0; k < layout.lines[i].runs_count; k++)
			if (layout.lines[i].runs[k].style == TOP_STYLE_SELECTED) {
				cr_expect_not_null(
					strstr(text_peek(&layout.lines[i].text), "save"));
				selected++;
			}
	cr_expect_gt(selected, 0);
	top_layout_clear(&layout);
	end(&shown);
}

Test(top, a_message_stands_above_the_keys)
{
	struct shown shown;
	struct top_layout layout = {
		.width = 80, .height = 24, .message = "top.html: written", .flight_ns = S};

	show(&shown);
	top_layout_screen(&layout, shown.frame, &shown.model);
	cr_expect_eq(layout.lines_count, 24);
	cr_expect_str_eq(text_peek(&layout.lines[22].text), "top.html: written");
	cr_expect(begins_with(text_peek(&layout.lines[23].text), "h Help"));
	top_layout_clear(&layout);
	end(&shown);
}

/* The first two lines of stderr, and how many there are. */
static void expect_said(const char *first, const char *second, size_t count)
{
	FILE *said = cr_get_redirected_stderr();
	char line[256], expected[256];
	size_t lines = 0;

	while (fgets(line, sizeof(line), said)) {
		snprintf(expected, sizeof(expected), "perfx-trace: %s\n", lines ? second : first);
		if (lines < 2)
			cr_expect_str_eq(line, expected);
		lines++;
	}
	cr_expect_eq(lines, count);
}

Test(top, messages_are_held, .init = cr_redirect_stderr)
{
	char line[12];

	msg_say("before");
	msg_hold();
	cr_expect_eq(msg_held(line, sizeof(line)), 0);
	cr_expect_str_eq(line, "");
	for (int i = 0; i < 150; i++)
		msg_say("message %d\nof two lines", i);
	cr_expect_eq(msg_held(line, sizeof(line)), 150);
	cr_expect_str_eq(line, "message 149");
	cr_expect_not(msg_has_status());
	msg_release();
	msg_say("after");
	fflush(stderr);
	expect_said("before", "message 50\\x0aof two lines", 102);
}
