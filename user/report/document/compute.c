// SPDX-License-Identifier: BSD-2-Clause
/*
 * Floating-point work of a process:
 *
 *     Compute
 *     1.20 TFLOP in 10.0 s: 120 GFLOP/s, 34.2 % of the 351 GFLOP/s that 2 cores can do (bf16)
 *     Of 8.42 s in calls that compute, FLOPs are known for 95.0 % · 900 calls measured ·
 *     12 calls with unreadable arguments · 300 calls nested, not double-counted
 *     By type: bf16 70.0 %, f32 30.0 %
 *
 *     FLOPs  GFLOP/s  …  Source
 *
 *     the roofline (plot.h), and its letters in a table
 */
#include "analyze/roofline.h"
#include "base/order.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/compose.h"
#include "report/document/plot.h"

#include <math.h>
#include <stdlib.h>

/* "2 cores" */
static void add_cores(struct text *text, double cores)
{
	text_printf(text, cores == floor(cores) ? "%.0f" : "%.1f", cores);
	text_add(text, cores > 1 ? " cores" : " core");
}

void compose_peak(struct text *text, const struct roof *roof)
{
	text_printf(text, "%s peak of ", as_si(roof->flops_per_s, "FLOP/s"));
	add_cores(text, roof->cores);
	text_printf(text, " (%s%s)", name_of_dtype(roof->dtype),
		    roof->estimated ? ", estimated; measure it with sudo perfx-trace peaks" : "");
}

