// SPDX-License-Identifier: BSD-2-Clause
/*
 * Charts. A series over time is drawn here, as a path in a box of 1000 × 100 that the page
 * stretches; numbers stand beside it as text. A flame graph is drawn by the script, for its boxes
 * depend on the width and on what was clicked; here is its data:
 *
 *     {"unit": "ns", "values": ["Time"], "names": ["main", "step"],
 *      "nodes": [[-1, 0, [100]], [0, 1, [900]], …],       parent, name, own value of each kind
 *      "rest": 1,         so many nodes, the first ones, are no functions: untraced time
 *      "whole": 10000,    value of 100 %; 0: the sum
 *      "part": 2,         this value is a part of the first one, in a colour of its own; 0: none
 *      "python": [1]}     names of Python functions; absent: no button "Python only"
 */
#include "report/document/document.h"

#include "analyze/location.h"
#include "analyze/memory_sum.h"
#include "analyze/roofline.h"
#include "analyze/spinning.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/plot.h"
#include "report/html/chart_data.h"
#include "report/json/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A box narrower than a thousandth of the graph cannot be seen before it is enlarged; what is left
 * out is so much at most, and so many boxes are quick. */
#define NODE_SHARE  0.0005
#define NODES_MAX   10000
#define PLACES_MAX  1000
#define SAMPLES_MAX 4000

void html_json(struct text *into, const char *json)
{
	while (*json) {
		size_t plain = strcspn(json, "<");

		text_add_bytes(into, json, plain);
		json += plain;
		if (*json) {
			text_add(into, "\\u003c");
			json++;
		}
	}
}

void chart_open(struct text *into, const char *kind, const char *caption)
{
	text_printf(into, "<figure class=%s><figcaption>%s", kind, caption);
}

uint32_t chart_name(struct chart_names *names, const char *name)
{
	uint64_t key = fnv1a(name, strlen(name));
	uint32_t index = map64_get(&names->places, key);

	if (index != MAP64_NONE)
		return index;
	names->list = names->list ?: json_array();
	index = (uint32_t)json_array_size(names->list);
	if (!map64_put(&names->places, key, index))
		json_array_append_new(names->list, json_of_name(name));
	return index;
}

void chart_write_data(struct text *into, json_t *data)
{
	char *json = data ? json_dumps(data, JSON_COMPACT) : NULL;

	into->failed |= !json;
	text_add(into, "</figcaption><div class=graph></div><noscript><p class=note>Drawn by a "
		       "script.</p></noscript><script type=\"application/json\">");
	html_json(into, json ?: "");
	text_add(into, "</script></figure>\n");
	free(json);
	json_decref(data);
}

#define KINDS_MAX 3

/* A graph's data while it is filled. */
struct flame {
	const char *kinds[KINDS_MAX]; /* of a node's values */
	struct chart_names names;
	json_t *nodes, *python; /* python: indices of names; NULL: none */
	size_t rest_count;	/* of the nodes, the first */
	size_t part;		/* a kind that is a part of the first one; 0: none */
	uint64_t whole;
};

/* values: of each kind; NULL: 0. Returns the node's index. */
static long flame_node(struct flame *flame, long parent, uint32_t name, const uint64_t *values)
{
	json_t *array = json_array();

	for (int i = 0; i < KINDS_MAX && flame->kinds[i]; i++)
		json_array_append_new(array, json_of_integer(values ? values[i] : 0));
	flame->nodes = flame->nodes ?: json_array();
	json_array_append_new(flame->nodes,
			      json_pack("[I,I,o]", (json_int_t)parent, (json_int_t)name, array));
	return (long)json_array_size(flame->nodes) - 1;
}

static void flame_end(struct text *into, struct flame *flame, const char *unit)
{
	json_t *kinds = json_array();

	for (int i = 0; i < KINDS_MAX && flame->kinds[i]; i++)
		json_array_append_new(kinds, json_string(flame->kinds[i]));
	chart_write_data(into, json_object_of({"unit", json_string(unit)}, {"values", kinds},
					      {"names", flame->names.list ?: json_array()},
					      {"nodes", flame->nodes ?: json_array()},
					      {"rest", json_of_integer(flame->rest_count)},
					      {"whole", json_of_integer(flame->whole)},
					      {"part", json_of_count(flame->part)},
					      {"python", flame->python ?: json_null()}));
	map64_clear(&flame->names.places);
}

