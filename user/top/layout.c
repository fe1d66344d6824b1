// SPDX-License-Identifier: BSD-2-Clause
#include "top/layout.h"

#include "base/grow.h"
#include "base/units.h"
#include "report/document/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: out of memory; text for the line is lost. */
static struct top_line *new_line(struct top_layout *layout)
{
	if (!GROW_BY_ONE(layout->lines))
		return &layout->lines[layout->lines_count++];
	layout->failed = true;
	return NULL;
}

static void drop_line(struct top_layout *layout)
{
	struct top_line *last = &layout->lines[--layout->lines_count];

	text_clear(&last->text);
	free(last->runs);
	*last = (struct top_line){0}; /* as new_line() finds it again */
}

static unsigned left_of(const struct top_layout *layout, const struct top_line *line)
{
	return line && line->columns < layout->width ? layout->width - line->columns : 0;
}

static void begin_run(struct top_layout *layout, struct top_line *line, enum top_style style)
{
	if (GROW_BY_ONE(line->runs)) {
		layout->failed = true;
		return;
	}
	line->runs[line->runs_count++] =
		(struct top_run){.at = line->text.length, .column = line->columns, .style = style};
}

/* Adds a part of at most so many columns, cut at the end of the line. */
static void put_cut(struct top_layout *layout, struct top_line *line, enum top_style style,
		    const char *part, unsigned columns)
{
	unsigned left = left_of(layout, line);
	size_t begin;

	columns = columns < left ? columns : left;
	if (!columns || !*part)
		return;
	begin = line->text.length;
	begin_run(layout, line, style);
	utf8_cut(&line->text, part, columns);
	line->columns += utf8_width(text_peek(&line->text) + begin);
	layout->failed |= line->text.failed;
}

static void put(struct top_layout *layout, struct top_line *line, enum top_style style,
		const char *part)
{
	put_cut(layout, line, style, part, UINT32_MAX);
}

