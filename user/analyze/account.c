// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/account.h"

#include "analyze/location.h"
#include "analyze/spinning.h"
#include "analyze/stack_kind.h"
#include "analyze/wait_class.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wait_sums {
	uint64_t ns[CANDIDATES][ACCOUNT_CLASSES];
};

struct thread_making {
	uint32_t tid;
	const struct profile_thread *facts; /* NULL: it is not known to /proc */
	struct wait_sums exact, sampled;
	uint64_t computing_ns, spinning_ns, runnable_ns; /* sampled */
	uint64_t stops_count;
};

static uint64_t sum_of(const struct wait_sums *sums)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < CANDIDATES; i++)
		for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
			sum += k == ACCOUNT_RUNNABLE ? 0 : sums->ns[i][k];
	return sum;
}

static uint64_t part_of(uint64_t ns, double part)
{
	return (uint64_t)((double)ns * part);
}

/* Divides a thread's blocked time among classes of waits. The exact sums lack waits that did not
 * end during the recording: what they leave over goes to the classes in which the samples exceed
 * them. A few samples do not stand for all of the rest. */
static void divide_blocked(const struct thread_making *t, uint64_t blocked_ns,
			   struct wait_sums *waits)
{
	uint64_t exact_ns = sum_of(&t->exact), rest_ns = blocked_ns - exact_ns, more_ns = 0;
	double part = exact_ns > blocked_ns ? (double)blocked_ns / (double)exact_ns : 1;
	struct wait_sums more = {0};

	for (size_t i = 0; i < CANDIDATES; i++) {
		for (size_t k = 0; k < ACCOUNT_CLASSES; k++) {
			waits->ns[i][k] = part_of(t->exact.ns[i][k], part);
			if (t->sampled.ns[i][k] > t->exact.ns[i][k])
				more.ns[i][k] = t->sampled.ns[i][k] - t->exact.ns[i][k];
		}
	}
	more_ns = sum_of(&more);
	if (exact_ns >= blocked_ns || !more_ns)
		return;
	part = more_ns >= rest_ns / 2 ? (double)rest_ns / (double)more_ns : 1;
	for (size_t i = 0; i < CANDIDATES; i++)
		for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
			waits->ns[i][k] += part_of(more.ns[i][k], part);
}

static uint64_t known_or(uint64_t exact_ns, uint64_t otherwise_ns)
{
	return exact_ns == PROFILE_ABSENT ? otherwise_ns : exact_ns;
}

/* /proc knows only a part of the time of a thread that started or ended during the recording.
 * Samples give the rest. */
static void settle(const struct thread_making *t, struct account *account, struct wait_sums *waits)
{
	static const struct profile_thread none = {.wall_ns = PROFILE_ABSENT,
						   .on_cpu_ns = PROFILE_ABSENT,
						   .runnable_ns = PROFILE_ABSENT,
						   .blocked_ns = PROFILE_ABSENT};
	const struct profile_thread *facts = t->facts ? t->facts : &none;
	uint64_t sampled_ns = t->computing_ns + t->spinning_ns;
	uint64_t on_cpu_ns = known_or(facts->on_cpu_ns, sampled_ns), runnable_ns, blocked_ns;
	uint64_t waited_ns = t->exact.ns[CANDIDATE_NONE][ACCOUNT_RUNNABLE];

	runnable_ns = known_or(facts->runnable_ns, waited_ns ? waited_ns : t->runnable_ns);
	blocked_ns =
		sum_of(&t->exact) > sum_of(&t->sampled) ? sum_of(&t->exact) : sum_of(&t->sampled);
	account->wall_ns = known_or(facts->wall_ns, on_cpu_ns + runnable_ns + blocked_ns);
	on_cpu_ns = min_u64(on_cpu_ns, account->wall_ns);
	runnable_ns = min_u64(runnable_ns, account->wall_ns - on_cpu_ns);
	account->ns[ACCOUNT_SPINNING] =
		sampled_ns ? part_of(on_cpu_ns, (double)t->spinning_ns / (double)sampled_ns) : 0;
	account->ns[ACCOUNT_COMPUTING] = on_cpu_ns - account->ns[ACCOUNT_SPINNING];
	account->ns[ACCOUNT_RUNNABLE] = runnable_ns;
	divide_blocked(t, account->wall_ns - on_cpu_ns - runnable_ns, waits);
	for (size_t i = 0; i < CANDIDATES; i++)
		for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
			account->ns[k] += k == ACCOUNT_RUNNABLE ? 0 : waits->ns[i][k];
}

