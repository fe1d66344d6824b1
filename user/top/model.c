// SPDX-License-Identifier: BSD-2-Clause
#include "top/layout.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void top_model_init(struct top_model *model)
{
	*model = (struct top_model){.path = "perfx-top.html", .page = 10};
	for (size_t i = 0; i < TOP_VIEWS; i++)
		model->order[i].column = TOP_NO_SORT;
}

struct sorting {
	size_t column;
	bool is_text, reversed;
};

/* Values that were not measured are last in either direction. */
static int by_value(const struct top_cell *a, const struct top_cell *b, bool reversed)
{
	if (isnan(a->value) || isnan(b->value))
		return isnan(a->value) - isnan(b->value);
	if (a->value == b->value)
		return 0;
	return (a->value < b->value) != reversed ? 1 : -1;
}

static int compare(const void *a, const void *b, void *ctx)
{
	const struct top_row *const *x = a, *const *y = b;
	const struct sorting *by = ctx;
	const struct top_cell *p = &(*x)->cells[by->column], *q = &(*y)->cells[by->column];
	int order;

	if (!by->is_text)
		order = by_value(p, q, by->reversed);
	else if (!isnan(p->value) && !isnan(q->value)) /* words that have an order of their own */
		order = by_value(p, q, !by->reversed);
	else
		order = by->reversed ? strcasecmp(q->text, p->text) : strcasecmp(p->text, q->text);
	/* rows of equal value stay in the table's own order */
	return order ? order : (*x > *y) - (*x < *y);
}

size_t top_model_rows(const struct top_model *model, const struct top_frame *frame,
		      const struct top_row ***rows)
{
	const struct top_table *table = &frame->tables[model->view];
	const struct top_order *order = &model->order[model->view];
	size_t count = 0;

	*rows = calloc(table->rows_count + 1, sizeof(**rows));
	for (size_t i = 0; *rows && i < table->rows_count; i++) {
		const struct top_row *row = &table->rows[i];
		bool passes = !model->filter[0];

		for (size_t k = 0; k < table->columns_count && !passes; k++)
			passes = table->columns[k].unit == TOP_TEXT &&
				 strcasestr(row->cells[k].text, model->filter);
		if (passes)
			(*rows)[count++] = row;
	}
	if (order->column == TOP_NO_SORT && order->reversed) {
		for (size_t i = 0; i < count / 2; i++) {
			const struct top_row *row = (*rows)[i];

			(*rows)[i] = (*rows)[count - 1 - i];
			(*rows)[count - 1 - i] = row;
		}
	}
	if (count && order->column < table->columns_count) {
		struct sorting by = {.column = order->column,
				     .is_text = table->columns[order->column].unit == TOP_TEXT,
				     .reversed = order->reversed};

		qsort_r(*rows, count, sizeof(**rows), compare, &by);
	}
	return count;
}

const struct top_process *top_model_process(const struct top_model *model,
					    const struct top_frame *frame)
{
	for (size_t i = 0; i < frame->processes_count; i++)
		if (frame->processes[i].pid == model->pid)
			return &frame->processes[i];
	return frame->processes_count ? &frame->processes[0] : NULL;
}

/* The next column to sort by, to the right or to the left; past the last the table's own order. */
static void move_sort(struct top_model *model, const struct top_frame *frame, int step)
{
	struct top_order *order = &model->order[model->view];
	size_t count = frame->tables[model->view].columns_count;
	size_t place = order->column == TOP_NO_SORT ? count : order->column;

	do
		place = (place + count + 1 + (size_t)step) % (count + 1);
	while (place < count && frame->tables[model->view].columns[place].processes &&
	       frame->processes_count <= 1);
	*order = (struct top_order){.column = place == count ? TOP_NO_SORT : place};
}

static void move_to(struct top_model *model, const struct top_frame *frame, long step)
{
	const struct top_row **rows;
	size_t *selected = &model->selected[model->view];
	size_t count = top_model_rows(model, frame, &rows);
	size_t last = count ? count - 1 : 0;

	free(rows);
	*selected = *selected > last ? last : *selected;
	if (step < 0)
		*selected = (size_t)-step > *selected ? 0 : *selected - (size_t)-step;
	else
		*selected = (size_t)step > last - *selected ? last : *selected + (size_t)step;
}