/* Adds a part if the line has room for all of it: half a number is a wrong number. */
static void put_whole(struct top_layout *layout, struct top_line *line, enum top_style style,
		      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void put_whole(struct top_layout *layout, struct top_line *line, enum top_style style,
		      const char *fmt, ...)
{
	struct text part = {0};
	va_list ap;

	va_start(ap, fmt);
	text_vprintf(&part, fmt, ap);
	va_end(ap);
	if (utf8_width(text_peek(&part)) <= left_of(layout, line))
		put(layout, line, style, text_peek(&part));
	text_clear(&part);
}

/* Blanks up to a column. */
static void pad(struct top_layout *layout, struct top_line *line, enum top_style style,
		unsigned column)
{
	column = column < layout->width ? column : layout->width;
	if (!line || line->columns >= column)
		return;
	begin_run(layout, line, style);
	for (; line->columns < column; line->columns++)
		text_add(&line->text, " ");
}

/* Adds a part at the right end of the line, if there is room for it. */
static void put_right(struct top_layout *layout, struct top_line *line, enum top_style style,
		      const char *part)
{
	unsigned width = utf8_width(part);

	if (width + 1 > left_of(layout, line))
		return;
	pad(layout, line, TOP_STYLE_PLAIN, layout->width - width);
	put(layout, line, style, part);
}

#define LABEL_COLUMNS 9

static struct top_line *labelled(struct top_layout *layout, const char *label)
{
	struct top_line *line = new_line(layout);

	put(layout, line, TOP_STYLE_LABEL, label);
	pad(layout, line, TOP_STYLE_PLAIN, LABEL_COLUMNS);
	return line;
}

/* The last points of a series, in so many columns. */
static void put_series(struct top_layout *layout, struct top_line *line,
		       const struct top_series *series, unsigned columns)
{
	struct text bars = {0};
	unsigned left = left_of(layout, line);
	size_t count = series->count;

	columns = columns < left ? columns : left;
	count = count < columns ? count : columns;
	spark(&bars, series->points + series->count - count, count);
	put(layout, line, TOP_STYLE_CHART, text_peek(&bars));
	text_clear(&bars);
}

static void add_title(struct top_layout *layout, const struct top_frame *frame,
		      const struct top_model *model)
{
	const struct top_process *process = frame ? top_model_process(model, frame) : NULL;
	struct top_line *line = new_line(layout);
	struct text right = {0};
	unsigned left;

	if (frame && frame->processes_count > 1)
		text_printf(&right, "%zu of %zu processes · ",
			    (size_t)(process - frame->processes) + 1, frame->processes_count);
	if (frame)
		text_printf(&right, "%s", as_ns(frame->elapsed_ns));
	if (model->paused)
		text_add(&right, " · PAUSED");
	put(layout, line, TOP_STYLE_STRONG, "perfx-trace top");
	left = left_of(layout, line);
	left -= left > utf8_width(text_peek(&right)) ? utf8_width(text_peek(&right)) + 1 : 0;
	if (process && left > 2) {
		put(layout, line, TOP_STYLE_PLAIN, "  ");
		put_cut(layout, line, TOP_STYLE_PLAIN, process->name, left - 2);
	}
	put_right(layout, line, model->paused ? TOP_STYLE_HIGH : TOP_STYLE_DIM, text_peek(&right));
	text_clear(&right);
}

/* Words in lines of the layout's width, `max` at most. */
static void add_wrapped(struct top_layout *layout, enum top_style style, const char *words,
			size_t max)
{
	struct text wrapped = {0};
	const char *at;

	text_add_wrapped(&wrapped, 0, 0, layout->width, words);
	at = text_peek(&wrapped);
	for (size_t i = 0; i < max && *at; i++) {
		size_t length = strcspn(at, "\n");
		bool is_last = i + 1 == max;
		char *part = strndup(at, is_last ? strlen(at) : length);

		/* the rest is cut off with an ellipsis on the last line */
		for (char *c = part; c && *c; c++)
			*c = *c == '\n' ? ' ' : *c;
		for (size_t n = part ? strlen(part) : 0; n && part[n - 1] == ' '; n--)
			part[n - 1] = '\0';
		put(layout, new_line(layout), style, part ? part : "");
		layout->failed |= !part;
		free(part);
		at += length + (at[length] == '\n');
		if (is_last)
			break;
	}
	text_finish(&wrapped, &layout->failed);
}

static void add_steps(struct top_layout *layout, const struct top_process *process)
{
	struct top_line *line = labelled(layout, "Step");

	if (!process->steps_count) {
		put(layout, line, TOP_STYLE_DIM, "no training steps seen");
		return;
	}
	put_whole(layout, line, TOP_STYLE_STRONG, "%s",
		  isnan(process->step_ns) ? "-" : as_ns(u64_of(process->step_ns)));
	put_whole(layout, line, TOP_STYLE_PLAIN, "  %.3g/s", process->steps_per_s);
	if (process->flops_per_s > 0)
		put_whole(layout, line, TOP_STYLE_PLAIN, "  %s",
			  as_si(process->flops_per_s, "FLOP/s"));
	else if (process->flops_cut)
		put(layout, line, TOP_STYLE_PLAIN, "  - FLOP/s");
	put_whole(layout, line, TOP_STYLE_DIM, "  %s steps", as_count(process->steps_count));
	if (left_of(layout, line) <= 2)
		return;
	put(layout, line, TOP_STYLE_PLAIN, "  ");
	put_series(layout, line, &process->steps, UINT32_MAX);
}

struct phase {
	enum profile_phase phase;
	double share;
	char words[40];
	unsigned columns; /* 0: by its share */
};

/* Removes the words of the smallest phases until the others fit. */
static void drop_words(struct phase *phases, size_t count, unsigned columns)
{
	unsigned needed = 0;

	for (size_t i = 0; i < count; i++)
		needed += utf8_width(phases[i].words);
	while (needed > columns) {
		struct phase *least = NULL;

		for (size_t i = 0; i < count; i++)
			if (phases[i].words[0] && (!least || phases[i].share < least->share))
				least = &phases[i];
		if (!least)
			return;
		needed -= utf8_width(least->words);
		least->words[0] = '\0';
	}
}

/* Columns by share; a phase is at least as wide as its words. */
static void share_columns(struct phase *phases, size_t count, unsigned columns)
{
	double sum = 0, share = 0;
	unsigned used = 0;

	for (size_t i = 0; i < count; i++)
		sum += phases[i].share;
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < count; i++) {
			unsigned needed = utf8_width(phases[i].words);

			if (phases[i].columns || phases[i].share / sum * columns >= needed)
				continue;
			phases[i].columns = needed;
			columns -= needed;
			sum -= phases[i].share;
			changed = true; /* the others have less now */
		}
	}
	for (size_t i = 0; i < count; i++) {
		unsigned end;

		if (phases[i].columns)
			continue;
		share += phases[i].share;
		end = (unsigned)(share / sum * columns + 1e-6);
		phases[i].columns = end - used;
		used = end;
	}
}