/* Calling contexts with their time, callees included. */
struct call_node {
	uint64_t all_ns;
	long parent; /* place among the contexts; -1: none */
	long node;   /* in the graph */
};

/* Parents come before children: ids ascend, and a parent's is smaller. 0 or -1. */
static int sum_calls(const struct profile_process *p, struct call_node *nodes)
{
	struct map64 places = {0};
	int err = 0;

	for (size_t i = 0; i < p->contexts_count && !err; i++) {
		uint32_t parent = map64_get(&places, p->contexts[i].parent);

		nodes[i].parent = parent == MAP64_NONE ? -1 : (long)parent;
		nodes[i].all_ns = p->contexts[i].self_ns;
		err = map64_put(&places, p->contexts[i].id, (uint32_t)i);
	}
	for (size_t i = p->contexts_count; i-- > 0 && !err;) {
		struct call_node *parent = nodes[i].parent < 0 ? NULL : &nodes[nodes[i].parent];

		if (parent &&
		    __builtin_add_overflow(parent->all_ns, nodes[i].all_ns, &parent->all_ns))
			parent->all_ns = UINT64_MAX;
	}
	map64_clear(&places);
	return err;
}

/* Before all nodes of functions. */
static void add_rest(struct flame *flame, const char *name, uint64_t ns)
{
	if (!ns)
		return;
	flame_node(flame, -1, chart_name(&flame->names, name), &ns);
	flame->rest_count++;
}

static void chart_calls(struct text *into, const struct profile *profile, const struct chart *chart)
{
	const struct profile_process *p = chart->process;
	struct call_node *nodes = calloc(p->contexts_count + 1, sizeof(*nodes));
	struct flame flame = {.kinds = {"Time"}};
	double all_ns = 0;

	if (!nodes || sum_calls(p, nodes)) {
		into->failed = true;
		goto out;
	}
	if (p->untraced.tid) {
		flame.whole = profile_wall_ns(p);
		add_rest(&flame, PROFILE_UNTRACED_NAME, p->untraced.self_ns);
		add_rest(&flame, PROFILE_RUNNING_NAME, p->untraced.running_ns);
	}
	for (size_t i = 0; i < p->contexts_count; i++)
		all_ns += nodes[i].parent < 0 ? (double)nodes[i].all_ns : 0;
	for (size_t i = 0; i < p->contexts_count; i++) {
		const struct profile_context *context = &p->contexts[i];
		const struct profile_function *function =
			profile_function(profile, context->function);
		long parent = nodes[i].parent < 0 ? -1 : nodes[nodes[i].parent].node;

		nodes[i].node = -1;
		if (json_array_size(flame.nodes) == NODES_MAX || !nodes[i].all_ns ||
		    (double)nodes[i].all_ns < all_ns * NODE_SHARE ||
		    (nodes[i].parent >= 0 && parent < 0))
			continue;
		nodes[i].node = flame_node(&flame, parent,
					   chart_name(&flame.names,
						      function ? function_label(function) : ""),
					   &context->self_ns);
	}
	/* Explains the sum and 100 %, which are those of the table of functions. */
	chart_open(into, "flame",
		   "Time by calling context: callers above, callees below. Threads add up");
	if (p->untraced.tid)
		text_printf(into,
			    ": thread %u with its untraced time, other threads without. "
			    "100&nbsp;%% is the wall time of the process, %s",
			    p->untraced.tid, as_ns(profile_wall_ns(p)));
	text_add(into, ".");
	flame_end(into, &flame, "ns");
out:
	free(nodes);
}

/* Is the function among the frames? They may have arguments, too. */
static bool has_frame(const struct profile_hotspot *h, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < h->frames_count; i++) {
		const char *function = frame_label(h->frames[i]);

		if (!strncmp(function, name, length) &&
		    (!function[length] || function[length] == '('))
			return true;
	}
	return false;
}

/* Outermost first; values: of the innermost frame. The script puts equal beginnings together. */
static void add_stack(struct flame *flame, long parent, const struct profile_frame *const *frames,
		      size_t count, const uint64_t *values, bool marks_python)
{
	for (size_t i = count; i-- > 0;) {
		size_t before = json_array_size(flame->names.list);
		struct text name = {0};
		uint32_t index;

		/* frames of one name are one, whatever their addresses */
		location_frame(&name, frames[i], LOCATION_BRIEF);
		index = chart_name(&flame->names, text_peek(&name));
		text_clear(&name);
		if (marks_python && index == before &&
		    frames[i]->language == PERFX_LANGUAGE_PYTHON) {
			flame->python = flame->python ?: json_array();
			json_array_append_new(flame->python, json_integer(index));
		}
		parent = flame_node(flame, parent, index, i ? NULL : values);
	}
	if (parent < 0)
		flame_node(flame, -1, chart_name(&flame->names, "(no stack)"), values);
}

