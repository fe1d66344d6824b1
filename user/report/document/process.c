// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a process is and what it used, without its functions:
 *     ./trainer --epochs 3
 *     container trainer (containerd 4be1f2a3c4d5) · pod ml/llm-0
 *     wall 10.0 s · CPU 8.00 s user, 1.00 s system (90.0 %) · RSS 305 MiB, peak 310 MiB · 2 threads
 */
#include "analyze/death.h"
#include "analyze/location.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/units.h"
#include "report/document/compose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void compose_process_title(struct composer *c, const struct profile_process *p)
{
	document_printf(c->document, BLOCK_HEADING,
			p->exec_count ? "%s (pid %u, exec %u)" : "%s (pid %u)",
			compose_mark(c, p->comm), p->pid, p->exec_count);
}

/* A brief report omits a pair of zeros. */
static void add_pair(struct composer *c, struct text *text, const char *first, uint64_t first_bytes,
		     const char *second, uint64_t second_bytes)
{
	if (first_bytes == PROFILE_ABSENT || second_bytes == PROFILE_ABSENT ||
	    (c->limits->brief && !first_bytes && !second_bytes))
		return;
	text_printf(text, "%s%s%s%s", first, as_bytes(first_bytes), second, as_bytes(second_bytes));
}

/* How much of a command line a text report shows. */
#define CMDLINE_CHARS 200

/* The start of a container's ID, as its runtime shows it. */
#define CONTAINER_ID_CHARS 12

/* "container trainer (containerd 4be1f2a3c4d5) · pod ml/llm-0", "job 4711, step 0",
 * "unit trainer.service"; nothing for a process that was started by hand. */
static void compose_place(struct composer *c, const struct profile_place *place)
{
	const char *id = place->of[PERFX_PLACE_CONTAINER_ID];
	const char *name = place->of[PERFX_PLACE_CONTAINER];
	const char *runtime = place->of[PERFX_PLACE_RUNTIME];
	const char *pod = place->of[PERFX_PLACE_POD] ?: place->of[PERFX_PLACE_POD_UID];
	const char *namespace =
		place->of[PERFX_PLACE_POD] ? place->of[PERFX_PLACE_NAMESPACE] : NULL;
	const char *job = place->of[PERFX_PLACE_JOB], *unit = place->of[PERFX_PLACE_UNIT];
	bool both = name && id && strcmp(name, id);
	char shown[CONTAINER_ID_CHARS + 1];
	struct text text = {0};

	snprintf(shown, sizeof(shown), "%s", id ?: "");
	add_marked(&text, "container ", name ?: shown, "");
	if (text.length && (runtime || both)) {
		add_marked(&text, " (", runtime, both ? " " : ")");
		add_marked(&text, runtime ? "" : " (", both ? shown : "", ")");
	}
	if (pod) {
		text_printf(&text, "%spod ", text.length ? " · " : "");
		add_marked(&text, "", namespace, "/");
		escape_name(&text, pod);
	}
	if (job) {
		add_marked(&text, text.length ? " · job " : "job ", job, "");
		add_marked(&text, ", step ", place->of[PERFX_PLACE_JOB_STEP], "");
	}
	if (!text.length && unit && strstr(unit, ".service"))
		add_marked(&text, "unit ", unit, "");
	document_add_any(c->document, BLOCK_NOTE, &text);
}