static void add_phases(struct top_layout *layout, const struct top_process *process)
{
	struct phase phases[PROFILE_PHASES];
	struct top_line *line;
	size_t count = 0;

	if (!process->has_phases)
		return;
	line = labelled(layout, "Phases");
	for (size_t i = 0; i < PROFILE_PHASES; i++) {
		enum profile_phase phase = profile_phases_in_order[i];
		struct phase *of = &phases[count];

		if (lround(process->phases[phase] * 100) <= 0)
			continue;
		*of = (struct phase){.phase = phase, .share = process->phases[phase]};
		snprintf(of->words, sizeof(of->words), "%s%s %.0f %%", count ? "│" : "",
			 profile_phase_name(phase), of->share * 100);
		count++;
	}
	drop_words(phases, count, left_of(layout, line));
	share_columns(phases, count, left_of(layout, line));
	/* "│data 48 %     ": the share's part of the bar, with its name if all of it fits */
	for (size_t i = 0; i < count; i++) {
		enum top_style style = TOP_STYLE_PHASE + phases[i].phase;
		unsigned end = line ? line->columns + phases[i].columns : 0;

		put_cut(layout, line, style, phases[i].words[0] ? phases[i].words : "│",
			phases[i].columns);
		pad(layout, line, style, end);
	}
}

/* CPU, memory, GPU: a label, a number and a series each. */
struct gauge {
	const char *label;
	char value[UNITS_MAX];
	const struct top_series *series;
};

#define GAUGES_MAX    4
#define GAUGE_VALUE   10
#define GAUGE_COLUMNS 36 /* narrower ones are two a line */

static void add_gauges(struct top_layout *layout, const struct top_process *process)
{
	static const char *const live_labels[] = {"Live", "Heap", "Tensors", "GPU mem", "Live"};
	struct gauge gauges[GAUGES_MAX] = {{"CPU", "-", &process->cpu},
					   {"Memory", "", &process->rss}};
	size_t count = 2, per_line = layout->width / GAUGE_COLUMNS;
	struct top_line *line = NULL;

	if (!isnan(process->cpu_share))
		format_percent(gauges[0].value, process->cpu_share);
	format_bytes(gauges[1].value, u64_of(process->rss_bytes));
	if (!isnan(process->live_bytes)) {
		gauges[count] =
			(struct gauge){live_labels[process->live_domain], "", &process->live};
		format_bytes(gauges[count++].value, u64_of(process->live_bytes));
	}
	if (!isnan(process->gpu_share)) {
		gauges[count] = (struct gauge){"GPU", "", &process->gpu};
		format_percent(gauges[count++].value, process->gpu_share);
	}
	per_line = per_line < 1 ? 1 : per_line > count ? count : per_line;
	for (size_t i = 0; i < count; i++) {
		unsigned share = layout->width / (unsigned)per_line;
		unsigned from = share * (unsigned)(i % per_line);

		if (i % per_line == 0)
			line = new_line(layout);
		pad(layout, line, TOP_STYLE_PLAIN, from);
		put(layout, line, TOP_STYLE_LABEL, gauges[i].label);
		pad(layout, line, TOP_STYLE_PLAIN, from + LABEL_COLUMNS);
		put_whole(layout, line, TOP_STYLE_STRONG, "%s", gauges[i].value);
		pad(layout, line, TOP_STYLE_PLAIN, from + LABEL_COLUMNS + GAUGE_VALUE);
		if (share > LABEL_COLUMNS + GAUGE_VALUE + 2)
			put_series(layout, line, gauges[i].series,
				   share - LABEL_COLUMNS - GAUGE_VALUE - 2);
	}
}