static void compose_rate(struct composer *c, const struct profile_process *p)
{
	enum perfx_dtype dtype = roofline_dtype(p);
	struct roof roof = roofline_whole_roof(c->profile, dtype);
	uint64_t flops = p->compute.cost.flops;
	uint64_t wall_ns = roofline_wall_ns(p);
	double flops_per_s = roofline_flops_per_s(p);
	double mfu = roofline_mfu(c->profile, dtype, flops, wall_ns);
	struct text text = {0};

	if (roofline_is_cut(p)) {
		text_printf(&text, "At least %s in %s: ", as_si((double)flops, "FLOP"),
			    as_ns(profile_wall_ns(p)));
		add_reduction(&text, c->profile, p->compute.until_ns, true);
		if (flops_per_s >= 0)
			text_printf(&text, ". Before that, %s", as_si(flops_per_s, "FLOP/s"));
	} else {
		text_printf(&text, "%s in %s", as_si((double)flops, "FLOP"), as_ns(wall_ns));
		if (flops_per_s >= 0)
			text_printf(&text, ": %s", as_si(flops_per_s, "FLOP/s"));
	}
	if (mfu >= 0) {
		text_printf(&text, ", %s of the ", as_percent(mfu));
		compose_peak(&text, &roof);
	}
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

static void add_part(struct text *text, uint64_t count, const char *what)
{
	if (!count)
		return;
	if (text->length)
		text_add(text, " · ");
	text_printf(text, "%s call%s %s", as_count(count), count == 1 ? "" : "s", what);
}

/* Shares of the data types, and a row for each source. */
static void compose_sources(struct composer *c, const struct profile_process *p)
{
	uint64_t wall_ns = roofline_wall_ns(p), flops = p->compute.cost.flops;
	struct text text = {0};

	for (size_t i = 0; flops && i < p->compute.dtypes_count; i++)
		text_printf(&text, "%s %s %s",
			    i ? "," : "By type:", name_of_dtype(p->compute.dtypes[i].dtype),
			    as_percent((double)p->compute.dtypes[i].flops / (double)flops));
	document_add_any(c->document, BLOCK_PARAGRAPH, &text);
	document_headings(c->document, 0, NUMBERS("FLOPs"), NUMBERS("GFLOP/s"),
			  NUMBERS("Bytes", .rank = 1), NUMBERS("Measured"), NUMBERS("Unreadable"),
			  NUMBERS("Nested"), REST("Source"));
	for (size_t i = 0; i < p->compute.sources_count; i++) {
		const struct profile_compute_source *source = &p->compute.sources[i];
		const struct profile_cost *cost = &source->cost;

		document_row(c->document, cell_flops(cost),
			     cell_gflops(cost->flops && wall_ns
						 ? (double)cost->flops * 1e9 / (double)wall_ns
						 : -1),
			     cost->counted_count ? cell_bytes(cost->bytes + cost->moved_bytes)
						 : "-",
			     cell_count(cost->counted_count), cell_count(cost->unread_count),
			     cell_count(cost->nested_count), name_of_source(source->source));
	}
}

/* "Roofline for the 2 cores in use: memory 20.0 GB/s; f32 118 GFLOP/s from 5.90 FLOP/byte" */
static void compose_roofs(struct composer *c, const struct roof *roofs, size_t count)
{
	struct text text = {0};

	text_add(&text, "Roofline for the ");
	if (roofs[0].cores == 1)
		text_add(&text, "one core");
	else
		add_cores(&text, roofs[0].cores);
	text_printf(&text, " in use: memory %s", as_si(roofs[0].bytes_per_s, "B/s"));
	for (size_t i = 0; i < count; i++)
		text_printf(&text, "; %s %s from %.3g FLOP/byte", name_of_dtype(roofs[i].dtype),
			    as_si(roofs[i].flops_per_s, "FLOP/s"), roof_ridge(&roofs[i]));
	text_printf(&text,
		    ". Bytes count each operand and result once, so that cached data can lift a "
		    "function above the roof. Below %.0f %% of the roof, neither memory nor "
		    "arithmetic is the limit.",
		    ROOFLINE_OVERHEAD_SHARE * 100);
	document_add(c->document, BLOCK_NOTE, &text);
}

/* The number that is missing for a roofline, and how to supply it. */
static const char *why_no_roof(const struct composer *c, const struct profile_process *p)
{
	bool knows_bandwidth = false;

	for (size_t i = 0; i < c->profile->peaks_count; i++)
		knows_bandwidth |= c->profile->peaks[i].bytes_per_s > 0;
	if (!c->profile->peaks_count)
		return "No roofline: the peak of this host is not known (measure it with sudo "
		       "perfx-trace peaks, or set --peak-flops and --peak-bandwidth).";
	if (p->cpu_ns == PROFILE_ABSENT)
		return "No roofline: the number of cores in use is not known.";
	if (!knows_bandwidth)
		return "No roofline: the memory bandwidth of this host is not known (measure it "
		       "with sudo perfx-trace peaks, or set --peak-bandwidth).";
	return "No roofline: no peak is known for this data type (set --peak-flops and "
	       "--peak-bandwidth).";
}

static void compose_roofline(struct composer *c, const struct profile_process *p)
{
	struct roofline_points found;
	struct text text = {0};

	roofline_points_find(&found, c->profile, p);
	if (!found.count)
		return;
	if (!found.roofs_count) {
		document_say(c->document, BLOCK_NOTE, why_no_roof(c, p));
		return;
	}
	if (c->limits->charts) {
		document_add_chart(c->document,
				   (struct chart){.kind = CHART_ROOFLINE, .process = p});
	} else {
		document_say(c->document, BLOCK_CAPTION, "Roofline: FLOP/s (y) by FLOP/byte (x)");
		plot_roofline(&text, c->limits->plot_columns, &found);
		document_add(c->document, BLOCK_PLOT, &text);
	}
	document_headings(c->document, 0, WORDS(""), NUMBERS("GFLOP/s"), NUMBERS("Of roof"),
			  NUMBERS("FLOP/B"), WORDS("Type", .rank = 1), WORDS("Bound by"),
			  REST("Function"));
	for (size_t i = 0; i < found.count; i++) {
		const struct roofline *line = &found.points[i].line;

		document_row(c->document, (const char[]){plot_label(i), '\0'},
			     cell_gflops(line->flops_per_s),
			     cell_share(u64_of(line->flops_per_s),
					u64_of(line->attainable_flops_per_s)),
			     document_format(c->document, "%.3g", line->intensity),
			     name_of_dtype(line->dtype), roofline_class_name(line->bound) ?: "-",
			     compose_function(c, p, found.points[i].row->function));
	}
	compose_roofs(c, found.roofs, found.roofs_count);
}

/*
 * What ranges compute, with everything that runs inside them on their thread:
 *
 *     Ranges, with what runs inside them
 *      Total  Calls        FLOPs  GFLOP/s  Of roof  FLOP/B  Bound by  Range
 *     4.50 s     20  64.4 G       14.3     9.0 %    12.0     overhead  forward
 */

static int by_total(const void *left, const void *right)
{
	const struct profile_row *a = *(const struct profile_row *const *)left;
	const struct profile_row *b = *(const struct profile_row *const *)right;

	return DESCENDING(a->total_ns, b->total_ns) ?: ASCENDING(a->function, b->function);
}

static void compose_ranges(struct composer *c, const struct profile_process *p)
{
	const struct profile_row **rows = calloc(p->rows_count + 1, sizeof(*rows));
	size_t count = 0;

	if (!rows) {
		c->document->failed = true;
		return;
	}
	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_function *function =
			profile_function(c->profile, p->rows[i].function);

		if (function && (function->flags & PERFX_FUNCTION_RANGE) &&
		    p->rows[i].inclusive.counted_count)
			rows[count++] = &p->rows[i];
	}
	qsort(rows, count, sizeof(*rows), by_total);
	if (count) {
		document_say(c->document, BLOCK_CAPTION, "Ranges, including the calls inside them");
		document_headings(c->document, 0, NUMBERS("Total"), NUMBERS("Calls", .rank = 3),
				  NUMBERS("FLOPs"), NUMBERS("GFLOP/s"), NUMBERS("Bytes", .rank = 2),
				  NUMBERS("Of roof", .rank = 1), NUMBERS("FLOP/B"),
				  WORDS("Bound by"), REST("Range"));
	}
	for (size_t i = 0; i < count && i < c->limits->functions; i++) {
		const struct profile_row *row = rows[i];
		struct roofline line = roofline_of_row(c->profile, p, row);
		bool has_roof = line.flops_per_s >= 0 && line.attainable_flops_per_s > 0;

		document_row(c->document, row->timed_count ? cell_ns(row->total_ns) : "-",
			     cell_count(row->calls_count), cell_flops(&row->inclusive),
			     cell_gflops(line.flops_per_s),
			     cell_bytes(row->inclusive.bytes + row->inclusive.moved_bytes),
			     has_roof ? cell_share(u64_of(line.flops_per_s),
						   u64_of(line.attainable_flops_per_s))
				      : "-",
			     document_format(c->document, line.intensity < 0 ? "-" : "%.3g",
					     line.intensity),
			     roofline_class_name(line.bound) ?: "-",
			     compose_function(c, p, row->function));
	}
	free(rows);
}

