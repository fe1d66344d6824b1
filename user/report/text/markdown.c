// SPDX-License-Identifier: BSD-2-Clause
/*
 * Markdown (GFM) for a pull-request comment: what matters is open, the long parts are folded.
 *
 *     **`trainer` (pid 4242) spent 62.0 % of 10.0 s in `gemm` (12,345 calls of 502 µs).**
 *
 *     #### Findings
 *
 *     - **HIGH** SlowOperation: `gemm` — self time 6.20 s, 62.0 % of the wall time …
 *
 *     | Self % | Self | Total | Calls | Avg | …
 *     |-------:|-----:|------:|------:|----:| …
 */
#include "base/escape.h"
#include "report/document/document.h"
#include "report/report.h"

#include <ctype.h>

static void add_row(struct text *text, const struct table *table, char *const *cells)
{
	for (size_t i = 0; i < table->columns_count; i++) {
		text_add(text, "| ");
		if (cells)
			escape_markdown_sentence(text, cells[i]);
		else
			text_add(text, table->columns[i].title);
		text_add(text, " ");
	}
	text_add(text, "|\n");
}

static void add_finding(struct text *text, const struct block *block)
{
	const struct finding *finding = block->finding.of;

	text_add(text, "- **");
	for (const char *p = finding_severity_name(finding->severity); *p; p++)
		text_printf(text, "%c", toupper((unsigned char)*p));
	text_printf(text, "%s** %s: ", finding->partial ? ", partial" : "", finding->kind);
	escape_markdown_sentence(text, block->text);
	text_add(text, " — ");
	escape_markdown_sentence(text, block->finding.evidence);
	if (block->finding.gain[0]) {
		text_add(text, "; **");
		escape_markdown_sentence(text, block->finding.gain);
		text_add(text, "**");
	}
	text_add(text, ". <sub>(threshold: ");
	escape_markdown_sentence(text, block->finding.threshold);
	text_add(text, ")</sub><br>");
	escape_markdown_sentence(text, block->finding.suggestion);
	if (block->finding.look) {
		text_add(text, " <sub>(look at: ");
		escape_markdown_sentence(text, block->finding.look);
		text_add(text, ")</sub>");
	}
	text_add(text, "\n");
}

static void add_block(struct text *text, const struct block *block)
{
	static const struct {
		const char *open, *close;
	} marks[] = {
		[BLOCK_VERDICT] = {"### perfx-trace\n\n**", "**\n\n"},
		[BLOCK_WARNING] = {"> ", "\n\n"},
		[BLOCK_HEADING] = {"#### ", "\n\n"},
		[BLOCK_SECTION] = {"##### ", "\n\n"},
		[BLOCK_PARAGRAPH] = {"", "\n\n"},
		[BLOCK_CAPTION] = {"", "\n\n"},
		[BLOCK_NOTE] = {"<sub>", "</sub>\n\n"},
		/* a blank line after the summary: Markdown goes on inside */
		[BLOCK_FOLD] = {"<details><summary>", "</summary>\n\n"},
	};

	if (block->kind == BLOCK_FINDING) {
		add_finding(text, block);
	} else if (block->kind == BLOCK_TABLE) {
		add_row(text, &block->table, NULL);
		for (size_t i = 0; i < block->table.columns_count; i++)
			text_add(text, block->table.columns[i].right ? "|---:" : "|---");
		text_add(text, "|\n");
		for (size_t i = 0; i + block->table.columns_count <= block->table.cells_count;
		     i += block->table.columns_count)
			add_row(text, &block->table, block->table.cells + i);
		text_add(text, "\n");
	} else if (block->kind == BLOCK_PLOT) {
		text_printf(text, "```\n%s```\n\n", block->text);
	} else if (block->kind == BLOCK_UNFOLD) {
		text_add(text, "</details>\n\n");
	} else if (block->kind != BLOCK_CHART) {
		text_add(text, marks[block->kind].open);
		escape_markdown_sentence(text, block->text);
		text_add(text, marks[block->kind].close);
	}
}

int document_write_md(FILE *out, const struct document *document)
{
	struct text text = {0};
	int err;

	for (size_t i = 0; i < document->blocks_count; i++) {
		const struct block *block = &document->blocks[i];

		if (i && document->blocks[i - 1].kind == BLOCK_FINDING &&
		    block->kind != BLOCK_FINDING)
			text_add(&text, "\n");
		add_block(&text, block);
	}
	err = text_write(&text, out);
	text_clear(&text);
	return err;
}

int report_write_md(FILE *out, const struct profile *profile, const struct analysis *analysis,
		    const struct report_options *options)
{
	const struct document_limits limits = {
		.groups = true,
		.folds = true,
		.findings = 8,
		.functions = options->top ? options->top : 10,
		.more = options->top ? 0 : 60,
		.callers = 3,
		.hotspots = options->top ? options->top : 10,
		.stacks = 5,
		.frames = 24,
		.lines = 10,
		.waits = 10,
		.threads = 10,
		.processes = 5,
		.not_attached = 20,
		.plot_columns = 72,
		.name_columns = 80,
	};
	struct document document = {0};
	int err;

	err = document_compose(&document, profile, analysis, options, &limits);
	if (!err)
		err = document_write_md(out, &document);
	document_clear(&document);
	return err;
}