/* Lines that a short screen keeps for the table, with its head, its tabs and the last line. */
#define BODY_MIN 7

static void add_header(struct top_layout *layout, const struct top_frame *frame,
		       const struct top_model *model)
{
	const struct top_process *process = frame ? top_model_process(model, frame) : NULL;
	size_t room = layout->height > BODY_MIN ? layout->height - BODY_MIN : 1;
	struct top_line *line;

	add_title(layout, frame, model);
	if (!frame) {
		put(layout, new_line(layout), TOP_STYLE_DIM, "Waiting for the first second…");
		return;
	}
	add_wrapped(layout, frame->verdict[0] ? TOP_STYLE_STRONG : TOP_STYLE_DIM,
		    frame->verdict[0] ? frame->verdict
				      : "Not judged yet: findings need a few seconds.",
		    layout->height && layout->height < 24 ? 1 : 3);
	if (process) {
		add_steps(layout, process);
		add_phases(layout, process);
		add_gauges(layout, process);
	} else {
		put(layout, new_line(layout), TOP_STYLE_DIM, "No process yet.");
	}
	/* Cost and losses of tracing. */
	line = labelled(layout, "Tracing");
	if (!isnan(frame->slowdown))
		put_whole(layout, line, TOP_STYLE_PLAIN, "slows it by %s · ",
			  as_percent(frame->slowdown));
	put(layout, line, frame->losses[0] ? TOP_STYLE_MEDIUM : TOP_STYLE_PLAIN,
	    frame->losses[0] ? "lost: " : "no loss");
	put(layout, line, TOP_STYLE_MEDIUM, frame->losses);
	put_whole(layout, line, TOP_STYLE_PLAIN, " · %s hits/s",
		  as_count(u64_of(frame->hits_per_s)));
	if (!isnan(frame->tracer_share))
		put_whole(layout, line, TOP_STYLE_PLAIN, " · uses %s of a CPU",
			  as_percent(frame->tracer_share));
	while (layout->height && layout->lines_count > room)
		drop_line(layout);
}

#define LAST_COLUMNS_MIN 24
#define GAP		 1

/* Is it shown? rank: the highest that is. */
static bool has_column(const struct top_column *column, unsigned rank, bool several)
{
	return column->rank <= rank && (several || !column->processes);
}

/* The highest rank of columns for which there is room. */
static unsigned rank_for(const struct top_table *table, unsigned width, bool several)
{
	for (unsigned rank = 3; rank; rank--) {
		unsigned used = LAST_COLUMNS_MIN;

		for (size_t i = 0; i + 1 < table->columns_count; i++)
			if (has_column(&table->columns[i], rank, several))
				used += table->columns[i].width + GAP;
		if (used <= width)
			return rank;
	}
	return 0;
}

