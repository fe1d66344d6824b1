// SPDX-License-Identifier: BSD-2-Clause
/*
 * The JSON report, "perfx.report/1": a contract, so fields are only ever added. Integers are
 * nanoseconds and bytes; what was not measured is left out. Rows of long arrays are written one by
 * one, so that memory does not grow with the report:
 *
 *     "overhead": {
 *       "hits": 24690,
 *       "probes": [
 *         {"name": "gemm", "module": "libblas.so.3", "offset": 4096, …},
 *         {"name": "gemm", …}
 *       ]
 *     },
 */
#include "report/writers.h"

#include "base/escape.h"
#include "base/shell.h"
#include "base/text.h"
#include "base/utf8.h"
#include "decode/names.h"

#include <errno.h>
#include <jansson.h>

/* --- laying out ----------------------------------------------------------------------------- */

struct output {
	FILE *file;
	unsigned depth;
	bool first; /* nothing stands in the innermost container yet */
	int err;
};

static void begin_item(struct output *o, const char *key)
{
	fputs(o->first ? "\n" : ",\n", o->file);
	for (unsigned i = 0; i < o->depth; i++)
		fputs("  ", o->file);
	if (key)
		fprintf(o->file, "\"%s\": ", key);
	o->first = false;
}

static void open_container(struct output *o, const char *key, char bracket)
{
	if (o->depth)
		begin_item(o, key);
	fputc(bracket, o->file);
	o->depth++;
	o->first = true;
}

static void close_container(struct output *o, char bracket)
{
	o->depth--;
	if (!o->first) {
		fputc('\n', o->file);
		for (unsigned i = 0; i < o->depth; i++)
			fputs("  ", o->file);
	}
	fputc(bracket, o->file);
	o->first = false;
}

/* Writes a value on one line and takes it; NULL says that memory was out. */
static void put(struct output *o, const char *key, json_t *value)
{
	if (!value) {
		o->err = -ENOMEM;
		return;
	}
	begin_item(o, key);
	if (json_dumpf(value, o->file, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)))
		o->err = errno ? -errno : -EIO;
	json_decref(value);
}

/* --- values --------------------------------------------------------------------------------- */

