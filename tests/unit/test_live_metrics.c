// SPDX-License-Identifier: BSD-2-Clause
/* What a live recording tells Prometheus, and its page: by snapshots made by hand. */
#include "live_scene.h"
#include "serve/page.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct own_usage own = {.cpu_ns = 1500 * MS, .rss_bytes = 4096};

static char *written(struct live_metrics *metrics, const struct live_snapshot *snapshot)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_eq(live_metrics__write(metrics, out, snapshot, &own), 0);
	fclose(out);
	return text;
}

/* A new set of metrics, written once. */
static char *written_once(const struct live_snapshot *snapshot)
{
	struct live_metrics *metrics = live_metrics__new();
	char *text = written(metrics, snapshot);

	live_metrics__free(metrics);
	return text;
}

#define expect_line(text, line) cr_expect(has_line(text, line), "%s\nnot in\n%s", line, text)
#define expect_no(text, word)	cr_expect_null(strstr(text, word), "%s in\n%s", word, text)

static bool has_line(const char *text, const char *line)
{
	const char *found = strstr(text, line);
	size_t length = strlen(line);

	while (found && ((found != text && found[-1] != '\n') || found[length] != '\n'))
		found = strstr(found + 1, line);
	return found != NULL;
}

Test(live_metrics, has_what_the_run_has_counted)
{
	static const char *const lines[] = {
		"perfx_capture_duration_seconds{host=\"node3\"} 10.000000000",
		"perfx_processes 1",
		"perfx_processes_seen_total 3",
		"perfx_steps_total 70",
		"perfx_losses_total{kind=\"ring_drops\"} 5",
		"perfx_probe_hits_total 4000",
		"perfx_overhead_seconds_total 1.500000000",
		"perfx_tracer_cpu_seconds_total 1.500000000",
		"perfx_tracer_resident_bytes 4096",
		"perfx_snapshot_cpu_seconds_total 0.002000000",
		"# TYPE perfx_function_calls counter",
		"perfx_function_calls_total{module=\"/m\",function=\"f\",source=\"symbol\"} 1000",
		"perfx_function_calls_total{module=\"/m\",function=\"a\\\"b\\\\x0a\",source="
		"\"symbol\"} 3",
		"perfx_function_self_seconds_total{module=\"/m\",function=\"f\",source=\"symbol\"} "
		"1.000000000",
		"perfx_function_seconds_total{module=\"/m\",function=\"f\",source=\"symbol\"} "
		"2.000000000",
		"perfx_function_flops_total{module=\"/m\",function=\"f\",source=\"symbol\"} 12345",
		"# UNIT perfx_process_cpu_seconds seconds",
		"perfx_process_cpu_seconds_total{pid=\"42\",comm=\"python3\"} 9.000000000",
		"perfx_process_resident_bytes{pid=\"42\",comm=\"python3\"} 2000",
		"perfx_process_read_bytes_total{pid=\"42\",comm=\"python3\"} 11",
		"perfx_process_flops_total{pid=\"42\",comm=\"python3\"} 12345",
		"perfx_process_gpu_busy_seconds_total{pid=\"42\",comm=\"python3\"} 0.500000000",
		"perfx_step_seconds_sum{pid=\"42\",comm=\"python3\"} 7.000000000",
		"perfx_step_seconds_count{pid=\"42\",comm=\"python3\"} 70",
		"perfx_step_phase_seconds_total{pid=\"42\",comm=\"python3\",phase=\"data\"} "
		"3.000000000",
		"perfx_step_flops_total{pid=\"42\",comm=\"python3\"} 99",
		"perfx_waits_total{pid=\"42\",comm=\"python3\",reason=\"gil\"} 4",
		"perfx_wait_seconds_total{pid=\"42\",comm=\"python3\",reason=\"gil\"} 0.250000000",
		"perfx_memory_allocations_total{pid=\"42\",comm=\"python3\",domain=\"tensor\"} 8",
		"perfx_memory_allocated_bytes_total{pid=\"42\",comm=\"python3\",domain=\"tensor\"} "
		"800",
		"perfx_memory_live_bytes{pid=\"42\",comm=\"python3\",domain=\"tensor\"} 64",
	};
	struct live_scene s;
	char *text;

	live_scene(&s);
	text = written_once(&s.snapshot);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		expect_line(text, lines[i]);
	cr_expect_str_eq(text + strlen(text) - 6, "# EOF\n");
	/* what was not measured, and what there is none of */
	expect_no(text, "perfx_process_written_bytes_total{");
	expect_no(text, "function_flops_total{module=\"/m\",function=\"a");
	expect_no(text, "reason=\"read\"");
	free(text);
}