static void format_cell(struct text *text, enum top_unit unit, const struct top_cell *cell)
{
	double value = cell->value;

	if (unit == TOP_TEXT)
		text_add(text, cell->text);
	else if (isnan(value))
		text_add(text, "-");
	else if (unit == TOP_NS)
		add_ns(text, u64_of(value));
	else if (unit == TOP_SHARE)
		add_share(text, value);
	else if (unit == TOP_BYTES)
		add_bytes(text, u64_of(value));
	else if (unit == TOP_FLOPS)
		add_si(text, value, "");
	else if (unit == TOP_RATE && value >= 100)
		add_count(text, u64_of(value + 0.5));
	else
		text_printf(text, unit == TOP_RATE ? "%.1f" : "%.0f", value);
}

/* Numbers are at the right of their column, texts at the left. */
static void put_cell(struct top_layout *layout, struct top_line *line,
		     const struct top_column *column, const char *text, enum top_style style,
		     bool is_last)
{
	unsigned begin = line ? line->columns : 0;
	unsigned width = is_last ? left_of(layout, line) : column->width;
	struct text fitted = {0};

	if (!width || width > left_of(layout, line))
		return;
	if (column->cut_end)
		utf8_cut(&fitted, text, width);
	else
		utf8_shorten(&fitted, text, width);
	if (column->unit != TOP_TEXT)
		pad(layout, line, style, begin + width - utf8_width(text_peek(&fitted)));
	put(layout, line, style, text_peek(&fitted));
	pad(layout, line, style, begin + width + (is_last ? 0 : GAP));
	text_clear(&fitted);
}

static void add_head(struct top_layout *layout, const struct top_table *table,
		     const struct top_order *order, unsigned rank, bool several)
{
	struct top_line *line = new_line(layout);

	for (size_t i = 0; i < table->columns_count; i++) {
		const struct top_column *column = &table->columns[i];

		if (has_column(column, rank, several))
			put_cell(layout, line, column, column->title,
				 i == order->column ? TOP_STYLE_SORTED : TOP_STYLE_HEAD,
				 i + 1 == table->columns_count);
	}
}

static void add_row(struct top_layout *layout, const struct top_table *table,
		    const struct top_row *row, unsigned rank, bool several, bool is_selected)
{
	struct top_line *line = new_line(layout);

	for (size_t i = 0; i < table->columns_count; i++) {
		const struct top_column *column = &table->columns[i];
		enum top_style style = is_selected ? TOP_STYLE_SELECTED : TOP_STYLE_PLAIN;
		struct text cell = {0};

		if (!has_column(column, rank, several))
			continue;
		if (!is_selected && row->severity && !i)
			style = TOP_STYLE_HIGH + row->severity - FINDING_HIGH;
		format_cell(&cell, column->unit, &row->cells[i]);
		put_cell(layout, line, column, text_peek(&cell), style,
			 i + 1 == table->columns_count);
		text_finish(&cell, &layout->failed);
	}
}

/* Why there is no row. */
static void add_why(struct top_layout *layout, const struct top_table *table,
		    const struct top_model *model)
{
	bool is_filtered = table->rows_count && model->filter[0];

	put(layout, new_line(layout), TOP_STYLE_DIM,
	    is_filtered ? "no row passes the filter" : table->why ?: "nothing in this second");
}

/* The page with the selected row, and the details of that row. */
static void add_table(struct top_layout *layout, const struct top_frame *frame,
		      struct top_model *model, size_t room)
{
	const struct top_table *table = &frame->tables[model->view];
	bool several = frame->processes_count > 1;
	unsigned rank = rank_for(table, layout->width, several);
	size_t *selected = &model->selected[model->view], first;
	const struct top_row **rows;
	size_t count = top_model_rows(model, frame, &rows);
	const char *details;

