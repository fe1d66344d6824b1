// SPDX-License-Identifier: BSD-2-Clause
/*
 * Charts. A series over time is drawn here, as a path in a box of 1000 × 100 that the page
 * stretches; numbers stand beside it as text. A flame graph is drawn by the script, for its boxes
 * depend on the width and on what was clicked; here is its data:
 *
 *     {"unit": "ns", "values": ["Time"], "names": ["main", "step"],
 *      "nodes": [[-1, 0, [100]], [0, 1, [900]], …],       parent, name, own value of each kind
 *      "rest": 1,         so many nodes, the first ones, are no functions: untraced time
 *      "whole": 10000}    what 100 % are; 0: the sum
 */
#include "report/html.h"

#include "analyze/location.h"
#include "base/escape.h"
#include "base/map64.h"
#include "base/units.h"
#include "report/json_output.h"

#include <stdlib.h>
#include <string.h>

/* A box narrower than a thousandth of the graph cannot be seen before it is enlarged; what is left
 * out is so much at most, and so many boxes are quick. */
#define NODE_SHARE 0.0005
#define NODES_MAX  10000
#define PLACES_MAX 1000

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

static json_t *name_of(const char *name)
{
	struct text shown = {0};
	json_t *json = NULL;

	escape_display(&shown, name[0] ? name : "?");
	if (!shown.failed)
		json = json_string(text_peek(&shown));
	text_clear(&shown);
	return json;
}

static void add_data(struct text *into, json_t *data)
{
	char *dumped = json_dumps(data, JSON_COMPACT);

	text_add(into, "<script type=\"application/json\">");
	if (dumped)
		html_json(into, dumped);
	else
		into->failed = true;
	text_add(into, "</script>");
	free(dumped);
	json_decref(data);
}

static void open_chart(struct text *into, const char *kind, const char *caption)
{
	text_printf(into, "<figure class=%s><figcaption>%s", kind, caption);
}

/* --- flame graphs ----------------------------------------------------------------------------- */

/* A graph's data while it is filled. */
struct flame {
	json_t *names, *nodes;
	struct map64 functions; /* function id or frame → index of its name */
	size_t names_count, nodes_count;
	size_t rest_count; /* of the nodes, the first */
	uint64_t whole;
};

static void flame_new(struct flame *flame)
{
	*flame = (struct flame){.names = json_array(), .nodes = json_array()};
}

/* The name's index; key: the same for the same name. */
static uint32_t flame_name(struct flame *flame, uint64_t key, const char *name)
{
	uint32_t index = map64_get(&flame->functions, key);

	if (index != MAP64_NONE)
		return index;
	index = (uint32_t)flame->names_count;
	if (!map64_put(&flame->functions, key, index)) {
		json_array_append_new(flame->names, name_of(name));
		flame->names_count++;
	}
	return index;
}

/* Takes values. Returns the node's index. */
static long flame_node(struct flame *flame, long parent, uint32_t name, json_t *values)
{
	json_array_append_new(flame->nodes,
			      json_pack("[I,I,o]", (json_int_t)parent, (json_int_t)name, values));
	return (long)flame->nodes_count++;
}

/* Takes values, the kinds of numbers. */
static void flame_end(struct text *into, struct flame *flame, const char *unit, json_t *values)
{
	json_t *data =
		json_pack("{s:s,s:o,s:o,s:o,s:I,s:o}", "unit", unit, "values", values, "names",
			  flame->names, "nodes", flame->nodes, "rest",
			  (json_int_t)flame->rest_count, "whole", json_of_integer(flame->whole));

	text_add(into, "</figcaption><div class=graph></div>"
		       "<noscript><p class=note>Drawn by a script.</p></noscript>");
	if (data)
		add_data(into, data);
	else
		into->failed = true;
	text_add(into, "</figure>\n");
	map64_clear(&flame->functions);
}

/* Calling contexts with what they and all below took. */
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

/* Before all nodes of functions. Ids of functions are below 2^32. */
static void add_rest(struct flame *flame, const char *name, uint64_t ns)
{
	if (!ns)
		return;
	flame_node(flame, -1, flame_name(flame, UINT64_MAX - flame->rest_count, name),
		   json_pack("[o]", json_of_integer(ns)));
	flame->rest_count++;
}