/* A counter that stood still would say that there are no calls. */
Test(live_metrics, has_no_series_of_what_is_not_measured)
{
	struct perfx_reduced reduced = {
		.function = 1, .to = PERFX_REDUCED_COUNTED, .loses_cost = true};
	struct live_scene s;
	char *text;

	live_scene(&s);
	text = written_once(&s.snapshot);
	expect_line(text, "perfx_function_self_seconds_total{module=\"/m\",function=\"f\","
			  "source=\"symbol\"} 1.000000000");
	expect_no(text, "perfx_function_self_seconds_total{module=\"/m\",function=\"a");
	free(text);
	s.profile.reduced = &reduced;
	s.profile.reduced_count = 1;
	s.live.flops_cut = true;
	text = written_once(&s.snapshot);
	expect_no(text, "perfx_function_self_seconds_total{");
	expect_no(text, "perfx_function_flops_total{");
	expect_no(text, "perfx_process_flops_total{");
	expect_no(text, "perfx_step_flops_total{");
	cr_expect_not_null(strstr(text, "perfx_function_calls_total{module=\"/m\",function=\"f\""));
	free(text);
	reduced.to = PERFX_REDUCED_REMOVED;
	text = written_once(&s.snapshot);
	expect_no(text, "perfx_function_calls_total{module=\"/m\",function=\"f\"");
	cr_expect_not_null(strstr(text, "perfx_wait"), "%s", text);
	free(text);
	reduced.function = 0;
	text = written_once(&s.snapshot);
	expect_no(text, "reason=");
	free(text);
}

Test(live_metrics, functions_that_look_the_same_are_one)
{
	char names[2][1001];
	struct live_scene s;
	char *text, *first;

	live_scene(&s);
	/* they differ where no label reaches */
	memset(names, 'x', sizeof(names));
	names[0][1000] = names[1][1000] = '\0';
	names[1][500] = 'y';
	s.functions[0].name = names[0];
	s.functions[1].name = names[1];
	text = written_once(&s.snapshot);
	first = strstr(text, "\nperfx_function_calls_total{");
	cr_assert_not_null(first);
	cr_expect_null(strstr(first + 1, "\nperfx_function_calls_total{"));
	cr_expect(strstr(text, "source=\"symbol\"} 1003\n"));
	cr_expect_lt(strcspn(first + 1, "\n"), 400u);
	free(text);
}

Test(live_metrics, time_on_a_gpu_adds_up_over_periods)
{
	struct live_metrics *metrics = live_metrics__new();
	struct live_scene s;
	char *text;

	live_scene(&s);
	free(written(metrics, &s.snapshot));
	s.snapshot.number = 2;
	text = written(metrics, &s.snapshot);
	expect_line(text, "perfx_process_gpu_busy_seconds_total{pid=\"42\",comm=\"python3\"} "
			  "1.000000000");
	expect_line(text, "perfx_snapshot_cpu_seconds_total 0.004000000");
	free(text);
	live_metrics__free(metrics);
}

#define MANY 300

struct many {
	struct live_scene scene;
	struct profile_process of[MANY];
	struct live_process live[MANY];
};

static void many(struct many *m, uint32_t first_pid, size_t count)
{
	live_scene(&m->scene);
	for (size_t i = 0; i < count; i++) {
		m->of[i] = m->scene.process;
		m->of[i].pid = first_pid + (uint32_t)i;
		m->live[i] = m->scene.live;
		m->live[i].process = &m->of[i];
	}
	m->scene.snapshot.processes = m->live;
	m->scene.snapshot.processes_count = count;
}

static size_t count_of(const char *text, const char *word)
{
	size_t count = 0;

	while ((text = strstr(text, word))) {
		count++;
		text++;
	}
	return count;
}

#define SERIES "\nperfx_step_seconds_count{"