	*selected = *selected < count ? *selected : count ? count - 1 : 0;
	details = count ? rows[*selected]->details : NULL;
	add_head(layout, table, &model->order[model->view], rank, several);
	room = room > 1 ? room - 1 : 0;
	model->page = details && room > 8 ? room / 2 : room;
	model->page = model->page ? model->page : 1;
	first = *selected / model->page * model->page;
	for (size_t i = first; i < count && i < first + model->page && room; i++)
		add_row(layout, table, rows[i], rank, several, i == *selected);
	if (!count && room)
		add_why(layout, table, model);
	if (details && room > 8) {
		size_t shown = count - first < model->page ? count - first : model->page;
		size_t end = layout->lines_count + room - shown;

		/* the selected row in full */
		new_line(layout);
		for (const char *at = details; *at && layout->lines_count < end;) {
			size_t length = strcspn(at, "\n");
			char *words = strndup(at, length);

			add_wrapped(layout, at == details ? TOP_STYLE_STRONG : TOP_STYLE_PLAIN,
				    words ? words : "", end - layout->lines_count);
			layout->failed |= !words;
			free(words);
			at += length + (at[length] == '\n');
		}
	}
	free(rows);
}

static void add_tabs(struct top_layout *layout, const struct top_frame *frame,
		     const struct top_model *model)
{
	struct top_line *line = new_line(layout);
	const struct top_order *order = &model->order[model->view];
	const struct top_table *table = &frame->tables[model->view];
	struct text right = {0}, shown = {0};

	for (size_t i = 0; i < TOP_VIEWS; i++) {
		enum top_style style = i == model->view ? TOP_STYLE_SORTED : TOP_STYLE_PLAIN;

		put_whole(layout, line, style, " %zu %s", i + 1, top_view_name(i));
		if (i == TOP_FINDINGS && frame->tables[i].rows_count)
			put_whole(layout, line, style, " (%zu)", frame->tables[i].rows_count);
		put(layout, line, style, " ");
	}
	if (model->filter[0])
		text_printf(&right, "/%s", model->filter);
	if (order->column < table->columns_count)
		text_printf(&right, "  by %s", table->columns[order->column].title);
	if (order->reversed)
		text_add(&right, ", reversed");
	if (left_of(layout, line) > 2)
		utf8_cut(&shown, text_peek(&right), left_of(layout, line) - 1);
	put_right(layout, line, TOP_STYLE_LABEL, text_peek(&shown));
	text_clear(&right);
	text_clear(&shown);
}

struct key_help {
	const char *keys, *meaning;
};

static const struct key_help keys[] = {
	{"1…5 Tab", "functions, lines, threads, findings, memory"},
	{"↑ ↓ PgUp PgDn g G", "select a row; all of a finding is shown below it"},
	{"s S → ←", "sort by the next, by the previous column"},
	{"r", "reverse the order"},
	{"/", "show the rows that contain a text; Esc shows all"},
	{"n", "the next process in the header"},
	{"p", "pause: the frame stays, the recording goes on"},
	{"w", "write a report of the last seconds: .html .md .txt .json"},
	{"", "… or a capture of them: .perfx"},
	{"h ?", "this help"},
	{"q Ctrl-C", "end the recording"},
};

/* A line that is being typed: its end stays visible. */
static void put_input(struct top_layout *layout, struct top_line *line, const char *input)
{
	unsigned left = left_of(layout, line), width = utf8_width(input);
	uint32_t code;

	while (*input && width + 1 > left) {
		input += utf8_next(input, &code);
		width = utf8_width(input);
	}
	put(layout, line, TOP_STYLE_STRONG, input);
	put(layout, line, TOP_STYLE_STRONG, "_");
}