static void chart_places(struct text *into, const struct profile *profile,
			 const struct chart *chart)
{
	const struct profile_memory *memory = chart->memory;
	bool held = memory->current_bytes != PROFILE_ABSENT;
	struct flame flame = {.kinds = {"Allocated"}};

	if (held)
		flame = (struct flame){.kinds = {"At peak", "Live", "Allocated"}};
	for (size_t i = 0; i < memory->hotspots_count && i < PLACES_MAX; i++) {
		const struct profile_hotspot *h = &memory->hotspots[i];
		const struct profile_function *function = profile_function(profile, h->function);
		const uint64_t allocated = h->allocated_bytes.value;
		const uint64_t values[] = {held ? h->live_at_peak_bytes : allocated, h->live_bytes,
					   allocated};
		long parent = -1;

		/* the traced function that ran stands for the callers that a short stack does not
		 * have */
		if (function && function_label(function)[0] &&
		    !has_frame(h, function_label(function)))
			parent = flame_node(&flame, -1,
					    chart_name(&flame.names, function_label(function)),
					    h->frames_count ? NULL : values);
		add_stack(&flame, parent, h->frames, h->frames_count, values, false);
	}
	chart_open(into, "\"flame memory\"", "Allocations (");
	text_printf(into,
		    "%s) by call stack: operators and callers above, the allocating function at "
		    "the bottom.",
		    memory_words(memory));
	flame_end(into, &flame, "B");
}

enum { SAMPLES_CPU, SAMPLES_WAITING, SAMPLES_SPINNING };

static void chart_samples(struct text *into, const struct profile *profile,
			  const struct chart *chart)
{
	const struct profile_process *p = chart->process;
	const struct profile_sampling *sampling = &profile->sampling;
	const struct spinning spinning = spinning_of(p);
	struct flame flame = {.kinds = {"CPU", "Waiting"}};

	for (size_t i = 0; i < p->samples.count && i < SAMPLES_MAX && !flame.part; i++)
		if (sample_spins(&spinning, &p->samples.list[i]))
			flame.kinds[flame.part = SAMPLES_SPINNING] = "Spinning";
	for (size_t i = 0; i < p->samples.count && i < SAMPLES_MAX; i++) {
		const struct profile_activity *sample = &p->samples.list[i];
		const struct profile_stack *stack = sample->stack;
		bool on_cpu = sample->state == PERFX_SAMPLE_ON_CPU;
		const uint64_t values[KINDS_MAX] = {
			[SAMPLES_CPU] = on_cpu ? sample->ns : 0,
			[SAMPLES_WAITING] = on_cpu ? 0 : sample->ns,
			[SAMPLES_SPINNING] = sample_spins(&spinning, sample) ? sample->ns : 0};

		add_stack(&flame, -1, stack ? stack->frames : NULL, stack ? stack->frames_count : 0,
			  values, true);
	}
	chart_open(into, "flame", "Sampled time by call stack: callers above. Threads add up");
	if (sampling->on_cpu_interval_ns)
		text_printf(into, "; one sample every %s on the CPU",
			    as_ns(sampling->on_cpu_interval_ns));
	if (sampling->off_cpu_interval_ns)
		text_printf(into, ", every %s while waiting", as_ns(sampling->off_cpu_interval_ns));
	text_add(into, ".");
	if (flame.part)
		text_add(into, " Spinning is the part of CPU in which threads only waited there.");
	flame_end(into, &flame, "ns");
}

struct point {
	uint64_t time_ns, value;
};

static void add_percent_value(struct text *into, uint64_t value)
{
	text_printf(into, "%llu %%", (unsigned long long)value);
}

