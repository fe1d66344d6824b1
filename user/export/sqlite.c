// SPDX-License-Identifier: BSD-2-Clause
/*
 * A SQLite database (docs/sql.md): the report's tables, with the values of the JSON report, and the
 * single calls, samples and activities of GPUs. Rows are appended by prepared statements in one
 * transaction without a journal: if writing fails, the file is discarded as a whole.
 */
#include "analyze/analyze.h"
#include "analyze/location.h"
#include "base/escape.h"
#include "decode/decode.h"
#include "decode/names.h"
#include "export/formats.h"
#include "export/timeline.h"
#include "report/table/table.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_COLUMNS_MAX 64

struct sqlite {
	const struct export *export;
	sqlite3 *db;
	sqlite3_stmt *spans, *samples, *gpu_work;
	struct map64 places; /* process, id → profile->stacks[] */
	struct text text;
};

/* A column without a value is NULL: not measured. Times are ns from the start of the capture. */
static const char tables[] =
	"CREATE TABLE capture(schema TEXT, tool_version TEXT, command TEXT, host TEXT,"
	" kernel TEXT, boot_id TEXT, cpus INTEGER, memory_bytes INTEGER, start_unix_ns INTEGER,"
	" start_monotonic_ns INTEGER, duration_ns INTEGER, partial INTEGER, verdict TEXT,"
	" overhead_percent REAL, sample_ns INTEGER, wait_sample_ns INTEGER);"
	"CREATE TABLE losses(loss TEXT, count INTEGER);"
	"CREATE TABLE contexts(process INTEGER, context INTEGER, parent INTEGER, function INTEGER,"
	" calls INTEGER, total_ns INTEGER, self_ns INTEGER, caller TEXT);"
	"CREATE TABLE frames(frame INTEGER PRIMARY KEY, name TEXT, file TEXT, line INTEGER,"
	" module TEXT, offset INTEGER, language TEXT);"
	"CREATE TABLE stacks(stack INTEGER, depth INTEGER, frame INTEGER);"
	"CREATE TABLE spans(process INTEGER, tid INTEGER, function INTEGER, context INTEGER,"
	" depth INTEGER, start_ns INTEGER, duration_ns INTEGER, self_ns INTEGER,"
	" off_cpu_ns INTEGER, flops INTEGER, bytes INTEGER, unwound INTEGER);"
	"CREATE TABLE samples(process INTEGER, tid INTEGER, context INTEGER, stack INTEGER,"
	" time_ns INTEGER, interval_ns INTEGER, state TEXT, reason TEXT);"
	"CREATE TABLE gpu_work(process INTEGER, device INTEGER, stream INTEGER, name TEXT,"
	" op TEXT, start_ns INTEGER, duration_ns INTEGER, bytes INTEGER, call INTEGER);";

static const char views[] =
	"CREATE VIEW top_functions AS SELECT comm, pid, label, module, calls,"
	" self_ns / 1e6 AS self_ms, total_ns / 1e6 AS total_ms, avg_ns / 1e3 AS avg_us,"
	" self_percent FROM functions ORDER BY self_ns DESC;"
	"CREATE VIEW slowest_steps AS SELECT comm, pid, step, steps, at_ns / 1e9 AS at_s,"
	" max_ns / 1e6 AS max_ms, slow, data_ns / 1e6 AS data_ms, forward_ns / 1e6 AS forward_ms,"
	" backward_ns / 1e6 AS backward_ms, optimizer_ns / 1e6 AS optimizer_ms"
	" FROM steps ORDER BY max_ns DESC;"
	"CREATE VIEW leak_sites AS SELECT comm, pid, domain, stack, function, live_count,"
	" live_bytes, slope_bytes_per_s FROM hotspots WHERE leak ORDER BY live_bytes DESC;"
	"CREATE VIEW memory_sites AS SELECT comm, pid, domain, stack, function, allocs,"
	" allocated_bytes, live_bytes, peak_bytes FROM hotspots ORDER BY peak_bytes DESC;"
	"CREATE VIEW wait_reasons AS SELECT comm, pid, reason, sum(ns) / 1e6 AS ms,"
	" sum(count) AS waits, max(max_ns) / 1e6 AS max_ms FROM waits GROUP BY process, reason"
	" ORDER BY sum(ns) DESC;"
	"CREATE VIEW hot_lines AS SELECT comm, pid, file, line, function, language, samples,"
	" on_cpu_ns / 1e6 AS on_cpu_ms, off_cpu_ns / 1e6 AS off_cpu_ms"
	" FROM lines ORDER BY on_cpu_ns DESC;"
	"CREATE VIEW named_spans AS SELECT f.comm, f.pid, s.tid, f.label, f.module, s.depth,"
	" s.start_ns, s.duration_ns, s.self_ns, s.flops, s.bytes FROM spans s"
	" JOIN functions f USING (process, function);"
	"CREATE VIEW longest_spans AS SELECT * FROM named_spans ORDER BY duration_ns DESC;"
	"CREATE VIEW problems AS SELECT severity, kind, comm, pid, subject, evidence, suggestion"
	" FROM findings ORDER BY CASE severity WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END;";