/* Keys that need a frame. */
static void browse_rows(struct top_model *model, const struct top_frame *frame, uint32_t key)
{
	const struct top_process *process = top_model_process(model, frame);
	long page = (long)model->page;

	switch (key) {
	case 's':
	case TOP_KEY_RIGHT:
		move_sort(model, frame, 1);
		break;
	case 'S':
	case TOP_KEY_LEFT:
		move_sort(model, frame, -1);
		break;
	case 'n':
		/* the first one follows the last one */
		if (process && ++process == frame->processes + frame->processes_count)
			process = frame->processes;
		model->pid = process ? process->pid : model->pid;
		break;
	case 'k':
	case TOP_KEY_UP:
		move_to(model, frame, -1);
		break;
	case 'j':
	case TOP_KEY_DOWN:
		move_to(model, frame, 1);
		break;
	case TOP_KEY_PAGE_UP:
		move_to(model, frame, -page);
		break;
	case TOP_KEY_PAGE_DOWN:
	case ' ':
		move_to(model, frame, page);
		break;
	case 'g':
	case TOP_KEY_HOME:
		model->selected[model->view] = 0;
		break;
	case 'G':
	case TOP_KEY_END:
		move_to(model, frame, INT32_MAX);
		break;
	}
}

static enum top_action browse(struct top_model *model, const struct top_frame *frame, uint32_t key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return TOP_QUIT;
	case 'h':
	case '?':
		model->mode = TOP_HELP;
		break;
	case 'p':
		model->paused = !model->paused;
		break;
	case '/':
		model->mode = TOP_FILTER;
		break;
	case 'w':
		model->mode = TOP_WRITE;
		break;
	case 'r':
		model->order[model->view].reversed = !model->order[model->view].reversed;
		break;
	case TOP_KEY_ESCAPE:
		model->filter[0] = '\0';
		break;
	case TOP_KEY_TAB:
		model->view = (model->view + 1u) % TOP_VIEWS;
		break;
	case TOP_KEY_BACK_TAB:
		model->view = (model->view + TOP_VIEWS - 1u) % TOP_VIEWS;
		break;
	default:
		if (key >= '1' && key < '1' + TOP_VIEWS)
			model->view = key - '1';
		else if (frame)
			browse_rows(model, frame, key);
	}
	return TOP_NOTHING;
}

/* A key of a line that is being typed. */
static void edit_input(char input[TOP_INPUT_MAX], uint32_t key)
{
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t length = strlen(input);

	if (key == TOP_KEY_BACKSPACE || key == '\b') {
		while (length && ((unsigned char)input[--length] & 0xc0) == 0x80)
			continue;
		input[length] = '\0';
	} else if (key == TOP_KEY_CLEAR)
		input[0] = '\0';
	else if (key >= ' ' && key < TOP_KEY_UP && length + 4 < TOP_INPUT_MAX) {
		/* the bytes of its UTF-8, the last one first */
		size_t count = key < 0x80 ? 1 : key < 0x800 ? 2 : key < 0x10000 ? 3 : 4;

		input[length + count] = '\0';
		for (size_t i = count; i-- > 1; key >>= 6)
			input[length + i] = (char)(0x80 | (key & 0x3f));
		input[length] = (char)(first[count] | key);
	}
}

enum top_action top_model_key(struct top_model *model, const struct top_frame *frame, uint32_t key)
{
	if (key == '\r')
		key = TOP_KEY_ENTER;
	switch (model->mode) {
	case TOP_BROWSE:
		return browse(model, frame, key);
	case TOP_FILTER:
		if (key == TOP_KEY_ESCAPE)
			model->filter[0] = '\0';
		if (key == TOP_KEY_ESCAPE || key == TOP_KEY_ENTER)
			model->mode = TOP_BROWSE;
		else
			edit_input(model->filter, key);
		model->selected[model->view] = 0;
		return TOP_NOTHING;
	case TOP_WRITE:
		if (key != TOP_KEY_ESCAPE && key != TOP_KEY_ENTER) {
			edit_input(model->path, key);
			return TOP_NOTHING;
		}
		model->mode = TOP_BROWSE;
		return key == TOP_KEY_ENTER && model->path[0] ? TOP_WRITE_REPORT : TOP_NOTHING;
	case TOP_HELP:
		model->mode = TOP_BROWSE;
		return TOP_NOTHING;
	}
	return TOP_NOTHING;
}