/* A series over time; takes the points (NULL: out of memory) and the title. */
static void add_series(struct text *into, struct text *title, struct point *points, size_t count,
		       const struct profile_process *p,
		       void (*add_value)(struct text *into, uint64_t value))
{
	uint64_t most = 0, most_ns = 0, wall_ns = profile_wall_ns(p);

	for (size_t i = 0; points && i < count; i++) {
		if (points[i].value <= most && i)
			continue;
		most = points[i].value;
		most_ns = points[i].time_ns > p->from_ns ? points[i].time_ns - p->from_ns : 0;
	}
	if (most && wall_ns) {
		chart_open(into, "series", text_peek(title));
		text_add(into, ": at most ");
		add_value(into, most);
		text_printf(into, ", at %s</figcaption><div class=plot>", as_ns(most_ns));
		text_add(into, "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=none "
			       "aria-hidden=true><path d=\"");
		for (size_t i = 0; i < count; i++) {
			double x = points[i].time_ns > p->from_ns
					   ? (double)(points[i].time_ns - p->from_ns)
					   : 0;
			double y = (double)points[i].value / (double)most;

			text_printf(into, "%s%.1f %.1f", i ? "L" : "M", 1000 * x / (double)wall_ns,
				    100 - 100 * y);
		}
		text_add(into, "\"/></svg>");
		text_printf(into,
			    "</div><div class=axis><span>0</span><span>%s</span></div></figure>\n",
			    as_ns(wall_ns));
	}
	into->failed |= !points || title->failed;
	text_clear(title);
	free(points);
}

static void add_gpu_series(struct text *into, const struct profile_process *p,
			   const struct profile_gpu_device *device, bool memory)
{
	struct point *points = calloc(device->points_count + 1, sizeof(*points));
	struct text title = {0};
	size_t count = 0;

	for (size_t i = 0; i < device->points_count && points; i++) {
		const struct profile_gpu_point *from = &device->points[i];

		if (memory && from->memory_used_bytes != UINT64_MAX)
			points[count++] = (struct point){from->time_ns, from->memory_used_bytes};
		if (!memory && from->utilisation_percent != UINT32_MAX)
			points[count++] = (struct point){from->time_ns, from->utilisation_percent};
	}
	text_printf(&title, "%s of GPU %u over time", memory ? "Memory used" : "Utilization",
		    device->index);
	add_series(into, &title, points, count > 1 ? count : 0, p,
		   memory ? add_bytes : add_percent_value);
}

static void chart_gpus(struct text *into, const struct profile *profile, const struct chart *chart)
{
	const struct profile_gpu *gpu = &chart->process->gpu;

	(void)profile;
	for (size_t i = 0; i < gpu->places_count; i++)
		for (int memory = 0; memory < 2; memory++)
			add_gpu_series(into, chart->process, gpu->places[i].device, memory);
}

static void chart_resident(struct text *into, const struct profile *profile,
			   const struct chart *chart)
{
	const struct profile_process *p = chart->process;
	struct point *points = calloc(p->points_count + 1, sizeof(*points));
	struct text title = {0};
	size_t count = 0;

	(void)profile;
	for (size_t i = 0; i < p->points_count && points; i++)
		if (p->points[i].rss_bytes != PROFILE_ABSENT)
			points[count++] =
				(struct point){p->points[i].time_ns, p->points[i].rss_bytes};
	text_add(&title, "Resident memory over time");
	add_series(into, &title, points, count > 1 ? count : 0, p, add_bytes);
}

/* The reading at an index; the last one may have been thinned out. */
static const struct perfx_memory_sum *reading_at(const struct profile_memory_sums *sums, size_t i)
{
	return i < sums->points_count ? &sums->points[i] : &sums->last;
}

/* The upper edges of the areas, from the first part up to this one, at a reading. */
static double stacked(const struct perfx_memory_sum *sum, int parts)
{
	double bytes = 0;

	for (int i = 0; i < parts; i++)
		bytes += (double)sum->resident[i];
	return bytes;
}