void compose_facts(struct composer *c, const struct profile_process *p)
{
	struct text text = {0}, cmdline = {0};

	for (const char *s = p->cmdline; *s; s++) {
		if (!c->options->full_cmdline && cmdline.length >= CMDLINE_CHARS) {
			text_add(&cmdline, "…");
			break;
		}
		text_add_bytes(&cmdline, *s == PROFILE_ARGUMENT_END ? " " : s, 1);
	}
	add_marked(&text, "", text_peek(&cmdline), "");
	document_add_any(c->document, BLOCK_NOTE, &text);
	text_finish(&cmdline, &c->document->failed);
	compose_place(c, &p->place);
	text_printf(&text, "wall %s", as_ns(profile_wall_ns(p)));
	if (p->cpu_ns != PROFILE_ABSENT)
		text_printf(&text, " · CPU %s user, %s system", as_ns(p->cpu_user_ns),
			    as_ns(p->cpu_system_ns));
	if (p->cpu_ns != PROFILE_ABSENT && profile_wall_ns(p)) {
		text_add(&text, " (");
		add_cpu_use(&text, p);
		text_add(&text, ")");
	}
	add_pair(c, &text, " · RSS ", p->rss_bytes, ", peak ", p->rss_peak_bytes);
	add_pair(c, &text, " · disk read ", p->read_bytes, ", written ", p->write_bytes);
	add_pair(c, &text, " · network in ", p->net_rx_bytes, ", out ", p->net_tx_bytes);
	if (p->kernel_threads_count != PROFILE_ABSENT)
		text_printf(&text, " · %llu thread%s", (unsigned long long)p->kernel_threads_count,
			    plural(p->kernel_threads_count));
	if (p->unmatched_entries)
		text_printf(&text, " · %llu call%s still running at the end",
			    (unsigned long long)p->unmatched_entries, plural(p->unmatched_entries));
	if (p->exited)
		text_add(&text, " · ");
	death_add(&text, c->profile, p);
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

void compose_threads(struct composer *c, const struct profile_process *p)
{
	size_t shown =
		p->threads_count < c->limits->threads ? p->threads_count : c->limits->threads;

	if (!shown)
		return;
	document_printf(c->document, BLOCK_FOLD, "Threads (%zu)", p->threads_count);
	document_headings(c->document, 0, NUMBERS("TID"), NUMBERS("On CPU"), NUMBERS("Runnable"),
			  NUMBERS("Blocked"), WORDS("State"), REST("Thread"));
	for (size_t i = 0; i < shown; i++) {
		const struct profile_thread *thread = &p->threads[i];

		document_row(c->document, document_format(c->document, "%u", thread->tid),
			     cell_ns(thread->on_cpu_ns), cell_ns(thread->runnable_ns),
			     cell_ns(thread->blocked_ns),
			     thread->state ? (const char[]){thread->state, '\0'} : "-",
			     compose_name(c, thread->comm));
	}
	compose_left_out(c, p->threads_count - shown, "", "JSON");
	document_say(c->document, BLOCK_UNFOLD, "");
}

/* A function that took less of a process's self time may be missing in an identical worker. */
#define SHARE_OF_WORK 0.05

/* Did `by` call every function in which `p` spent its time? */
static bool called_hot_functions(const struct profile_process *by, const struct profile_process *p)
{
	for (size_t i = 0; i < p->rows_count; i++) {
		size_t k = 0;

		if ((double)p->rows[i].self_ns < SHARE_OF_WORK * (double)p->self_ns)
			continue;
		while (k < by->rows_count && by->rows[k].function != p->rows[i].function)
			k++;
		if (k == by->rows_count)
			return false;
	}
	return true;
}

static bool are_alike(const struct profile_process *a, const struct profile_process *b)
{
	return a->ppid == b->ppid && a->exec_count == b->exec_count && !strcmp(a->comm, b->comm) &&
	       !strcmp(a->cmdline, b->cmdline) && !a->rows_count == !b->rows_count &&
	       called_hot_functions(a, b) && called_hot_functions(b, a);
}

size_t *workers_group(const struct profile *profile)
{
	size_t *groups = malloc((profile->processes_count + 1) * sizeof(*groups));

	for (size_t i = 0; groups && i < profile->processes_count; i++) {
		size_t first = 0;

		/* compare with the first of each group only */
		while (first < i &&
		       (groups[first] != first ||
			!are_alike(&profile->processes[first], &profile->processes[i])))
			first++;
		groups[i] = first;
	}
	return groups;
}

static uint64_t plus(uint64_t sum, uint64_t value)
{
	return sum == PROFILE_ABSENT || value == PROFILE_ABSENT ? PROFILE_ABSENT : sum + value;
}

static uint64_t most(uint64_t sum, uint64_t value)
{
	if (sum == PROFILE_ABSENT || value == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	return sum > value ? sum : value;
}

ORDER(by_self, struct profile_row, DESCENDING(a->self_ns, b->self_ns),
      DESCENDING(a->calls_count, b->calls_count))

int worker_sum_make(struct worker_sum *sum, const struct profile *profile, const size_t *groups,
		    size_t first)
{
	struct map64 places = {0}; /* function → its row */
	int err = 0;

	*sum = (struct worker_sum){0};
	for (size_t i = first; i < profile->processes_count && !err; i++) {
		const struct profile_process *p = &profile->processes[i];
		const struct profile_steps *steps = &p->steps;

		if (groups[i] != first)
			continue;
		sum->count++;
		sum->wall_ns += profile_wall_ns(p);
		sum->untraced_ns = plus(sum->untraced_ns,
					p->untraced.tid ? p->untraced.self_ns : PROFILE_ABSENT);
		sum->cpu_ns = plus(sum->cpu_ns, p->cpu_ns);
		sum->rss_bytes = plus(sum->rss_bytes, p->rss_bytes);
		sum->own_bytes = plus(sum->own_bytes, p->rss_anon_bytes);
		sum->file_bytes = most(sum->file_bytes, p->rss_file_bytes);
		sum->shmem_bytes = most(sum->shmem_bytes, p->rss_shmem_bytes);
		sum->gpu_mj = plus(sum->gpu_mj, p->energy.gpu_mj);
		sum->gpu_estimated |= p->energy.estimated;
		if (steps->count) {
			if (!sum->steps_count || steps->avg_ns < sum->steps_avg_least_ns)
				sum->steps_avg_least_ns = steps->avg_ns;
			sum->steps_avg_most_ns = max_u64(sum->steps_avg_most_ns, steps->avg_ns);
			sum->steps_count += steps->count;
			sum->steps_ns += steps->total_ns;
		}
		for (size_t k = 0; k < p->memory_count; k++) {
			enum perfx_domain domain = p->memory[k].domain;

			sum->allocated_bytes[domain] += p->memory[k].allocated_bytes.value;
			sum->estimated[domain] |= p->memory[k].sampled;
		}
		for (size_t k = 0; k < p->rows_count && !err; k++) {
			const struct profile_row *row = &p->rows[k];
			struct profile_row *into = MAP64_ITEM(places, row->function, sum->rows);

			if (!into) {
				err = -ENOMEM;
				break;
			}
			into->function = row->function;
			into->calls_count += row->calls_count;
			into->timed_count += row->timed_count;
			into->self_ns += row->timed_count ? row->self_ns : 0;
			into->total_ns += row->timed_count ? row->total_ns : 0;
		}
	}
	SORT_ITEMS(sum->rows, sum->rows_count, by_self);
	map64_clear(&places);
	return err;
}

void worker_sum_clear(struct worker_sum *sum)
{
	free(sum->rows);
	*sum = (struct worker_sum){0};
}

#define PIDS_SHOWN 8

/* " · CPU 1.20 s each (12.0 %), 4.80 s in total" */
static void add_each(struct text *text, const char *title, uint64_t sum, size_t count,
		     void (*add)(struct text *, uint64_t))
{
	if (sum == PROFILE_ABSENT)
		return;
	text_printf(text, " · %s ", title);
	add(text, sum / count);
	text_add(text, " each, ");
	add(text, sum);
	text_add(text, " in total");
}

static void add_mj(struct text *text, uint64_t mj)
{
	add_si(text, (double)mj / 1e3, "J");
}

static void compose_workers_facts(struct composer *c, const struct worker_sum *sum)
{
	uint64_t resident_bytes = plus(sum->own_bytes, plus(sum->file_bytes, sum->shmem_bytes));
	struct text text = {0};

	text_printf(&text, "wall %s each", as_ns(sum->wall_ns / sum->count));
	add_each(&text, "CPU", sum->cpu_ns, sum->count, add_ns);
	if (sum->rss_bytes != PROFILE_ABSENT)
		text_printf(&text, " · RSS %s each", as_bytes(sum->rss_bytes / sum->count));
	if (sum->rss_bytes != PROFILE_ABSENT && resident_bytes != PROFILE_ABSENT)
		text_printf(&text, ", %s in total (what they share counted once)",
			    as_bytes(resident_bytes));
	if (sum->gpu_mj)
		add_each(&text, sum->gpu_estimated ? "GPU energy ~" : "GPU energy", sum->gpu_mj,
			 sum->count, add_mj);
	for (int i = 0; i < WORKER_DOMAINS; i++) {
		char title[64];

		snprintf(title, sizeof(title), "%s allocated%s", domain_words(i),
			 sum->estimated[i] ? " ~" : "");
		if (sum->allocated_bytes[i])
			add_each(&text, title, sum->allocated_bytes[i], sum->count, add_bytes);
	}
	document_add(c->document, BLOCK_PARAGRAPH, &text);
	if (!sum->steps_count)
		return;
	document_printf(c->document, BLOCK_PARAGRAPH,
			"%s steps of all workers: %s on average, from %s to %s by worker",
			as_count(sum->steps_count), as_ns(sum->steps_ns / sum->steps_count),
			as_ns(sum->steps_avg_least_ns), as_ns(sum->steps_avg_most_ns));
}

#define WORKER_FUNCTIONS 5

static void compose_workers_table(struct composer *c, size_t first, const struct worker_sum *sum)
{
	if (!sum->rows_count) {
		document_say(c->document, BLOCK_PARAGRAPH,
			     "They called none of the functions that are traced.");
		return;
	}
	document_headings(c->document, 0, NUMBERS("Self %"), NUMBERS("Self"), NUMBERS("Self each"),
			  NUMBERS("Calls"), NUMBERS("Avg"), REST("Function"));
	for (size_t i = 0; i < sum->rows_count && i < WORKER_FUNCTIONS; i++) {
		const struct profile_row *row = &sum->rows[i];
		bool timed = row->timed_count > 0;

		document_row(c->document,
			     cell_threads_share(timed ? row->self_ns : PROFILE_ABSENT,
						sum->wall_ns),
			     cell_ns(timed ? row->self_ns : PROFILE_ABSENT),
			     cell_ns(timed ? row->self_ns / sum->count : PROFILE_ABSENT),
			     cell_count(row->calls_count),
			     cell_ns(timed ? row->total_ns / row->timed_count : PROFILE_ABSENT),
			     compose_function(c, &c->profile->processes[first], row->function));
	}
	if (sum->untraced_ns != PROFILE_ABSENT) {
		document_foot(c->document);
		document_row(c->document, cell_threads_share(sum->untraced_ns, sum->wall_ns),
			     cell_ns(sum->untraced_ns), cell_ns(sum->untraced_ns / sum->count), "-",
			     "-", PROFILE_UNTRACED_NAME);
	}
	document_say(c->document, BLOCK_NOTE,
		     "Sums over these workers; Self % is of the wall time of each.");
}

void compose_workers(struct composer *c, size_t first)
{
	struct worker_sum sum;

	if (worker_sum_make(&sum, c->profile, c->groups, first)) {
		c->document->failed = true;
	} else {
		struct text text = {0};
		size_t shown = 0;

		/* "python3: 4 identical workers (pids 4711, 4712, 4713, 4714)" */
		escape_name(&text, c->profile->processes[first].comm);
		text_printf(&text, ": %zu identical workers (pids ", sum.count);
		for (size_t i = first; i < c->profile->processes_count && shown < PIDS_SHOWN; i++)
			if (c->groups[i] == first)
				text_printf(&text, "%s%u", shown++ ? ", " : "",
					    c->profile->processes[i].pid);
		text_add(&text, sum.count > shown ? ", …)" : ")");
		document_add(c->document, BLOCK_HEADING, &text);
		compose_place(c, &c->profile->processes[first].place);
		compose_workers_facts(c, &sum);
		compose_workers_table(c, first, &sum);
	}
	worker_sum_clear(&sum);
}