struct making {
	struct contexts contexts;
	struct spinning spinning;
	struct map64 tids, places; /* → threads[], account->places[] */
	struct place_finder finder;
	struct thread_making *threads;
	size_t threads_count, threads_capacity, places_capacity;
	struct lines *leads; /* by class; the last one: own lines of the main thread */
	struct process_account *account;
	int err;
};

/* NULL: memory is out. */
static struct thread_making *thread_of(struct making *m, uint32_t tid)
{
	struct thread_making *thread = MAP64_ITEM(m->tids, tid, m->threads);

	if (thread)
		thread->tid = tid;
	else
		m->err = -ENOMEM;
	return thread;
}

static uint64_t hash_of(const struct account_place *place)
{
	const struct profile_frame *frames[] = {place->own, place->callee, place->python,
						place->native};
	uint64_t words[3 + 3 * 4] = {place->tid, (uint64_t)place->class, place->function};

	for (size_t i = 0; i < 4; i++) {
		if (!frames[i])
			continue;
		words[3 + 3 * i] = (uintptr_t)frames[i]->function;
		words[4 + 3 * i] = (uintptr_t)(frames[i]->function[0] ? frames[i]->file
								      : frames[i]->module_base);
		words[5 + 3 * i] = frames[i]->line;
	}
	return fnv1a(words, sizeof(words));
}

static void add_sample(struct making *m, const struct profile_activity *sample)
{
	const struct profile_frame *lead = stack_place(sample->stack);
	struct thread_making *t = thread_of(m, sample->tid);
	enum account_class class = ACCOUNT_UNKNOWN;
	struct account_place place, *sum;

	if (!t)
		return;
	/* outside of libc where there is such a frame */
	if (lead && frame_is_system_library(lead))
		lead = place_native(sample->stack);
	switch (sample->state) {
	case PERFX_SAMPLE_ON_CPU:
		class = sample_spins(&m->spinning, sample) ? ACCOUNT_SPINNING : ACCOUNT_COMPUTING;
		*(class == ACCOUNT_SPINNING ? &t->spinning_ns : &t->computing_ns) += sample->ns;
		place = place_find(&m->finder, sample, class);
		sum = map64_item(&m->places, hash_of(&place), &m->account->places,
				 &m->places_capacity, &m->account->places_count, sizeof(place));
		if (!sum) {
			m->err = -ENOMEM;
			return;
		}
		if (!sum->count)
			*sum = place;
		sum->ns += sample->ns;
		sum->count += sample->count;
		break;
	case PERFX_SAMPLE_RUNNABLE:
		class = ACCOUNT_RUNNABLE;
		t->runnable_ns += sample->ns;
		break;
	case PERFX_SAMPLE_WAITING:
		class = class_of_sample(&m->contexts, sample);
		t->sampled.ns[join_candidate_of(&m->contexts, sample, class)][class] += sample->ns;
		break;
	case PERFX_SAMPLE_INVALID:
		break;
	}
	lines_add(&m->leads[class], lead, sample->ns);
	if (sample->tid == m->contexts.process->pid && lead && location_is_own_python(lead))
		lines_add(&m->leads[ACCOUNT_CLASSES], lead, sample->ns);
}