/* Parts of resident memory, one area on top of the other. */
static void chart_memory_sum(struct text *into, const struct profile *profile,
			     const struct chart *chart)
{
	const struct profile_memory_sums *sums = chart->process->memory_sums;
	uint64_t from_ns = sums->first.time_ns, wall_ns = sums->last.time_ns - from_ns;
	double most = (double)memory_sum_resident(&sums->peak);

	if (!wall_ns || most <= 0)
		return;
	chart_open(into, "\"series stacked\"", "What resident memory consists of: ");
	for (int part = 0; part < PERFX_MEMORY_PARTS; part++)
		if (sums->peak.resident[part] || sums->last.resident[part])
			text_printf(into,
				    "<span class=key><span class=\"dot m%d\"></span>%s</span> ",
				    part, memory_part_words(part));
	text_add(into, "</figcaption><div class=plot><svg viewBox=\"0 0 1000 100\" "
		       "preserveAspectRatio=none aria-hidden=true>");
	for (int part = 0; part < PERFX_MEMORY_PARTS; part++) {
		text_printf(into, "<path class=m%d d=\"", part);
		for (size_t i = 0; i <= 2 * sums->points_count + 1; i++) {
			bool upper = i <= sums->points_count;
			const struct perfx_memory_sum *sum =
				reading_at(sums, upper ? i : 2 * sums->points_count + 1 - i);

			text_printf(into, "%s%.1f %.1f", i ? "L" : "M",
				    1000 * (double)(sum->time_ns - from_ns) / (double)wall_ns,
				    100 - 100 * stacked(sum, part + upper) / most);
		}
		text_add(into, "Z\"/>");
	}
	text_printf(into, "</svg></div><div class=axis><span>%s</span>",
		    as_ns(profile_since_start(profile, from_ns)));
	text_printf(into, "<span>%s</span></div></figure>\n",
		    as_ns(profile_since_start(profile, sums->last.time_ns)));
}

static void chart_held(struct text *into, const struct profile *profile, const struct chart *chart)
{
	const struct profile_memory *memory = chart->memory;
	struct point *points = calloc(memory->points_count + 1, sizeof(*points));
	bool held = memory->current_bytes != PROFILE_ABSENT;
	struct text title = {0};

	(void)profile;
	text_printf(&title, "%s over time (%s)", held ? "Live" : "Allocated so far",
		    memory_words(memory));
	for (size_t i = 0; i < memory->points_count && points; i++)
		points[i] = (struct point){memory->points[i].time_ns,
					   held ? memory->points[i].live_bytes
						: memory->points[i].allocated_bytes};
	add_series(into, &title, points, memory->points_count, chart->process, add_bytes);
}

/*
 * The steps as SVG: a bar for each, in the order of time, divided by what its time went into; with
 * more of them than bars fit, a bar is the mean of some that follow each other, and a line above it
 * reaches to the longest. Slow ones have a mark. Pointing at a bar shows its numbers; the table
 * below has the same.
 */

/* Of the drawing, and of the plot in it: the rest is for labels. */
#define STEPS_WIDTH  960
#define STEPS_HEIGHT 230
#define STEPS_LEFT   70
#define STEPS_RIGHT  880
#define STEPS_TOP    22
#define STEPS_BOTTOM 190
#define LABEL_DOWN   18
#define BARS_MAX     220
#define BAR_WIDTH    26.0 /* at most */
#define TICKS	     4
/* A step far beyond the others would press them flat: it is cut there, marked, and named. */
#define CUT 5

struct steps_drawing {
	struct text *into;
	const struct profile *profile;
	const struct profile_steps *steps;
	struct profile_step bars[BARS_MAX];
	uint64_t first[BARS_MAX]; /* number of a bar's first step */
	size_t bars_count;
	double slot;   /* width of a bar, with the gap behind it */
	double top_ns; /* at STEPS_TOP */
};

static void put_together(struct steps_drawing *d)
{
	const struct profile_steps *steps = d->steps;
	size_t each = (steps->series_count + BARS_MAX - 1) / BARS_MAX;
	uint64_t number = 1;

	for (size_t i = 0; i < steps->series_count; i++) {
		const struct profile_step *step = &steps->series[i];
		struct profile_step *bar = &d->bars[i / each];

		if (i % each == 0) {
			d->first[d->bars_count++] = number;
			*bar = (struct profile_step){.from_ns = step->from_ns};
		}
		bar->count += step->count;
		bar->to_ns = step->to_ns;
		bar->total_ns += step->total_ns;
		bar->max_ns = step->max_ns > bar->max_ns ? step->max_ns : bar->max_ns;
		for (int phase = 0; phase < PROFILE_PHASES; phase++)
			bar->phases[phase] += step->phases[phase];
		bar->computed_count += step->computed_count;
		bar->flops += step->flops;
		number += step->count;
	}
}

static double steps_down(const struct steps_drawing *d, double ns)
{
	double share = ns / d->top_ns;

	return STEPS_BOTTOM - (STEPS_BOTTOM - STEPS_TOP) * (share > 1 ? 1 : share);
}