/*
 * Bytes moved by collectives:
 *
 *     Moved between ranks
 *     Bytes    Bus bytes   GB/s   Bus GB/s   Calls  Function
 *     4.0 GiB    7.0 GiB   0.43       0.75   1,024  ncclAllReduce
 *
 * Rates are over the process's time and not over that of the calls, which return when the work
 * has been handed to the GPU.
 */

static const char *cell_rate(struct document *document, uint64_t bytes, uint64_t wall_ns)
{
	return bytes == PROFILE_ABSENT || !wall_ns
		       ? "-"
		       : document_format(document, "%.3g", (double)bytes / (double)wall_ns);
}

static void compose_collectives(struct composer *c, const struct profile_process *p)
{
	bool all_known = true;
	struct text text = {0};

	if (!p->compute.cost.moved_bytes)
		return;
	document_say(c->document, BLOCK_CAPTION, "Bytes moved between ranks");
	document_headings(c->document, 0, NUMBERS("Bytes"), NUMBERS("Bus bytes"), NUMBERS("GB/s"),
			  NUMBERS("Bus GB/s"), NUMBERS("Calls", .rank = 1), REST("Function"));
	for (size_t i = 0; i < p->rows_count; i++) {
		const struct profile_cost *cost = &p->rows[i].cost;
		uint64_t bus_bytes = profile_bus_known(cost) ? cost->bus_bytes : PROFILE_ABSENT;

		if (!cost->moved_bytes)
			continue;
		document_row(c->document, cell_bytes(cost->moved_bytes), cell_bytes(bus_bytes),
			     cell_rate(c->document, cost->moved_bytes, profile_wall_ns(p)),
			     cell_rate(c->document, bus_bytes, profile_wall_ns(p)),
			     cell_count(cost->counted_count),
			     compose_function(c, p, p->rows[i].function));
		all_known = all_known && profile_bus_known(cost);
	}
	text_add(&text, "GB/s are averages over the whole recording: these calls return once the "
			"transfer is enqueued, so that their own time gives no bandwidth. Bus "
			"bytes pass the busiest link: for an all-reduce, 2(n-1)/n of its bytes.");
	if (!all_known)
		text_add(&text, " They are missing where the communicator was created before the "
				"recording: its number of ranks is not known.");
	document_add(c->document, BLOCK_NOTE, &text);
}

void compose_compute(struct composer *c, const struct profile_process *p)
{
	const struct profile_compute *compute = &p->compute;
	double share = roofline_is_cut(p) ? -1 : roofline_attributed(compute);
	struct text text = {0};

	if (!compute->measured)
		return;
	/* a brief report shows the FLOPs of the steps, if they are known, instead */
	if (c->limits->brief && (!compute->cost.flops || p->steps.cost.flops))
		return;
	if (!c->limits->brief)
		document_say(c->document, BLOCK_SECTION, "Compute");
	if (compute->cost.counted_count)
		compose_rate(c, p);
	if (c->limits->brief)
		return;
	if (share >= 0)
		text_printf(&text, "FLOPs known for %s of %s in compute calls", as_percent(share),
			    as_ns(compute->counted_ns + compute->unread_ns));
	add_part(&text, compute->cost.counted_count, "measured");
	add_part(&text, compute->cost.unread_count, "with unreadable arguments");
	add_part(&text, compute->cost.nested_count, "nested, not double-counted");
	add_part(&text, compute->cost.opaque_count, "of compiled code with unknown FLOPs");
	if (compute->opaque_ns)
		text_printf(&text, " (%s)", as_ns(compute->opaque_ns));
	add_part(&text, compute->cost.assumed_count,
		 "of these only counted, with the FLOPs that all measured calls of the function "
		 "had");
	document_add(c->document, BLOCK_PARAGRAPH, &text);
	compose_details(c, "Compute by type, source and function, roofline");
	compose_sources(c, p);
	compose_collectives(c, p);
	compose_roofline(c, p);
	compose_ranges(c, p);
	compose_details_end(c);
}