/* A thread joins others if its own work is below this share of its time, */
#define JOIN_OWN_SHARE 0.15
/* or, where the thread that ends its waits is known, below this one, */
#define WOKEN_OWN_SHARE 0.50
/* if its waits that may be a join exceed this share of its time, */
#define JOIN_SHARE 0.50
/* and if the others work for this share of these waits. */
#define JOIN_WORK_SHARE 0.50
/* Where the others work for less of them, the thread may wait for data instead. */
#define FEED_WORK_SHARE 0.90

bool account_is_known(const struct process_account *account)
{
	return account->sampled && 2 * account->all.ns[ACCOUNT_UNKNOWN] < account->all.wall_ns;
}

uint64_t account_busy_ns(const struct account *account)
{
	return account->ns[ACCOUNT_COMPUTING] + account->ns[ACCOUNT_SPINNING] +
	       account->ns[ACCOUNT_RUNNABLE];
}

static uint64_t working_ns(const struct account *account)
{
	return account->ns[ACCOUNT_COMPUTING] + account->ns[ACCOUNT_RUNNABLE];
}

/* Waits for a known time, device or process. If nothing computes, the program does nothing else. */
static uint64_t concrete_wait_ns(const struct account *account)
{
	return account->ns[ACCOUNT_SLEEP] + account->ns[ACCOUNT_DISK] +
	       account->ns[ACCOUNT_OUTPUT] + account->ns[ACCOUNT_LOCK];
}

static uint64_t lock_wait_ns(const struct account *account)
{
	return account->ns[ACCOUNT_LOCK];
}

uint64_t process_busy_ns(const struct profile_process *process)
{
	uint64_t busy_ns = known_or(process->cpu_ns, 0);

	for (size_t i = 0; i < process->threads_count; i++)
		busy_ns += known_or(process->threads[i].runnable_ns, 0);
	return busy_ns;
}

/* Levels of children, as below launchers and compilers. It is limited because reused pids could
 * form a loop. */
#define CHILDREN_DEPTH 8

/* Sum over all processes below `above`, in that many levels. */
static uint64_t children_busy_ns(const struct profile *profile, const struct profile_process *above,
				 unsigned depth)
{
	uint64_t busy_ns = 0;

	for (size_t i = 0; i < profile->processes_count && depth; i++) {
		const struct profile_process *child = &profile->processes[i];

		if (profile_is_child(profile, child, above))
			busy_ns += process_busy_ns(child) +
				   children_busy_ns(profile, child, depth - 1);
	}
	return busy_ns;
}

/* The parent also waits for a child whose work is to sleep, read or write. Findings are about such
 * a child, unless it lives for a part of the recording only. */
static uint64_t children_wait_ns(const struct making *m)
{
	const struct profile *profile = m->contexts.profile;
	struct account waits = {0};

	FOR_EACH (child, profile->processes) {
		if (!profile_is_child(profile, child, m->contexts.process) ||
		    2 * profile_wall_ns(child) < profile_wall_ns(m->contexts.process))
			continue;
		FOR_EACH_OF (wait, child->blocked)
			waits.ns[wait_class(wait)] += wait->ns;
	}
	return concrete_wait_ns(&waits);
}

const struct account *account_of_thread(const struct process_account *account, uint32_t tid)
{
	FOR_EACH (thread, account->threads)
		if (thread->tid == tid)
			return thread;
	return NULL;
}

bool account_is_brief(const struct process_account *account, const struct account *thread)
{
	return 2 * thread->wall_ns < account->longest_wall_ns;
}

/* The thread other than but_tid with the most work; NULL: there is no other. */
static const struct account *busiest_of(const struct process_account *account, uint32_t but_tid,
					uint64_t (*work_ns)(const struct account *account))
{
	const struct account *busiest = NULL;

	for (size_t i = 0; i < account->threads_count; i++)
		if (account->threads[i].tid != but_tid &&
		    (!busiest || work_ns(&account->threads[i]) > work_ns(busiest)))
			busiest = &account->threads[i];
	return busiest;
}

static uint64_t sum_of_candidate(const struct wait_sums *waits, enum join_candidate candidate)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
		sum += waits->ns[candidate][k];
	return sum;
}