static void draw_bar(struct steps_drawing *d, size_t i)
{
	const struct profile_step *bar = &d->bars[i];
	double width = d->slot > 4 ? d->slot - 1 : d->slot, x = STEPS_LEFT + d->slot * (double)i;
	double middle = x + width / 2, y = steps_down(d, (double)bar->max_ns), from_ns = 0;
	double mfu = steps_mfu(d->profile, d->steps, bar);
	struct text *into = d->into;

	text_printf(into, "<g><title>Step %llu", (unsigned long long)d->first[i]);
	if (bar->count > 1)
		text_printf(into, " to %llu, on average",
			    (unsigned long long)(d->first[i] + bar->count - 1));
	text_printf(into, ": %s", as_ns(bar->total_ns / bar->count));
	if (bar->count > 1)
		text_printf(into, ", longest %s", as_ns(bar->max_ns));
	text_printf(into, ", at %s", as_ns(profile_since_start(d->profile, bar->from_ns)));
	for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--)
		text_printf(into, "; %s %s", profile_phase_name((enum profile_phase)phase),
			    as_ns(bar->phases[phase] / bar->count));
	if (d->steps->cost.counted_count && bar->computed_count == bar->count)
		text_printf(into, "; %s", as_si((double)bar->flops / (double)bar->count, "FLOP"));
	if (mfu >= 0)
		text_printf(into, ", %s of the peak (MFU)", as_percent(mfu));
	text_add(into, "</title>");
	for (size_t k = 0; k < PROFILE_PHASES; k++) {
		enum profile_phase phase = profile_phases_in_order[k];
		double to_ns = from_ns + (double)bar->phases[phase] / (double)bar->count;
		double height = steps_down(d, from_ns) - steps_down(d, to_ns);

		if (height >= 0.05)
			text_printf(into, "<rect x=%.1f y=%.1f width=%.1f height=%.1f class=%s />",
				    x, steps_down(d, to_ns), width, height,
				    profile_phase_name(phase));
		from_ns = to_ns;
	}
	if (bar->count > 1)
		text_printf(into, "<path class=most d=\"M%.1f %.1fV%.1f\"/>", middle,
			    steps_down(d, (double)bar->total_ns / (double)bar->count), y);
	if (steps_slow(d->steps, bar))
		text_printf(into, "<path class=slow d=\"M%.1f %.1fl-4 -8h8z\"/>", middle, y - 3);
	text_add(into, "</g>");
}

static void chart_steps(struct text *into, const struct profile *profile, const struct chart *chart)
{
	static const double ticks[] = {1, 2, 5};
	struct steps_drawing d = {
		.into = into, .profile = profile, .steps = &chart->process->steps};
	double y, tick, power = 1, right;

	put_together(&d);
	d.top_ns = fmin((double)d.steps->max_ns, CUT * (double)d.steps->p95_ns);
	if (!d.bars_count || d.top_ns <= 0)
		return;
	d.slot = fmin((double)(STEPS_RIGHT - STEPS_LEFT) / (double)d.bars_count, BAR_WIDTH);
	right = STEPS_LEFT + d.slot * (double)d.bars_count;
	text_add(into, "<figure class=steps><figcaption>Steps, by phase: ");
	for (size_t i = 0; i < PROFILE_PHASES; i++) {
		const char *name = profile_phase_name(profile_phases_in_order[i]);

		text_printf(into, "<span class=key><span class=\"dot %s\"></span>%s</span> ", name,
			    name);
	}
	if (d.bars[0].count > 1)
		text_printf(into,
			    "Each bar is the mean of %llu steps, its line the longest of them. ",
			    (unsigned long long)d.bars[0].count);
	text_printf(into, "▾ marks steps longer than %.1f times the median%s.</figcaption>",
		    STEPS_SLOW,
		    (double)d.steps->max_ns > d.top_ns ? "; much longer bars are cut off at the top"
						       : "");
	text_printf(into,
		    "<div class=graph><svg viewBox=\"0 0 %d %d\" role=img aria-label=\"Duration of "
		    "each step in order of time; the numbers are in the table below\">",
		    STEPS_WIDTH, STEPS_HEIGHT);
	/* 1, 2 or 5 times a power of ten: TICKS of them at most */
	for (size_t i = 0; (tick = ticks[i] * power) * TICKS < d.top_ns; i = (i + 1) % 3)
		power *= i == 2 ? 10 : 1;
	for (double ns = 0; ns <= d.top_ns; ns += tick)
		text_printf(
			d.into,
			"<path class=grid d=\"M%d %.1fH%d\"/><text x=%d y=%.1f class=end>%s</text>",
			STEPS_LEFT, steps_down(&d, ns), STEPS_RIGHT, STEPS_LEFT - 6,
			steps_down(&d, ns) + 4, as_ns(u64_of(ns)));
	for (size_t i = 0; i < d.bars_count; i++)
		draw_bar(&d, i);
	y = steps_down(&d, (double)d.steps->p50_ns);
	text_printf(d.into,
		    "<path class=median d=\"M%d %.1fH%d\"/><text x=%d y=%.1f>median</text><text "
		    "x=%d y=%.1f>%s</text>",
		    STEPS_LEFT, y, STEPS_RIGHT, STEPS_RIGHT + 6, y - 2, STEPS_RIGHT + 6, y + 12,
		    as_ns(d.steps->p50_ns));
	text_printf(d.into, "<text x=%d y=%d>step 1</text>", STEPS_LEFT, STEPS_BOTTOM + LABEL_DOWN);
	if (right - STEPS_LEFT > 120)
		text_printf(d.into, "<text x=%.1f y=%d class=end>%llu</text>", right,
			    STEPS_BOTTOM + LABEL_DOWN, (unsigned long long)d.steps->count);
	text_add(into, "</svg></div></figure>\n");
}

