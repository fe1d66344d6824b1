/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the user has chosen to see, and how keys change it. Knows nothing of a terminal.
 */
#ifndef PERFX_TOP_MODEL_H
#define PERFX_TOP_MODEL_H

#include "top/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A key is a character of Unicode, or one of these. */
enum top_key {
	TOP_KEY_TAB = '\t',
	TOP_KEY_ENTER = '\n',
	TOP_KEY_ESCAPE = 0x1b,
	TOP_KEY_BACKSPACE = 0x7f,
	TOP_KEY_CLEAR = 0x15, /* Ctrl-U */
	TOP_KEY_UP = 0x110000,
	TOP_KEY_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_BACK_TAB,
};

enum top_mode {
	TOP_BROWSE = 0,
	TOP_FILTER, /* the filter is being typed; it takes effect at once */
	TOP_WRITE,  /* the name of the report's file is being typed */
	TOP_HELP,
};

/* What the caller has to do. */
enum top_action { TOP_NOTHING = 0, TOP_QUIT, TOP_WRITE_REPORT };

#define TOP_INPUT_MAX 256
#define TOP_NO_SORT   SIZE_MAX

struct top_model {
	enum top_mode mode;
	enum top_view view;
	bool paused;
	struct top_order {
		size_t column; /* TOP_NO_SORT: the table's own order */
		bool reversed; /* otherwise numbers descend and texts ascend */
	} order[TOP_VIEWS];
	size_t selected[TOP_VIEWS]; /* of the rows that are shown */
	uint32_t pid;		    /* the process of the header; 0: the first */
	char filter[TOP_INPUT_MAX]; /* rows whose texts contain it, whatever the case */
	char path[TOP_INPUT_MAX];   /* of the report */
	size_t page;		    /* rows that the last layout had room for */
};

void top_model_init(struct top_model *model);
/* frame NULL: there is none yet. */
enum top_action top_model_key(struct top_model *model, const struct top_frame *frame, uint32_t key);

/* The process of the header; NULL: there is none. */
const struct top_process *top_model_process(const struct top_model *model,
					    const struct top_frame *frame);
/* The rows of the view that pass the filter, in order: their number, and malloc'd pointers, NULL
 * where there are none. */
size_t top_model_rows(const struct top_model *model, const struct top_frame *frame,
		      const struct top_row ***rows);

#endif