static void move_to_join(struct account *account, const struct wait_sums *waits,
			 enum join_candidate candidate)
{
	for (size_t k = 0; k < ACCOUNT_CLASSES; k++) {
		account->ns[k] -= waits->ns[candidate][k];
		account->ns[ACCOUNT_JOIN] += waits->ns[candidate][k];
	}
}

/* Sets which candidates among a thread's waits are joins, given the work of the process's other
 * threads and of its children. False: none is. */
static bool choose_joins(const struct account *thread, const struct wait_sums *waits,
			 uint64_t threads_ns, uint64_t children_ns, double own_share,
			 bool is_join[CANDIDATES])
{
	double wall_ns = (double)thread->wall_ns, work = (double)(threads_ns + children_ns);
	double own = (double)(thread->ns[ACCOUNT_COMPUTING] + thread->ns[ACCOUNT_SPINNING]);
	uint64_t sum_ns = 0;

	is_join[CANDIDATE_JOIN] = is_join[CANDIDATE_POOL] = true;
	is_join[CANDIDATE_NAP] = own < own_share * wall_ns;
	is_join[CANDIDATE_FEED] =
		own < FEED_OWN_SHARE * wall_ns && (double)threads_ns >= FEED_WORK_SHARE * wall_ns;
	for (int i = CANDIDATE_JOIN; i < CANDIDATES; i++)
		sum_ns += is_join[i] ? sum_of_candidate(waits, i) : 0;
	return wall_ns > 0 && (double)sum_ns >= JOIN_SHARE * wall_ns &&
	       work >= JOIN_WORK_SHARE * (double)sum_ns;
}

/* Time in which a thread waits for something that the other one then gives it: a batch, a result.
 */
static uint64_t woken_ns(const struct making *m, uint32_t tid, uint32_t by_tid)
{
	const struct profile_activities *waits = &m->contexts.process->blocked;
	uint64_t ns = 0;

	FOR_EACH_OF (wait, *waits)
		if (wait->tid == tid && wait->holder_tid == by_tid &&
		    wait->reason == PERFX_WAIT_FUTEX && wait_class(wait) == ACCOUNT_OTHER)
			ns += wait->ns;
	return ns;
}

/* `waits` are those of the thread that would be the driver. If it has no steps and only waits for
 * other threads, the busiest of these becomes the driver. The thread of the steps stays the driver,
 * and children only feed it. */