/*
 * The roofline as SVG: both axes logarithmic, a line for each type of data that has a peak, a dot
 * and a letter for each function. The letters are those of the table below; pointing at a dot shows
 * its name.
 */

/* Of the drawing, and of the plot in it: the rest is for labels. */
#define ROOF_WIDTH  760
#define ROOF_HEIGHT 380
#define ROOF_LEFT   78
#define ROOF_RIGHT  740
#define ROOF_TOP    16
#define ROOF_BOTTOM 330
#define LETTER	    13	/* columns and lines that a letter takes */
#define LABEL	    140 /* columns that a roof's label takes */

struct roofline_drawing {
	struct text *into;
	struct plot_axis x, y;
};

static double on_axis(const struct plot_axis *axis, double value, double from, double to)
{
	double share = (log10(value) - axis->from) / (axis->to - axis->from);

	share = share < 0 ? 0 : share > 1 ? 1 : share;
	return from + share * (to - from);
}

static double roof_across(const struct roofline_drawing *d, double value)
{
	return on_axis(&d->x, value, ROOF_LEFT, ROOF_RIGHT);
}

static double roof_down(const struct roofline_drawing *d, double value)
{
	return on_axis(&d->y, value, ROOF_BOTTOM, ROOF_TOP);
}

/* From where it enters the plot to the ridge, and flat from there on. Its label stands to the left
 * of those that stand where its own would. */
static void draw_roof(struct roofline_drawing *d, const struct roof *roofs, size_t i)
{
	const struct roof *roof = &roofs[i];
	int labels = 0;
	double slope = roof->bytes_per_s, flat = roof->flops_per_s;
	double left = pow(10, d->x.from), low = pow(10, d->y.from), right = pow(10, d->x.to);
	double from = slope * left < low ? low / slope : left;
	double ridge = flat / slope;

	for (size_t k = 0; k < i; k++)
		labels += fabs(roof_down(d, roofs[k].flops_per_s) - roof_down(d, flat)) < LETTER;
	text_printf(d->into, "<path class=roof d=\"M%.1f %.1f", roof_across(d, from),
		    roof_down(d, slope * from));
	if (ridge > from)
		text_printf(d->into, "L%.1f %.1f", roof_across(d, ridge), roof_down(d, flat));
	text_printf(d->into, "L%.1f %.1f\"/><text x=%d y=%.1f class=end>%s %s</text>",
		    roof_across(d, right), roof_down(d, flat), ROOF_RIGHT - 4 - LABEL * labels,
		    roof_down(d, flat) - 6, name_of_dtype(roof->dtype), as_si(flat, "FLOP/s"));
}