static void add_last(struct top_layout *layout, const struct top_model *model)
{
	static const struct key_help short_keys[] = {
		{"h", "Help"},	{"Tab", "View"}, {"s", "Sort"}, {"/", "Filter"},
		{"p", "Pause"}, {"w", "Write"},	 {"q", "Quit"},
	};
	struct top_line *line = new_line(layout);

	switch (model->mode) {
	case TOP_FILTER:
		put(layout, line, TOP_STYLE_LABEL, "Filter: ");
		put_input(layout, line, model->filter);
		break;
	case TOP_WRITE:
		put_whole(layout, line, TOP_STYLE_LABEL,
			  "Write the last %s to (Esc: no): ", as_ns(layout->flight_ns));
		put_input(layout, line, model->path);
		break;
	case TOP_HELP:
		put(layout, line, TOP_STYLE_LABEL, "any key: back");
		break;
	case TOP_BROWSE:
		for (size_t i = 0; i < sizeof(short_keys) / sizeof(short_keys[0]); i++) {
			if (utf8_width(short_keys[i].keys) + utf8_width(short_keys[i].meaning) + 1 >
			    left_of(layout, line))
				break;
			put_whole(layout, line, TOP_STYLE_LABEL, "%s ", short_keys[i].keys);
			put(layout, line, TOP_STYLE_DIM, short_keys[i].meaning);
			pad(layout, line, TOP_STYLE_PLAIN, line ? line->columns + 2 : 0);
		}
		break;
	}
}

void top_layout_screen(struct top_layout *layout, const struct top_frame *frame,
		       struct top_model *model)
{
	bool has_message = layout->message[0] && model->mode == TOP_BROWSE && layout->height > 3;
	size_t body, body_end = layout->height - 1 - has_message;

	if (!layout->width || !layout->height)
		return;
	if (layout->height == 1) {
		add_last(layout, model);
		return;
	}
	add_header(layout, frame, model);
	if (model->mode == TOP_HELP) {
		new_line(layout);
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			struct top_line *line = new_line(layout);

			put(layout, line, TOP_STYLE_PLAIN, "  ");
			put(layout, line, TOP_STYLE_LABEL, keys[i].keys);
			pad(layout, line, TOP_STYLE_PLAIN, 22);
			put(layout, line, TOP_STYLE_PLAIN, keys[i].meaning);
		}
		new_line(layout);
		put(layout, new_line(layout), TOP_STYLE_DIM,
		    "  Rates and shares are of the last second: 100 % is one CPU, or one thread.");
	} else if (frame && layout->height > 3) {
		add_tabs(layout, frame, model);
		body = body_end > layout->lines_count ? body_end - layout->lines_count : 0;
		if (body)
			add_table(layout, frame, model, body);
	}
	while (layout->lines_count > body_end)
		drop_line(layout);
	while (layout->lines_count < body_end && !layout->failed)
		new_line(layout);
	if (has_message)
		put(layout, new_line(layout), TOP_STYLE_MEDIUM, layout->message);
	add_last(layout, model);
}

void top_layout_plain(struct top_layout *layout, const struct top_frame *frame)
{
	struct top_model model;

	top_model_init(&model);
	layout->height = 0;
	add_header(layout, frame, &model);
	for (model.view = 0; model.view < TOP_VIEWS; model.view++) {
		const struct top_table *table = &frame->tables[model.view];
		bool several = frame->processes_count > 1;
		unsigned rank = rank_for(table, layout->width, several);
		const struct top_row **rows;
		size_t count = top_model_rows(&model, frame, &rows);

		new_line(layout);
		add_head(layout, table, &model.order[model.view], rank, several);
		for (size_t i = 0; i < count && i < layout->rows_max; i++)
			add_row(layout, table, rows[i], rank, several, false);
		if (!count)
			add_why(layout, table, &model);
		free(rows);
	}
}

void top_layout_text(const struct top_layout *layout, struct text *text)
{
	for (size_t i = 0; i < layout->lines_count; i++) {
		const struct text *line = &layout->lines[i].text;
		size_t length = line->length;

		while (length && line->data[length - 1] == ' ')
			length--;
		text_add_bytes(text, text_peek(line), length);
		text_add(text, "\n");
	}
}

void top_layout_clear(struct top_layout *layout)
{
	while (layout->lines_count)
		drop_line(layout);
	free(layout->lines);
	layout->lines = NULL;
	layout->lines_capacity = 0;
	layout->failed = false;
}