/* account->all: of the other threads alone. */
static void find_joins(struct making *m, struct account *driver, struct wait_sums *waits)
{
	struct process_account *account = m->account;
	bool has_steps = m->contexts.process->steps.count > 0, is_join[CANDIDATES] = {0};
	/* polling is no work */
	uint64_t threads_ns = working_ns(&account->all), children_ns = 0, pool_ns, untimed_ns;
	const struct account *busiest = busiest_of(account, driver->tid, working_ns);
	const struct account *waiting = busiest_of(account, driver->tid, concrete_wait_ns);
	const struct account *locked = busiest_of(account, driver->tid, lock_wait_ns);
	double joins = (double)sum_of_candidate(waits, CANDIDATE_JOIN);
	double naps = (double)sum_of_candidate(waits, CANDIDATE_NAP);
	uint64_t given_ns = waiting ? woken_ns(m, driver->tid, waiting->tid) : 0;
	bool given = (double)given_ns >= JOIN_SHARE * (double)driver->wall_ns;

	if (has_steps) {
		/* it waits for its pool without a timeout: its sleeps and reads are no joins */
		untimed_ns = waits->ns[CANDIDATE_NAP][ACCOUNT_OTHER];
		memset(waits->ns[CANDIDATE_POOL], 0, sizeof(waits->ns[CANDIDATE_POOL]));
		memset(waits->ns[CANDIDATE_NAP], 0, sizeof(waits->ns[CANDIDATE_NAP]));
		memset(waits->ns[CANDIDATE_FEED], 0, sizeof(waits->ns[CANDIDATE_FEED]));
		waits->ns[CANDIDATE_NAP][ACCOUNT_OTHER] = untimed_ns;
	} else {
		children_ns =
			children_busy_ns(m->contexts.profile, m->contexts.process, CHILDREN_DEPTH);
	}
	/* where the others only sleep or read, the driver waits for that */
	if (!has_steps && waiting && busiest &&
	    (given || (double)threads_ns < JOIN_WORK_SHARE * joins) &&
	    concrete_wait_ns(waiting) > threads_ns) {
		busiest = waiting;
		threads_ns += concrete_wait_ns(waiting);
	}
	/* while this thread sleeps, the others wait for each other's locks: that is the problem */
	if (!has_steps && locked && (double)threads_ns < JOIN_WORK_SHARE * naps &&
	    (double)lock_wait_ns(locked) >= JOIN_WORK_SHARE * naps) {
		busiest = locked;
		threads_ns += lock_wait_ns(locked);
	}
	if (!has_steps && (double)(threads_ns + children_ns) < JOIN_WORK_SHARE * joins)
		children_ns += children_wait_ns(m);
	if (!choose_joins(driver, waits, threads_ns, children_ns,
			  given ? WOKEN_OWN_SHARE : JOIN_OWN_SHARE, is_join)) {
		/* a thread that waits for its pool only at times is limited by the pool
		 * nevertheless
		 */
		pool_ns = sum_of_candidate(waits, CANDIDATE_POOL);
		if (pool_ns &&
		    (double)(threads_ns + children_ns) >= JOIN_WORK_SHARE * (double)pool_ns) {
			move_to_join(driver, waits, CANDIDATE_POOL);
			account->pool_tid = driver->tid;
		}
		return;
	}
	for (int i = CANDIDATE_JOIN; i < CANDIDATES; i++)
		if (is_join[i])
			move_to_join(driver, waits, i);
	account->joins_children = children_ns > threads_ns;
	account->joins = !account->joins_children;
	if (account->joins && !has_steps)
		account->tid = busiest->tid;
}

uint64_t pipeline_ns(const struct profile_process *process, uint32_t tid, bool judged)
{
	uint64_t ns = 0;

	FOR_EACH_OF (sample, process->samples)
		if (sample->tid != tid && stack_has(sample->stack, CODE_PIPELINE_TAKEN))
			ns += judged ? activity_judged_ns(sample) : sample->ns;
	return ns;
}

ORDER(by_ns, struct account_place, DESCENDING(a->ns, b->ns), ASCENDING(a->tid, b->tid))

static int settle_threads(struct making *m)
{
	static const enum account_class fed[] = {ACCOUNT_JOIN, ACCOUNT_OTHER};
	const struct profile_process *process = m->contexts.process;
	struct process_account *account = m->account;
	struct wait_sums waits, driver_waits = {0};
	struct account *driver = NULL;
	uint64_t fed_ns;

	account->tid = process->steps.count ? process->steps.tid : process->untraced.tid ?: process->pid;
	account->threads = calloc(m->threads_count + 1, sizeof(*account->threads));
	if (!account->threads)
		return -ENOMEM;
	for (; account->threads_count < m->threads_count; account->threads_count++) {
		struct thread_making *t = &m->threads[account->threads_count];
		struct account *thread = &account->threads[account->threads_count];
		uint64_t known_ns = 0;

		waits = (struct wait_sums){0};
		*thread = (struct account){.tid = t->tid, .stops_count = t->stops_count};
		settle(t, thread, &waits);
		/* the time that is in no class goes to UNKNOWN */
		for (size_t k = 0; k < ACCOUNT_UNKNOWN; k++)
			known_ns += thread->ns[k];
		thread->ns[ACCOUNT_UNKNOWN] =
			thread->wall_ns > known_ns ? thread->wall_ns - known_ns : 0;
		account->all.wall_ns += thread->wall_ns;
		account->all.stops_count += thread->stops_count;
		for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
			account->all.ns[k] += thread->ns[k];
		if (thread->wall_ns > account->longest_wall_ns)
			account->longest_wall_ns = thread->wall_ns;
		if (t->tid == account->tid) {
			driver = thread;
			driver_waits = waits;
		}
	}
	if (!driver)
		return 0;
	for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
		account->all.ns[k] -= driver->ns[k];
	find_joins(m, driver, &driver_waits);
	/* while a thread of TensorFlow reads the next batch of a step, the driver waits for data */
	fed_ns = process->steps.count ? pipeline_ns(process, driver->tid, false) : 0;
	for (size_t i = 0; i < sizeof(fed) / sizeof(fed[0]); i++) {
		uint64_t ns = min_u64(fed_ns, driver->ns[fed[i]]);

		fed_ns -= ns;
		driver->ns[fed[i]] -= ns;
		driver->ns[ACCOUNT_INPUT] += ns;
	}
	for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
		account->all.ns[k] += driver->ns[k];
	return 0;
}