static json_t *integer(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* What a traced process wrote may be no UTF-8. */
static json_t *string(const char *value)
{
	struct text text = {0};
	json_t *json = NULL;

	utf8_repair(&text, value);
	if (!text.failed)
		json = json_string(text_peek(&text));
	text_clear(&text);
	return json;
}

static json_t *sentence(const char *value)
{
	struct text text = {0};
	json_t *json = NULL;

	escape_unmarked(&text, value);
	if (!text.failed)
		json = json_string(text_peek(&text));
	text_clear(&text);
	return json;
}

/* Sets an integer in an object, unless it was not measured. */
static void set_measured(json_t *object, const char *key, uint64_t value)
{
	if (value != PROFILE_ABSENT)
		json_object_set_new(object, key, integer(value));
}

static void put_measured(struct output *o, const char *key, uint64_t value)
{
	if (value != PROFILE_ABSENT)
		put(o, key, integer(value));
}

/* --- the report's parts --------------------------------------------------------------------- */

/* A command line of the recording shell → its arguments. */
static json_t *arguments_of_line(const char *line)
{
	json_t *array = json_array();
	struct text word = {0};

	while (array && (line = shell_word(&word, line))) {
		json_array_append_new(array, string(text_peek(&word)));
		text_clear(&word);
	}
	text_clear(&word);
	return array;
}

static json_t *arguments_of_process(const char *cmdline)
{
	json_t *array = json_array();
	struct text word = {0};

	if (!array || !*cmdline)
		return array;
	for (const char *p = cmdline;; p++) {
		if (*p && *p != PROFILE_ARGUMENT_END) {
			text_add_bytes(&word, p, 1);
			continue;
		}
		json_array_append_new(array, string(text_peek(&word)));
		text_clear(&word);
		if (!*p)
			return array;
	}
}

static void put_tool(struct output *o, const struct profile *p)
{
	open_container(o, "tool", '{');
	put(o, "name", json_string("perfx-trace"));
	put(o, "version", string(p->tool_version));
	put(o, "command", arguments_of_line(p->command));
	close_container(o, '}');
}

static void put_capture(struct output *o, const struct profile *p)
{
	json_t *reasons = json_array();

	if (p->partial & PROFILE_PARTIAL_KILLED)
		json_array_append_new(reasons, json_string("target_killed"));
	if (p->partial & PROFILE_PARTIAL_TRUNCATED)
		json_array_append_new(reasons, json_string("truncated"));
	if (p->partial & PROFILE_PARTIAL_LOSSY)
		json_array_append_new(reasons, json_string("lossy"));
	open_container(o, "capture", '{');
	put(o, "start_unix_ns", integer(p->start_unix_ns));
	put(o, "duration_ns", integer(p->duration_ns));
	put(o, "partial", json_boolean(p->partial != 0));
	put(o, "partial_reasons", reasons);
	open_container(o, "host", '{');
	put(o, "name", string(p->host_name));
	put(o, "kernel", string(p->kernel));
	put(o, "cpus", integer(p->cpus_count));
	if (p->memory_mib)
		put(o, "memory_bytes", integer((uint64_t)p->memory_mib << 20));
	if (p->boot_id[0])
		put(o, "boot_id", string(p->boot_id));
	close_container(o, '}');
	close_container(o, '}');
}

static void put_losses(struct output *o, const struct profile *p)
{
	open_container(o, "losses", '{');
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		put(o, name_of_loss(i), integer(p->losses[i]));
	close_container(o, '}');
}

static json_t *probe_object(const struct profile *p, const struct profile_probe *probe)
{
	const struct profile_function *function = profile_function(p, probe->function);
	json_t *object = json_object();

	json_object_set_new(object, "name", string(function ? function->name : ""));
	json_object_set_new(object, "module", string(function ? function->module_base : ""));
	json_object_set_new(object, "offset", integer(probe->offset));
	json_object_set_new(object, "link", json_string(name_of_link(probe->link)));
	json_object_set_new(object, "return", json_string(name_of_return(probe->ret)));
	json_object_set_new(object, "site", json_string(name_of_site(probe->site)));
	json_object_set_new(object, "at", json_string(probe->is_exit ? "exit" : "entry"));
	json_object_set_new(object, "hits", integer(probe->hits_count));
	if (probe->cost_ns > 0)
		json_object_set_new(object, "ns_per_hit", json_real(probe->cost_ns));
	return object;
}

static void put_overhead(struct output *o, const struct profile *p)
{
	open_container(o, "overhead", '{');
	put(o, "hits", integer(p->hits_count));
	if (p->hits_count && p->overhead_ns > 0)
		put(o, "ns_per_hit", json_real(p->overhead_ns / (double)p->hits_count));
	if (p->overhead_percent >= 0)
		put(o, "estimated_percent", json_real(p->overhead_percent));
	put(o, "compensated", json_boolean(p->compensated));
	put_measured(o, "tracer_cpu_ns", p->tracer_cpu_ns);
	put_measured(o, "tracer_rss_anon_bytes", p->tracer_rss_anon_bytes);
	open_container(o, "probes", '[');
	for (size_t i = 0; i < p->probes_count; i++)
		put(o, NULL, probe_object(p, &p->probes[i]));
	close_container(o, ']');
	close_container(o, '}');
}

static void put_not_attached(struct output *o, const struct profile *p)
{
	open_container(o, "not_attached", '[');
	for (size_t i = 0; i < p->not_attached_count; i++) {
		const struct profile_not_attached *row = &p->not_attached[i];
		json_t *object = json_object();

		json_object_set_new(object, "name", string(row->name));
		json_object_set_new(object, "reason", string(row->reason));
		json_object_set_new(object, "count", integer(row->count));
		put(o, NULL, object);
	}
	close_container(o, ']');
}

static json_t *caller_object(const struct profile *p, const struct profile_caller *caller,
			     bool timed)
{
	const struct profile_function *function = profile_function(p, caller->caller);
	json_t *object = json_object();

	if (function)
		json_object_set_new(object, "name", string(function->name));
	else if (caller->caller == PROFILE_CALLER_UNTRACED)
		json_object_set_new(object, "name", json_string("[untraced]"));
	else
		json_object_set_new(object, "name", json_string("[unknown]"));
	json_object_set_new(object, "calls", integer(caller->calls_count));
	if (timed)
		json_object_set_new(object, "total_ns", integer(caller->total_ns));
	return object;
}

static void set_times(json_t *object, const struct profile_row *row)
{
	if (!row->timed_count)
		return;
	set_measured(object, "total_ns", row->total_ns);
	set_measured(object, "self_ns", row->self_ns);
	set_measured(object, "avg_ns", row->avg_ns);
	set_measured(object, "min_ns", row->min_ns);
	set_measured(object, "max_ns", row->max_ns);
	if (row->stddev_ns >= 0)
		json_object_set_new(object, "stddev_ns", integer((uint64_t)(row->stddev_ns + 0.5)));
	set_measured(object, "p50_ns", row->p50_ns);
	set_measured(object, "p95_ns", row->p95_ns);
	set_measured(object, "p99_ns", row->p99_ns);
}

static json_t *function_object(const struct profile *p, const struct profile_row *row)
{
	const struct profile_function *function = profile_function(p, row->function);
	json_t *object = json_object(), *parents = json_array();

	if (!function)
		goto done;
	json_object_set_new(object, "name", string(function->name));
	json_object_set_new(object, "module", string(function->module_base));
	json_object_set_new(object, "path", string(function->module));
	json_object_set_new(object, "offset", integer(function->offset));
	json_object_set_new(object, "source", json_string(name_of_source(function->source)));
	json_object_set_new(object, "calls", integer(row->calls_count));
	json_object_set_new(object, "timed", integer(row->timed_count));
	json_object_set_new(object, "unwound", integer(row->unwound_count));
	json_object_set_new(object, "booked", integer(row->booked_count));
	set_times(object, row);
	json_object_set_new(object, "threads", integer(row->threads_count));
	for (size_t i = 0; i < row->callers_count; i++)
		json_array_append_new(parents,
				      caller_object(p, &row->callers[i], row->timed_count > 0));
done:
	json_object_set_new(object, "parents", parents);
	return object;
}

static json_t *thread_object(const struct profile_thread *thread)
{
	json_t *object = json_object();

	json_object_set_new(object, "tid", integer(thread->tid));
	json_object_set_new(object, "comm", string(thread->comm));
	if (thread->state)
		json_object_set_new(object, "state", json_stringn(&thread->state, 1));
	set_measured(object, "wall_ns", thread->wall_ns);
	set_measured(object, "on_cpu_ns", thread->on_cpu_ns);
	set_measured(object, "runnable_ns", thread->runnable_ns);
	set_measured(object, "blocked_ns", thread->blocked_ns);
	return object;
}

static json_t *finding_object(const struct finding *finding)
{
	json_t *object = json_object();

	json_object_set_new(object, "kind", json_string(finding->kind));
	json_object_set_new(object, "severity",
			    json_string(finding_severity_name(finding->severity)));
	json_object_set_new(object, "subject", sentence(finding->subject));
	json_object_set_new(object, "evidence", sentence(finding->evidence));
	json_object_set_new(object, "threshold", sentence(finding->threshold));
	json_object_set_new(object, "suggestion", sentence(finding->suggestion));
	json_object_set_new(object, "partial", json_boolean(finding->partial));
	return object;
}

static json_t *io_object(const struct profile_process *process)
{
	json_t *object = json_object();

	set_measured(object, "read_bytes", process->read_bytes);
	set_measured(object, "write_bytes", process->write_bytes);
	set_measured(object, "net_rx_bytes", process->net_rx_bytes);
	set_measured(object, "net_tx_bytes", process->net_tx_bytes);
	return object;
}

static void put_facts(struct output *o, const struct profile_process *process)
{
	json_t *io = io_object(process);

	put(o, "wall_ns", integer(profile_wall_ns(process)));
	put_measured(o, "cpu_user_ns", process->cpu_user_ns);
	put_measured(o, "cpu_system_ns", process->cpu_system_ns);
	put_measured(o, "rss_bytes", process->rss_bytes);
	put_measured(o, "rss_peak_bytes", process->rss_peak_bytes);
	put_measured(o, "rss_anon_bytes", process->rss_anon_bytes);
	put_measured(o, "rss_file_bytes", process->rss_file_bytes);
	put_measured(o, "rss_shmem_bytes", process->rss_shmem_bytes);
	put_measured(o, "major_faults", process->major_faults_count);
	put_measured(o, "throttled_ns", process->throttled_ns);
	if (json_object_size(io))
		put(o, "io", json_incref(io));
	json_decref(io);
	put(o, "unmatched_entries", integer(process->unmatched_entries));
	if (process->exited)
		put(o, "wait_status", json_integer(process->status));
}

static void put_process(struct output *o, const struct profile *p,
			const struct profile_process *process,
			const struct process_analysis *analysis)
{
	open_container(o, NULL, '{');
	put(o, "pid", integer(process->pid));
	put(o, "ppid", integer(process->ppid));
	if (process->start_boot_ns)
		put(o, "start_ns", integer(process->start_boot_ns));
	put(o, "exec", integer(process->exec_count));
	put(o, "comm", string(process->comm));
	put(o, "cmdline", arguments_of_process(process->cmdline));
	put_facts(o, process);
	open_container(o, "functions", '[');
	for (size_t i = 0; i < process->rows_count; i++)
		put(o, NULL, function_object(p, &process->rows[i]));
	close_container(o, ']');
	open_container(o, "threads", '[');
	for (size_t i = 0; i < process->threads_count; i++)
		put(o, NULL, thread_object(&process->threads[i]));
	close_container(o, ']');
	open_container(o, "findings", '[');
	for (size_t i = 0; i < analysis->findings_count; i++)
		put(o, NULL, finding_object(&analysis->findings[i]));
	close_container(o, ']');
	if (analysis->silence)
		put(o, "silence", sentence(analysis->silence));
	close_container(o, '}');
}

int report_write_json(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	struct output o = {.file = out};

	(void)options;
	open_container(&o, NULL, '{');
	put(&o, "schema", json_string("perfx.report/1"));
	put(&o, "verdict", sentence(analysis->verdict));
	put_tool(&o, profile);
	put_capture(&o, profile);
	put_losses(&o, profile);
	put_overhead(&o, profile);
	put_not_attached(&o, profile);
	open_container(&o, "processes", '[');
	for (size_t i = 0; i < profile->processes_count; i++)
		put_process(&o, profile, &profile->processes[i], &analysis->processes[i]);
	close_container(&o, ']');
	close_container(&o, '}');
	fputc('\n', out);
	if (!o.err && ferror(out))
		o.err = errno ? -errno : -EIO;
	return o.err;
}