/* What all is, and what 100 % are: as in the table of functions. */
static void add_calls_caption(struct text *into, const struct profile_process *p)
{
	char wall[UNITS_MAX];

	open_chart(into, "flame",
		   "Time by calling context: callers above, callees below. Threads add up");
	if (p->untraced.tid)
		text_printf(into,
			    ": all of the time of thread %u, and of the other threads what was "
			    "traced. 100&nbsp;%% are %s, the process's wall time",
			    p->untraced.tid, format_ns(wall, profile_wall_ns(p)));
	text_add(into, ".");
}

static void add_calls(struct text *into, const struct profile *profile,
		      const struct profile_process *p, struct call_node *nodes)
{
	struct flame flame;
	double all_ns = 0;

	flame_new(&flame);
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
		if (flame.nodes_count == NODES_MAX || !nodes[i].all_ns ||
		    (double)nodes[i].all_ns < all_ns * NODE_SHARE ||
		    (nodes[i].parent >= 0 && parent < 0))
			continue;
		nodes[i].node = flame_node(&flame, parent,
					   flame_name(&flame, context->function,
						      function ? function->name : ""),
					   json_pack("[o]", json_of_integer(context->self_ns)));
	}
	add_calls_caption(into, p);
	flame_end(into, &flame, "ns", json_pack("[s]", "Time"));
}

static void chart_calls(struct text *into, const struct profile *profile,
			const struct profile_process *p)
{
	struct call_node *nodes = calloc(p->contexts_count + 1, sizeof(*nodes));

	if (!nodes || sum_calls(p, nodes))
		into->failed = true;
	else
		add_calls(into, profile, p, nodes);
	free(nodes);
}

static json_t *values_of(const struct profile_hotspot *h, bool held, bool own)
{
	if (!held)
		return json_pack("[o]", json_of_integer(own ? h->allocated_bytes.value : 0));
	return json_pack("[o,o,o]", json_of_integer(own ? h->live_at_peak_bytes : 0),
			 json_of_integer(own ? h->live_bytes : 0),
			 json_of_integer(own ? h->allocated_bytes.value : 0));
}

/* Is the function among the frames? They may have arguments, too. */
static bool has_frame(const struct profile_hotspot *h, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < h->frames_count; i++) {
		const char *function = h->frames[i]->function;

		if (!strncmp(function, name, length) &&
		    (!function[length] || function[length] == '('))
			return true;
	}
	return false;
}

/* The traced function that ran stands for the callers that a short stack does not have. */
static long add_operator(struct flame *flame, const struct profile *profile,
			 const struct profile_hotspot *h, bool held)
{
	const struct profile_function *function = profile_function(profile, h->function);

	if (!function || !function->name[0] || has_frame(h, function->name))
		return -1;
	return flame_node(flame, -1,
			  flame_name(flame, (uint64_t)(uintptr_t)function->name, function->name),
			  values_of(h, held, !h->frames_count));
}

/* Outermost first. The script puts equal beginnings together. */
static void add_place(struct flame *flame, const struct profile *profile,
		      const struct profile_hotspot *h, bool held)
{
	long parent = add_operator(flame, profile, h, held);

	for (size_t i = h->frames_count; i-- > 0;) {
		struct text name = {0};

		location_frame(&name, h->frames[i], LOCATION_BRIEF);
		parent = flame_node(flame, parent,
				    flame_name(flame, (uint64_t)(uintptr_t)h->frames[i],
					       text_peek(&name)),
				    values_of(h, held, i == 0));
		text_clear(&name);
	}
	if (parent < 0)
		flame_node(flame, -1, flame_name(flame, 0, "stack not known"),
			   values_of(h, held, true));
}

static void chart_places(struct text *into, const struct profile *profile,
			 const struct profile_memory *memory)
{
	bool held = memory->current_bytes != PROFILE_ABSENT;
	struct flame flame;

	flame_new(&flame);
	for (size_t i = 0; i < memory->hotspots_count && i < PLACES_MAX; i++)
		add_place(&flame, profile, &memory->hotspots[i], held);
	open_chart(into, "\"flame memory\"", "Who allocates (");
	text_add(into, domain_words(memory->domain));
	text_add(into, "): operators and callers above, the place itself at the bottom.");
	flame_end(into, &flame, "B",
		  held ? json_pack("[s,s,s]", "At peak", "Live", "Allocated")
		       : json_pack("[s]", "Allocated"));
}