struct place account_native(const struct process_account *account, enum account_class class)
{
	struct lines native = {0};

	for (size_t i = 0; i < account->places_count; i++)
		if (account->places[i].class == class)
			lines_add(&native, account->places[i].native, account->places[i].ns);
	return lines_lead(&native);
}

static void find_leads(struct making *m)
{
	struct process_account *account = m->account;
	const uint64_t *ns = account->all.ns;

	for (size_t k = 0; k < ACCOUNT_CLASSES; k++)
		account->leads[k] = lines_lead(&m->leads[k]).frame;
	account->leads[ACCOUNT_SPINNING] = account_native(account, ACCOUNT_SPINNING).frame;
	account->main_line = lines_lead(&m->leads[ACCOUNT_CLASSES]).frame;
	/* its samples were counted as those of a sleep or of a wait for a child */
	if (ns[ACCOUNT_JOIN] && !account->leads[ACCOUNT_JOIN])
		account->leads[ACCOUNT_JOIN] = account->leads[ACCOUNT_SLEEP]
						       ?: account->leads[ACCOUNT_CHILD]
						       ?: account->leads[ACCOUNT_OTHER];
}

int account_find(struct process_account *account, const struct profile *profile,
		 const struct profile_process *process)
{
	struct making m = {.account = account, .spinning = spinning_of(process)};

	*account = (struct process_account){.sampled = process->samples.count > 0};
	m.err = contexts_begin(&m.contexts, profile, process)
			?: place_finder_begin(&m.finder, &m.contexts);
	m.leads = calloc(ACCOUNT_CLASSES + 1, sizeof(*m.leads));
	if (!m.leads)
		m.err = -ENOMEM;
	for (size_t i = 0; i < process->threads_count && !m.err; i++) {
		struct thread_making *t = thread_of(&m, process->threads[i].tid);

		if (t)
			t->facts = &process->threads[i];
	}
	for (size_t i = 0; i < process->samples.count && !m.err; i++)
		add_sample(&m, &process->samples.list[i]);
	for (size_t i = 0; i < process->blocked.count && !m.err; i++) {
		const struct profile_activity *wait = &process->blocked.list[i];
		enum account_class class = wait_class_of(&m.contexts, wait);
		struct thread_making *t = thread_of(&m, wait->tid);

		if (!t)
			break;
		t->exact.ns[join_candidate_of(&m.contexts, wait, class)][class] += wait->ns;
		t->stops_count += class == ACCOUNT_STOPPED ? wait->count : 0;
	}
	if (!m.err)
		m.err = settle_threads(&m);
	if (!m.err)
		find_leads(&m);
	if (account->places_count)
		qsort(account->places, account->places_count, sizeof(*account->places), by_ns);
	contexts_clear(&m.contexts);
	map64_clear(&m.tids);
	map64_clear(&m.places);
	place_finder_clear(&m.finder);
	free(m.threads);
	free(m.leads);
	return m.err;
}

void account_clear(struct process_account *account)
{
	free(account->threads);
	free(account->places);
	*account = (struct process_account){0};
}