Test(live_metrics, processes_are_bounded_and_keep_their_series)
{
	struct live_metrics *metrics = live_metrics__new();
	struct many *m = malloc(sizeof(*m));
	char *text;

	many(m, 1000, MANY);
	text = written(metrics, &m->scene.snapshot);
	cr_expect_eq(count_of(text, SERIES), LIVE_METRICS_PROCESSES_MAX);
	expect_line(text, "perfx_processes 300");
	free(text);
	/* in another order the same ones are shown */
	for (size_t i = 0; i < MANY; i++)
		m->live[i].process = &m->of[MANY - 1 - i];
	text = written(metrics, &m->scene.snapshot);
	cr_expect_eq(count_of(text, SERIES), LIVE_METRICS_PROCESSES_MAX);
	cr_expect(strstr(text, SERIES "pid=\"1000\""));
	cr_expect_null(strstr(text, SERIES "pid=\"1299\""));
	free(text);
	/* when they are gone, there is room */
	many(m, 1200, 50);
	text = written(metrics, &m->scene.snapshot);
	cr_expect_eq(count_of(text, SERIES), 50);
	cr_expect_null(strstr(text, SERIES "pid=\"1000\""));
	free(text);
	live_metrics__free(metrics);
	free(m);
}

Test(live_metrics, of_two_with_one_pid_the_younger_is_shown)
{
	struct many *m = malloc(sizeof(*m));
	char *text;

	many(m, 42, 2);
	m->of[1].pid = 42;
	m->of[0].start_boot_ns = 5;
	m->of[0].exited = true;
	m->of[1].start_boot_ns = 6;
	m->live[1].steps_count = 3;
	text = written_once(&m->scene.snapshot);
	cr_expect_eq(count_of(text, SERIES), 1);
	expect_line(text, "perfx_step_seconds_count{pid=\"42\",comm=\"python3\"} 3");
	expect_line(text, "perfx_processes 1");
	free(text);
	free(m);
}

Test(live_metrics, an_ended_process_has_no_memory_but_its_counters)
{
	struct live_scene s;
	char *text;

	live_scene(&s);
	s.process.exited = true;
	text = written_once(&s.snapshot);
	expect_no(text, "perfx_process_resident_bytes{");
	expect_no(text, "perfx_memory_live_bytes{");
	expect_line(text, "perfx_process_cpu_seconds_total{pid=\"42\",comm=\"python3\"} "
			  "9.000000000");
	free(text);
}

Test(live_metrics, prometheus_names_counters_with_their_suffix)
{
	static const char openmetrics[] = "# TYPE a counter\n# UNIT a seconds\n# HELP a All.\n"
					  "a_total{b=\"# TYPE\"} 1\n# TYPE c gauge\n"
					  "# HELP c Now.\nc 2\n# TYPE counter gauge\n# EOF\n";
	static const char prometheus[] = "# TYPE a_total counter\n# HELP a_total All.\n"
					 "a_total{b=\"# TYPE\"} 1\n# TYPE c gauge\n"
					 "# HELP c Now.\nc 2\n# TYPE counter gauge\n";
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_expect_eq(metrics_as_prometheus(out, openmetrics), 0);
	fclose(out);
	cr_expect_str_eq(text, prometheus);
	free(text);
}

Test(live_json, has_what_the_page_draws)
{
	struct live_scene s;
	json_t *json, *process, *history;
	char *text;

	live_scene(&s);
	s.process.comm = "\x1b[31m";
	text = live_json(&s.snapshot, &own);
	cr_assert_not_null(text);
	json = json_loads(text, 0, NULL);
	cr_assert_not_null(json, "%s", text);
	cr_expect_eq(json_integer_value(json_object_get(json, "since_start_ns")),
		     (json_int_t)(10 * S));
	process = json_array_get(json_object_get(json, "processes"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(process, "comm")), "\\x1b[31m");
	cr_expect_eq(
		json_integer_value(json_object_get(json_object_get(process, "phases"), "data")), 0);
	history = json_object_get(process, "history");
	cr_expect_eq(json_integer_value(json_array_get(json_object_get(history, "time_ns"), 1)),
		     (json_int_t)(10 * S));
	cr_expect(json_is_null(json_array_get(json_object_get(history, "step_ns"), 0)));
	cr_expect_str_eq(json_string_value(json_object_get(
				 json_array_get(json_object_get(json, "functions"), 0), "name")),
			 "f");
	cr_expect_eq(
		json_integer_value(json_object_get(json_object_get(json, "losses"), "ring_drops")),
		5);
	json_decref(json);
	free(text);
}