/* --- over time -------------------------------------------------------------------------------- */

struct point {
	uint64_t time_ns, value;
};

static void add_path(struct text *into, const struct point *points, size_t count, uint64_t from_ns,
		     uint64_t wall_ns, uint64_t most)
{
	text_add(into, "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=none "
		       "aria-hidden=true><path d=\"");
	for (size_t i = 0; i < count; i++) {
		double x = points[i].time_ns > from_ns ? (double)(points[i].time_ns - from_ns) : 0;
		double y = (double)points[i].value / (double)most;

		text_printf(into, "%s%.1f %.1f", i ? "L" : "M", 1000 * x / (double)wall_ns,
			    100 - 100 * y);
	}
	text_add(into, "\"/></svg>");
}

/* Levels, steps between them and what is on the axes. */
static void add_series(struct text *into, const char *title, const struct point *points,
		       size_t count, const struct profile_process *p)
{
	uint64_t most = 0, most_ns = 0, wall_ns = profile_wall_ns(p);
	char bytes[UNITS_MAX], at[UNITS_MAX], wall[UNITS_MAX];

	for (size_t i = 0; i < count; i++) {
		if (points[i].value <= most && i)
			continue;
		most = points[i].value;
		most_ns = points[i].time_ns > p->from_ns ? points[i].time_ns - p->from_ns : 0;
	}
	if (!most || !wall_ns)
		return;
	format_bytes(bytes, most);
	open_chart(into, "series", title);
	text_printf(into, ": at most %s, at %s</figcaption><div class=plot>", bytes,
		    format_ns(at, most_ns));
	add_path(into, points, count, p->from_ns, wall_ns, most);
	text_printf(into, "</div><div class=axis><span>0</span><span>%s</span></div></figure>\n",
		    format_ns(wall, wall_ns));
}

static void chart_resident(struct text *into, const struct profile_process *p)
{
	struct point *points = calloc(p->points_count + 1, sizeof(*points));
	size_t count = 0;

	if (!points) {
		into->failed = true;
		return;
	}
	for (size_t i = 0; i < p->points_count; i++) {
		if (p->points[i].rss_bytes != PROFILE_ABSENT)
			points[count++] =
				(struct point){p->points[i].time_ns, p->points[i].rss_bytes};
	}
	if (count > 1)
		add_series(into, "Resident memory over time", points, count, p);
	free(points);
}

static void chart_held(struct text *into, const struct profile_process *p,
		       const struct profile_memory *memory)
{
	struct point *points = calloc(memory->points_count + 1, sizeof(*points));
	bool held = memory->current_bytes != PROFILE_ABSENT;
	struct text title = {0};

	text_printf(&title, "%s over time (%s)", held ? "Live" : "Allocated so far",
		    domain_words(memory->domain));
	for (size_t i = 0; i < memory->points_count && points; i++)
		points[i] = (struct point){memory->points[i].time_ns,
					   held ? memory->points[i].live_bytes
						: memory->points[i].allocated_bytes};
	if (points)
		add_series(into, text_peek(&title), points, memory->points_count, p);
	into->failed |= !points || title.failed;
	text_clear(&title);
	free(points);
}

void html_chart(struct text *into, const struct profile *profile, const struct chart *chart)
{
	switch (chart->kind) {
	case CHART_CALLS:
		chart_calls(into, profile, chart->process);
		break;
	case CHART_RESIDENT:
		chart_resident(into, chart->process);
		break;
	case CHART_HELD:
		chart_held(into, chart->process, chart->memory);
		break;
	case CHART_PLACES:
		chart_places(into, profile, chart->memory);
		break;
	case CHART_STEPS:
		html_steps(into, profile, chart->process);
		break;
	case CHART_ROOFLINE:
		html_roofline(into, profile, chart->process);
		break;
	}
}
