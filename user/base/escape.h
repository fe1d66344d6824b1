/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that come from a traced process are hostile: function names, comms, command lines, paths,
 * reasons that quote them. First escape_display makes such a text harmless and visible, then a
 * writer escapes it for its own format. The text that we write ourselves needs neither.
 *
 * A sentence that mixes both marks the foreign parts with NAME_OPEN and NAME_CLOSE; escape_display
 * lets neither character through. Writers turn the marks into their own quotation.
 */
#ifndef PERFX_BASE_ESCAPE_H
#define PERFX_BASE_ESCAPE_H

#include "base/text.h"

#define NAME_OPEN  '\x0e'
#define NAME_CLOSE '\x0f'

/* Control characters, what changes the direction of writing or cannot be seen, and bytes that are
 * no UTF-8 become \xNN, one for each byte: "a\x1b[31mb". The result is one line. */
void escape_display(struct text *into, const char *name);
/* The same between NAME_OPEN and NAME_CLOSE. */
void escape_name(struct text *into, const char *name);
/* A sentence without its marks. */
void escape_unmarked(struct text *into, const char *sentence);

/* Text → Markdown (GFM) that renders as that text, in a paragraph or a table's cell. */
void escape_markdown(struct text *into, const char *text);
/* Text → a code span: `name`, or <code>operator&#124;</code> where backticks would not do. */
void escape_markdown_code(struct text *into, const char *text);
/* A sentence with marks: plain text and code spans. */
void escape_markdown_sentence(struct text *into, const char *sentence);

/* Text → HTML that renders as that text, in an element or in a quoted attribute. */
void escape_html(struct text *into, const char *text);
/* A sentence with marks: text and <code>. */
void escape_html_sentence(struct text *into, const char *sentence);

#endif