static void draw_points(struct roofline_drawing *d, const struct profile *profile,
			const struct roofline_points *found)
{
	double letters[ROOFLINE_POINTS][2]; /* x, y */

	for (size_t i = 0; i < found->count; i++) {
		const struct roofline *line = &found->points[i].line;
		const char *bound = roofline_class_name(line->bound);
		double x = roof_across(d, line->intensity), y = roof_down(d, line->flops_per_s);
		const struct profile_function *function;
		struct text shown = {0};

		/* to the right of the dot; further right where another letter is */
		letters[i][0] = x + 8;
		letters[i][1] = y + 4;
		for (size_t k = 0; k < i; k++) {
			if (fabs(letters[k][0] - letters[i][0]) >= LETTER ||
			    fabs(letters[k][1] - letters[i][1]) >= LETTER)
				continue;
			letters[i][0] = letters[k][0] + LETTER;
			k = (size_t)-1; /* check all again */
		}
		text_printf(d->into, "<g class=%s>", bound ? bound : "unknown");
		function = profile_function(profile, found->points[i].row->function);
		escape_display(&shown, function && function_label(function)[0]
					       ? function_label(function)
					       : "?");
		text_add(d->into, "<title>");
		escape_html(d->into, text_peek(&shown));
		text_add(d->into, "</title>");
		text_finish(&shown, &d->into->failed);
		text_printf(d->into,
			    "<circle cx=%.1f cy=%.1f r=5 /><text x=%.1f y=%.1f>%c</text></g>", x, y,
			    letters[i][0], letters[i][1], plot_label(i));
	}
}

static void chart_roofline(struct text *into, const struct profile *profile,
			   const struct chart *chart)
{
	struct roofline_drawing d = {.into = into};
	struct roofline_points found;

	roofline_points_find(&found, profile, chart->process);
	if (!found.count || !found.roofs_count)
		return;
	plot_axes(&d.x, &d.y, &found);
	text_printf(into,
		    "<figure class=roofline><figcaption>Roofline: the functions of the table below "
		    "and the peaks of this host; hollow: below %.0f %% of the "
		    "roof.</figcaption><div class=graph><svg viewBox=\"0 0 %d %d\" role=img "
		    "aria-label=\"FLOP/s by FLOP/byte; the numbers are in the table below\">",
		    ROOFLINE_OVERHEAD_SHARE * 100, ROOF_WIDTH, ROOF_HEIGHT);
	for (double power = d.x.from; power <= d.x.to; power++) {
		double x = roof_across(&d, pow(10, power));

		text_printf(into,
			    "<path class=grid d=\"M%.1f %dV%d\"/><text x=%.1f y=%d "
			    "class=mid>%.10g</text>",
			    x, ROOF_TOP, ROOF_BOTTOM, x, ROOF_BOTTOM + LABEL_DOWN, pow(10, power));
	}
	for (double power = d.y.from; power <= d.y.to; power++) {
		double y = roof_down(&d, pow(10, power));

		text_printf(
			into,
			"<path class=grid d=\"M%d %.1fH%d\"/><text x=%d y=%.1f class=end>%s</text>",
			ROOF_LEFT, y, ROOF_RIGHT, ROOF_LEFT - 8, y + 4,
			plot_power((char[UNITS_MAX]){0}, power));
	}
	text_printf(into,
		    "<text x=%d y=%d class=mid>FLOP/byte</text><text transform=\"translate(14 %d) "
		    "rotate(-90)\" class=mid>FLOP/s</text>",
		    (ROOF_LEFT + ROOF_RIGHT) / 2, ROOF_BOTTOM + 2 * LABEL_DOWN + 4,
		    (ROOF_TOP + ROOF_BOTTOM) / 2);
	for (size_t i = 0; i < found.roofs_count; i++)
		draw_roof(&d, found.roofs, i);
	draw_points(&d, profile, &found);
	text_add(into, "</svg></div></figure>\n");
}

void html_chart(struct text *into, const struct profile *profile, const struct chart *chart)
{
	static void (*const charts[])(struct text * into, const struct profile *profile,
				      const struct chart *chart) = {
		[CHART_CALLS] = chart_calls,
		[CHART_RESIDENT] = chart_resident,
		[CHART_HELD] = chart_held,
		[CHART_PLACES] = chart_places,
		[CHART_SAMPLES] = chart_samples,
		[CHART_STEPS] = chart_steps,
		[CHART_GPU] = chart_gpus,
		[CHART_ROOFLINE] = chart_roofline,
		[CHART_MEMORY_SUM] = chart_memory_sum,
		[CHART_TIMELINE] = chart_timeline,
	};

	charts[chart->kind](into, profile, chart);
}