static int error_of(sqlite3 *db)
{
	switch (db ? sqlite3_errcode(db) : SQLITE_NOMEM) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	default:
		return sqlite3_system_errno(db) ? -sqlite3_system_errno(db) : -EIO;
	}
}

static int execute(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL) ? error_of(db) : 0;
}

static int prepare(struct sqlite *s, const char *sql, sqlite3_stmt **statement)
{
	return sqlite3_prepare_v2(s->db, sql, -1, statement, NULL) ? error_of(s->db) : 0;
}

static void bind_integer(sqlite3_stmt *row, int at, uint64_t value)
{
	if (value == PROFILE_ABSENT)
		sqlite3_bind_null(row, at);
	else
		sqlite3_bind_int64(row, at, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void bind_real(sqlite3_stmt *row, int at, double value)
{
	if (value < 0)
		sqlite3_bind_null(row, at);
	else
		sqlite3_bind_double(row, at, value);
}

/* Names of the program as in the JSON report: unchanged, but valid UTF-8. NULL: absent. */
static void bind_text(sqlite3_stmt *row, int at, const char *value)
{
	struct text text = {0};

	if (!value) {
		sqlite3_bind_null(row, at);
		return;
	}
	utf8_repair(&text, value);
	sqlite3_bind_text(row, at, text_peek(&text), (int)text.length, SQLITE_TRANSIENT);
	text_clear(&text);
}

static void bind_constant(sqlite3_stmt *row, int at, const char *value)
{
	sqlite3_bind_text(row, at, value, -1, SQLITE_STATIC);
}

static void bind_value(sqlite3_stmt *row, int at, const struct value *value)
{
	struct text plain = {0};
	char *dumped;

	switch (value->kind) {
	case VALUE_ABSENT:
		sqlite3_bind_null(row, at);
		break;
	case VALUE_INTEGER:
	case VALUE_FLAG:
		bind_integer(row, at, value->integer);
		break;
	case VALUE_REAL:
		sqlite3_bind_double(row, at, value->real);
		break;
	case VALUE_TEXT:
	case VALUE_RANK:
		bind_text(row, at, value->text);
		break;
	case VALUE_SENTENCE:
		escape_unmarked(&plain, value->text);
		bind_text(row, at, text_peek(&plain));
		text_clear(&plain);
		break;
	case VALUE_JSON:
		dumped = json_dumps(value->json, JSON_COMPACT | JSON_REAL_PRECISION(9));
		bind_text(row, at, dumped);
		free(dumped);
		json_decref(value->json);
		break;
	}
}

static int add_row(struct sqlite *s, sqlite3_stmt *row)
{
	int err = sqlite3_step(row) == SQLITE_DONE ? 0 : error_of(s->db);

	sqlite3_reset(row);
	return err;
}

/* The last row of a statement that is used for one table. */
static int finish(struct sqlite *s, sqlite3_stmt *row, int err)
{
	return sqlite3_finalize(row) && !err ? error_of(s->db) : err;
}

static const char *declared_type(const struct data_table_column *column)
{
	switch (column->type) {
	case COLUMN_TEXT:
	case COLUMN_SENTENCE:
	case COLUMN_NESTED:
		return "TEXT";
	case COLUMN_REAL:
		return "REAL";
	case COLUMN_U64:
	case COLUMN_COUNT:
	case COLUMN_U32:
	case COLUMN_TRUTH:
		break;
	}
	return "INTEGER";
}

static const char *table_name(const struct data_table_kind *kind)
{
	return strcmp(kind->name, "blocked") ? kind->name : "waits";
}

/* Creates the table and prepares the statement that adds a row. Returns the number of columns. */
static int create_table(struct sqlite *s, const struct data_table_kind *kind,
			const struct data_table_column *columns[TABLE_COLUMNS_MAX],
			sqlite3_stmt **insert, size_t *count)
{
	struct text create = {0}, values = {0};
	int err;

	*count = 0;
	for (size_t i = 0; i < kind->columns_count && *count < TABLE_COLUMNS_MAX; i++) {
		const struct data_table_column *column = &kind->columns[i];

		if (!data_table_column_in(kind, column, COLUMN_SQL))
			continue;
		text_printf(&create, "%s\"%s\" %s", *count ? ", " : "", column->name,
			    declared_type(column));
		text_add(&values, *count ? ", ?" : "?");
		columns[(*count)++] = column;
	}
	text_clear(&s->text);
	text_printf(&s->text, "CREATE TABLE %s(%s)", table_name(kind), text_peek(&create));
	err = execute(s->db, text_peek(&s->text));
	text_clear(&s->text);
	text_printf(&s->text, "INSERT INTO %s VALUES (%s)", table_name(kind), text_peek(&values));
	err = err ?: prepare(s, text_peek(&s->text), insert);
	text_clear(&create);
	text_clear(&values);
	return err;
}

static int write_table(struct sqlite *s, const struct data_table_kind *kind,
		       const struct analysis *analysis)
{
	const struct data_table_column *columns[TABLE_COLUMNS_MAX];
	struct data_table table = {0};
	sqlite3_stmt *insert = NULL;
	size_t count;
	int err = create_table(s, kind, columns, &insert, &count);

	err = err ?: data_table_fill(&table, kind, s->export->profile, analysis);
	for (size_t i = 0; i < table.rows_count && !err; i++) {
		for (size_t j = 0; j < count; j++) {
			struct value value = data_table_value(&table, &table.rows[i], columns[j]);

			bind_value(insert, (int)j + 1, &value);
		}
		err = table.made.failed ? -ENOMEM : add_row(s, insert);
	}
	data_table_clear(&table);
	return finish(s, insert, err);
}

static int write_capture(struct sqlite *s, const struct analysis *analysis)
{
	const struct profile *p = s->export->profile;
	sqlite3_stmt *row = NULL;
	int err = prepare(s, "INSERT INTO capture VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &row);
	struct value verdict = {.kind = VALUE_SENTENCE, .text = analysis->verdict};

	if (!err) {
		bind_constant(row, 1, "perfx.sqlite/1");
		bind_text(row, 2, p->tool_version);
		bind_text(row, 3, p->command);
		bind_text(row, 4, p->host_name);
		bind_text(row, 5, p->kernel);
		bind_text(row, 6, p->boot_id);
		bind_integer(row, 7, p->cpus_count);
		bind_integer(row, 8,
			     p->memory_mib ? (uint64_t)p->memory_mib << 20 : PROFILE_ABSENT);
		bind_integer(row, 9, p->start_unix_ns);
		bind_integer(row, 10, p->start_ns);
		bind_integer(row, 11, p->duration_ns);
		bind_integer(row, 12, p->partial != 0);
		bind_value(row, 13, &verdict);
		bind_real(row, 14, p->overhead_percent);
		bind_integer(row, 15, p->sampling.on_cpu_interval_ns ?: PROFILE_ABSENT);
		bind_integer(row, 16, p->sampling.off_cpu_interval_ns ?: PROFILE_ABSENT);
		err = add_row(s, row);
	}
	err = finish(s, row, err);
	row = NULL;
	err = err ?: prepare(s, "INSERT INTO losses VALUES (?,?)", &row);
	for (int loss = 0; loss < PERFX_LOSS_KINDS && !err; loss++) {
		bind_constant(row, 1, name_of_loss(loss));
		bind_integer(row, 2, p->losses[loss]);
		err = add_row(s, row);
	}
	return finish(s, row, err);
}

static int write_contexts(struct sqlite *s)
{
	sqlite3_stmt *row = NULL;
	int err = prepare(s, "INSERT INTO contexts VALUES (?,?,?,?,?,?,?,?)", &row);

	FOR_EACH (process, s->export->profile->processes) {
		for (size_t i = 0; i < process->contexts_count && !err; i++) {
			const struct profile_context *context = &process->contexts[i];
			struct text caller = {0};

			if (context->caller)
				location_frame(&caller, context->caller, LOCATION_BRIEF);
			bind_integer(row, 1, process->index);
			bind_integer(row, 2, context->id);
			bind_integer(row, 3, context->parent ? context->parent : PROFILE_ABSENT);
			bind_integer(row, 4, context->function);
			bind_integer(row, 5, context->calls_count);
			bind_integer(row, 6, context->total_ns);
			bind_integer(row, 7, context->self_ns);
			bind_text(row, 8, context->caller ? text_peek(&caller) : NULL);
			text_clear(&caller);
			err = add_row(s, row);
		}
	}
	return finish(s, row, err);
}

static int add_frame(struct sqlite *s, sqlite3_stmt *row, uint32_t number,
		     const struct profile_frame *frame)
{
	const char *module = frame->module;

	bind_integer(row, 1, number);
	bind_text(row, 2, frame_label(frame)[0] ? frame_label(frame) : NULL);
	bind_text(row, 3, frame->file[0] ? frame->file : NULL);
	bind_integer(row, 4, frame->line ? frame->line : PROFILE_ABSENT);
	bind_text(row, 5, module[0] ? module : NULL);
	bind_integer(row, 6, module[0] ? frame->offset : PROFILE_ABSENT);
	bind_constant(row, 7, name_of_language(frame->language));
	return add_row(s, row);
}

/* Each frame once. A stack's number is its place in the profile; samples have it. */
static int write_stacks(struct sqlite *s)
{
	const struct profile *p = s->export->profile;
	sqlite3_stmt *row = NULL, *frame_row = NULL;
	struct map64 frames = {0};
	uint32_t frames_count = 0;
	int err = prepare(s, "INSERT INTO stacks VALUES (?,?,?)", &row)
			  ?: prepare(s, "INSERT INTO frames VALUES (?,?,?,?,?,?,?)", &frame_row);

	for (uint32_t i = 0; i < p->stacks_count && !err; i++) {
		const struct profile_stack *stack = &p->stacks[i];

		err = map64_put(&s->places, MAP64_PAIR(stack->process, stack->id), i);
		for (size_t j = 0; j < stack->frames_count && !err; j++) {
			uint32_t number = map64_get(&frames, (uintptr_t)stack->frames[j]);

			if (number == MAP64_NONE) {
				number = frames_count++;
				err = map64_put(&frames, (uintptr_t)stack->frames[j], number)
					      ?: add_frame(s, frame_row, number, stack->frames[j]);
			}
			bind_integer(row, 1, i);
			bind_integer(row, 2, j);
			bind_integer(row, 3, number);
			err = err ?: add_row(s, row);
		}
	}
	map64_clear(&frames);
	return finish(s, frame_row, finish(s, row, err));
}

static int add_span(struct sqlite *s, const struct perfx_span *span)
{
	bool timed = !(span->flags & (PERFX_SPAN_UNWOUND | PERFX_SPAN_UNTIMED));
	bool counted = span->cost_state == PERFX_COST_COUNTED;
	sqlite3_stmt *row = s->spans;

	bind_integer(row, 1, span->process);
	bind_integer(row, 2, span->tid);
	bind_integer(row, 3, span->function);
	bind_integer(row, 4, span->context ? span->context : PROFILE_ABSENT);
	bind_integer(row, 5, span->depth);
	bind_integer(row, 6, profile_since_start(s->export->profile, span->start_ns));
	bind_integer(row, 7, timed ? span->duration_ns : PROFILE_ABSENT);
	bind_integer(row, 8, timed ? span->self_ns : PROFILE_ABSENT);
	bind_integer(row, 9, span->off_cpu_ns ? span->off_cpu_ns : PROFILE_ABSENT);
	bind_integer(row, 10, counted ? span->flops : PROFILE_ABSENT);
	bind_integer(row, 11, counted ? span->bytes : PROFILE_ABSENT);
	bind_integer(row, 12, (span->flags & PERFX_SPAN_UNWOUND) != 0);
	return add_row(s, row);
}

static int add_sample(struct sqlite *s, const struct perfx_sample *sample)
{
	static const char *const states[] = {[PERFX_SAMPLE_ON_CPU] = "on_cpu",
					     [PERFX_SAMPLE_WAITING] = "waiting",
					     [PERFX_SAMPLE_RUNNABLE] = "runnable"};
	uint32_t place = map64_get(&s->places, MAP64_PAIR(sample->process, sample->stack));
	sqlite3_stmt *row = s->samples;

	bind_integer(row, 1, sample->process);
	bind_integer(row, 2, sample->tid);
	bind_integer(row, 3, sample->context ? sample->context : PROFILE_ABSENT);
	bind_integer(row, 4, place == MAP64_NONE ? PROFILE_ABSENT : place);
	bind_integer(row, 5, profile_since_start(s->export->profile, sample->time_ns));
	bind_integer(row, 6, sample->interval_ns);
	bind_constant(row, 7, states[sample->state]);
	bind_constant(row, 8,
		      sample->state == PERFX_SAMPLE_WAITING ? name_of_wait(sample->reason) : NULL);
	return add_row(s, row);
}

static int add_gpu_work(struct sqlite *s, const struct perfx_gpu_activity *work)
{
	const struct profile *p = s->export->profile;
	sqlite3_stmt *row = s->gpu_work;
	struct text name = {0};

	gpu_activity_name(&name, p, work);
	bind_integer(row, 1, work->process);
	bind_integer(row, 2, work->device);
	bind_integer(row, 3, work->stream);
	bind_text(row, 4, text_peek(&name));
	bind_constant(row, 5, name_of_gpu_op(work->op));
	bind_integer(row, 6, profile_since_start(p, work->time_ns));
	bind_integer(row, 7, work->end_ns - work->time_ns);
	bind_integer(row, 8, work->bytes ? work->bytes : PROFILE_ABSENT);
	bind_integer(row, 9, work->call ? work->call : PROFILE_ABSENT);
	text_clear(&name);
	return add_row(s, row);
}

static int on_event(void *ctx, const struct event *event)
{
	struct sqlite *s = ctx;

	switch ((int)event->kind) {
	case PERFX_KIND_SPAN:
		return add_span(s, &event->span);
	case PERFX_KIND_SAMPLE:
		return add_sample(s, &event->sample);
	case PERFX_KIND_GPU_ACTIVITY:
		return add_gpu_work(s, &event->gpu_activity);
	default:
		return 0;
	}
}

static int write_events(struct sqlite *s)
{
	int err = prepare(s, "INSERT INTO spans VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", &s->spans)
			  ?: prepare(s, "INSERT INTO samples VALUES (?,?,?,?,?,?,?,?)", &s->samples)
			  ?: prepare(s, "INSERT INTO gpu_work VALUES (?,?,?,?,?,?,?,?,?)",
				     &s->gpu_work);

	err = err ?: s->export->read(s->export->capture, on_event, s);
	return finish(s, s->spans, finish(s, s->samples, finish(s, s->gpu_work, err)));
}

static int write_all(struct sqlite *s, const struct analysis *analysis)
{
	const struct data_table_kind *kind;
	int err = execute(s->db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
				 "PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -16384;"
				 "BEGIN")
			  ?: execute(s->db, tables)
			  ?: write_capture(s, analysis);

	for (size_t i = 0; (kind = data_table_kind_at(i)) && !err; i++)
		err = write_table(s, kind, analysis);
	err = err ?: write_contexts(s) ?: write_stacks(s);
	if (!err && s->export->of != EXPORT_OF_SUMS)
		err = write_events(s);
	return err ?: execute(s->db, views) ?: execute(s->db, "COMMIT");
}

static int write_database(const struct export *export, const char *path)
{
	struct analysis *analysis = analyze(export->profile, NULL);
	struct sqlite s = {.export = export};
	int err = -ENOMEM;

	if (analysis)
		err = sqlite3_open_v2(path, &s.db, SQLITE_OPEN_READWRITE, NULL)
			      ? error_of(s.db)
			      : write_all(&s, analysis);
	if (sqlite3_close(s.db) && !err)
		err = -EIO;
	map64_clear(&s.places);
	text_clear(&s.text);
	analysis__free(analysis);
	return err;
}

static int copy_file(int fd, FILE *out)
{
	char buffer[1 << 16];
	ssize_t count;

	while ((count = read(fd, buffer, sizeof(buffer))) > 0)
		if (fwrite(buffer, 1, (size_t)count, out) != (size_t)count)
			return export_error(out);
	return count < 0 ? -errno : 0;
}

/* SQLite writes at any place of a file with a name. A pipe, memory or a file without a name gets a
 * copy of one that is made for it. */
int export_sqlite(const struct export *export)
{
	const char *folder = getenv("TMPDIR") ?: "/var/tmp";
	int fd = fileno(export->out), err;
	struct stat file;
	char path[4096];

	if (fd >= 0 && !fstat(fd, &file) && S_ISREG(file.st_mode) && file.st_nlink &&
	    !file.st_size) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		return write_database(export, path);
	}
	snprintf(path, sizeof(path), "%s/perfx-XXXXXX", folder);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = write_database(export, path);
	unlink(path);
	err = err ?: copy_file(fd, export->out);
	close(fd);
	return err;
}
