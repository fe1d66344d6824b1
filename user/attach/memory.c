// SPDX-License-Identifier: BSD-2-Clause
#include "attach/memory.h"

#include "base/emitted.h"
#include "base/message.h"
#include "base/order.h"
#include "base/text.h"
#include "base/units.h"
#include "decode/names.h"
#include "decode/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Duty cycle: recorded for ON_NS of each period. */
#define PERIOD_NS 1000000000u
#define ON_NS	  100000000u

/* A cost of so many times the limit: stacks are not all of it. */
#define MUCH 3
/* Frees are left out for so much of the limit already: little is lost by it, and a hit disturbs
 * more than what it takes itself. */
#define FREES_SHARE 0.5
/* So many stacks a second are followed, where following all costs too much: a PyTorch trainer's
 * take 15 to 20 us each, in caches that are the program's. */
#define STACKS_PER_S	 100
#define STACKS_EVERY_MIN 16

enum step {
	STEP_FULL = 0,
	STEP_FEW_STACKS,
	STEP_FREES_INFERRED,
	STEP_NO_FREES,
	STEP_DUTY,
	STEP_OFF
};

struct domain {
	bool recorded; /* at any time */
	enum perfx_memory_level level;
	enum step step;
	bool doubted; /* it cost too much once: the first stacks through new code do */
	bool by_default;
	bool on;				/* duty cycle: allocation probes are attached now */
	uint64_t switch_ns;			/* duty cycle: when that changes */
	uint64_t hits_count, allocations_count; /* when they were measured last */
	double spent_ns, trap_ns;		/* in the budget's window */
	double allocations_share;		/* of hits */
	uint64_t per_second;			/* allocations, since then */
};

/* In an OVERFLOW_MEMORY record, from allocs_count on. */
#define OVERFLOW_MEMORY_SUMS 3

struct memory {
	const struct plan *plan;
	struct tracer *tracer;
	struct probes *probes;
	struct sink *sink;
	uint64_t sample_bytes;
	bool all_processes;
	bool started;
	bool by_limit; /* that the user has given */
	enum growth growth;
	uint64_t measured_ns;
	struct domain domains[PERFX_DOMAINS];
	struct emitted lost_emitted; /* by process and domain, in OVERFLOW_MEMORY records */
	uint64_t drops_emitted;
	struct pack_buffer buffer;
};

struct memory *memory__new(const struct plan *plan, struct tracer *tracer, struct probes *probes,
			   struct sink *sink, const struct memory_options *options)
{
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	memory->plan = plan;
	memory->tracer = tracer;
	memory->probes = probes;
	memory->sink = sink;
	memory->lost_emitted.width = OVERFLOW_MEMORY_SUMS;
	memory->sample_bytes = options->sample_bytes;
	memory->all_processes = options->all_processes;
	return memory;
}

void memory__free(struct memory *memory)
{
	if (!memory)
		return;
	emitted_clear(&memory->lost_emitted);
	free(memory);
}

static bool has_alloc_probes(const struct plan *plan, enum perfx_domain domain)
{
	for (size_t i = 0; i < plan->functions_count; i++) {
		const struct plan_function *function = &plan->functions[i];

		if (function->role == PLAN_ALLOC_PROBE && function->alloc_probe.domain == domain)
			return true;
		if (domain == PERFX_DOMAIN_USER && plan_is_annotation(function) &&
		    function->annotation.action == PERFX_ANNOTATION_ALLOCATED)
			return true;
	}
	return false;
}

static void emit_mode(struct memory *memory, enum perfx_domain domain, uint64_t now_ns)
{
	const struct domain *d = &memory->domains[domain];
	struct perfx_memory_mode record = {
		.time_ns = now_ns,
		.sample_bytes = memory->sample_bytes,
		.on_ns = d->step == STEP_DUTY ? ON_NS : PERIOD_NS,
		.period_ns = PERIOD_NS,
		.domain = domain,
		.level = d->level,
	};
	SINK_PACK(memory->sink, &memory->buffer, PERFX_KIND_MEMORY_MODE, record);
}

static void set_level(struct memory *memory, enum perfx_domain domain,
		      enum perfx_memory_level level)
{
	struct domain *d = &memory->domains[domain];
	bool frees = level == PERFX_MEMORY_EXACT || level == PERFX_MEMORY_SAMPLED;

	d->level = level;
	d->on = level != PERFX_MEMORY_OFF;
	d->recorded = d->recorded || d->on;
	/* less is recorded from before the links go, more from after they have come */
	tracer__set_memory(memory->tracer, domain, level, memory->sample_bytes);
	hit_costs_sample(probes__hit_costs(memory->probes), domain, PERFX_MEMORY_IS_SAMPLED(level));
	probes__want_alloc(memory->probes, domain, d->on, frees);
}

/* The level at which a domain begins, by the files seen so far. */
static enum perfx_memory_level level_wanted(const struct memory *memory, enum perfx_domain domain)
{
	switch (memory->plan->options.memory) {
	case MEMORY_OFF:
		return PERFX_MEMORY_OFF;
	case MEMORY_TENSOR:
		return domain == PERFX_DOMAIN_HOST ? PERFX_MEMORY_OFF : PERFX_MEMORY_EXACT;
	case MEMORY_ALL:
		return PERFX_MEMORY_EXACT;
	case MEMORY_SAMPLED:
		return domain == PERFX_DOMAIN_HOST ? PERFX_MEMORY_SAMPLED : PERFX_MEMORY_EXACT;
	case MEMORY_DEFAULT:
		break;
	}
	if (domain != PERFX_DOMAIN_HOST)
		return PERFX_MEMORY_EXACT;
	/* every process of the machine calls malloc */
	if (memory->all_processes)
		return PERFX_MEMORY_OFF;
	/* allocation probes alone do not mean a framework: every Python has those that NumPy
	 * would call */
	return memory->plan->has_framework ? PERFX_MEMORY_OFF : PERFX_MEMORY_SAMPLED;
}

void memory__consider(struct memory *memory)
{
	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++) {
		struct domain *d = &memory->domains[domain];
		enum perfx_memory_level level = level_wanted(memory, domain);

		if (!has_alloc_probes(memory->plan, domain) || level == d->level ||
		    d->step != STEP_FULL)
			continue;
		d->by_default = memory->plan->options.memory == MEMORY_DEFAULT;
		if (memory->started && level == PERFX_MEMORY_OFF)
			msg_say("memory: a framework's allocator was loaded: its blocks are "
				"recorded instead of the heap (--memory all records both)");
		set_level(memory, domain, level);
		if (memory->started)
			emit_mode(memory, domain, memory->measured_ns);
	}
}

void memory__start(struct memory *memory, uint64_t now_ns)
{
	struct perfx_allocator mappings = {.allocator = PERFX_ALLOCATOR_MMAP,
					   .domain = PERFX_DOMAIN_HOST};

	/* mappings have no probed function, and so no module */
	if (memory->plan->options.memory == MEMORY_ALL)
		SINK_PACK(memory->sink, &memory->buffer, PERFX_KIND_ALLOCATOR, mappings, "mmap",
			  "");
	memory->started = true;
	memory->measured_ns = now_ns;
	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++)
		if (memory->domains[domain].recorded)
			emit_mode(memory, domain, now_ns);
}

void memory__paused(struct memory *memory, uint64_t from_ns, uint64_t to_ns)
{
	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++) {
		struct domain *d = &memory->domains[domain];
		enum perfx_memory_level level = d->level;

		if (!d->recorded)
			continue;
		d->level = PERFX_MEMORY_OFF;
		emit_mode(memory, domain, from_ns);
		d->level = level;
		emit_mode(memory, domain, to_ns);
	}
	memory->measured_ns = to_ns;
}

/* "tensor allocations sampled since 2.1 s: leaks cannot be placed; --memory tensor keeps them" */
static void say_step(const struct memory *memory, enum perfx_domain domain, const char *of,
		     const char *now, const char *effect)
{
	char what[64], note[160];

	snprintf(what, sizeof(what), "%s%s allocations", of, name_of_domain(domain));
	snprintf(note, sizeof(note), "%s; %s keeps them", effect,
		 memory->by_limit	       ? "a higher --max-overhead"
		 : domain == PERFX_DOMAIN_HOST ? "--memory sampled"
					       : "--memory tensor");
	msg_reduced(what, now, note);
}

static bool follows_all(const struct memory *memory, const struct domain *d)
{
	return d->step == STEP_FULL && d->level == PERFX_MEMORY_EXACT &&
	       tracer__stacks(memory->tracer) != PERFX_STACKS_OFF;
}

/* Frees can be left to what shows of them: of a sample's blocks too little does. */
static bool can_infer(const struct domain *d)
{
	return d->step <= STEP_FEW_STACKS && d->level == PERFX_MEMORY_EXACT;
}

static enum step next_step(const struct memory *memory, const struct domain *d)
{
	if (follows_all(memory, d))
		return STEP_FEW_STACKS;
	if (can_infer(d))
		return STEP_FREES_INFERRED;
	return d->step < STEP_NO_FREES ? STEP_NO_FREES : d->step + 1;
}

/* One in how many. */
static uint32_t thin_stacks(struct memory *memory, enum perfx_domain domain)
{
	uint32_t every = (uint32_t)max_u64(memory->domains[domain].per_second / STACKS_PER_S,
					   STACKS_EVERY_MIN);

	tracer__thin_stacks(memory->tracer, domain, every);
	return every;
}

static void enter_step(struct memory *memory, enum perfx_domain domain)
{
	struct domain *d = &memory->domains[domain];
	char now[96];

	switch (d->step) {
	case STEP_FULL:
		return;
	case STEP_FEW_STACKS:
		snprintf(now, sizeof(now), "one in %u", thin_stacks(memory, domain));
		say_step(memory, domain, "call stacks of ", now, "counts and bytes stay exact");
		return;
	case STEP_FREES_INFERRED:
		thin_stacks(memory, domain);
		set_level(memory, domain, PERFX_MEMORY_FREES_INFERRED);
		say_step(memory, domain, "", "without frees",
			 "a block counts as freed when its memory is given out again");
		break;
	case STEP_NO_FREES:
		set_level(memory, domain, PERFX_MEMORY_SAMPLED_IN);
		say_step(memory, domain, "",
			 domain == PERFX_DOMAIN_HOST ? "sampled without frees" : "sampled",
			 "leaks cannot be placed");
		break;
	case STEP_DUTY:
		set_level(memory, domain, PERFX_MEMORY_SAMPLED_IN);
		d->switch_ns = memory->measured_ns;
		say_step(memory, domain, "", "sampled for a tenth of the time",
			 "leaks cannot be placed");
		break;
	case STEP_OFF:
		set_level(memory, domain, PERFX_MEMORY_OFF);
		say_step(memory, domain, "", "not recorded", "their memory is not in the report");
		break;
	}
	emit_mode(memory, domain, memory->measured_ns);
}

void memory__measure_cost(struct memory *memory, uint64_t now_ns, double kept)
{
	uint64_t elapsed_ns = now_ns - memory->measured_ns;

	if (now_ns <= memory->measured_ns)
		return;
	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++) {
		struct domain *d = &memory->domains[domain];
		struct alloc_probe_cost cost;
		uint64_t hits;
		double share;

		if (!d->recorded)
			continue;
		cost = probes__alloc_cost(memory->probes, domain);
		hits = cost.allocations_count + cost.frees_count;
		share = hits ? (double)(hits - d->hits_count) / (double)hits : 0;
		d->spent_ns = kept * d->spent_ns + share * cost.cost_ns;
		d->trap_ns = kept * d->trap_ns + share * fmin(cost.trap_ns, cost.cost_ns);
		d->allocations_share = hits ? (double)cost.allocations_count / (double)hits : 1;
		d->per_second =
			(cost.allocations_count - d->allocations_count) * 1000000000 / elapsed_ns;
		d->hits_count = hits;
		d->allocations_count = cost.allocations_count;
	}
	memory->measured_ns = now_ns;
}

static bool can_go(const struct memory *memory, enum perfx_domain domain, bool everything)
{
	const struct domain *d = &memory->domains[domain];

	return d->recorded && d->step < STEP_OFF && (d->by_default || everything);
}

void memory__note_growth(struct memory *memory, enum growth growth)
{
	memory->growth = growth;
}

static bool places_leaks(const struct domain *d)
{
	return d->level == PERFX_MEMORY_EXACT || d->level == PERFX_MEMORY_SAMPLED ||
	       d->level == PERFX_MEMORY_FREES_INFERRED;
}

bool memory__places_leaks(const struct memory *memory)
{
	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++)
		if (places_leaks(&memory->domains[domain]))
			return true;
	return false;
}

void memory__add_expenses(const struct memory *memory, bool everything, double most_ns,
			  struct expenses *expenses)
{
	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++) {
		const struct domain *d = &memory->domains[domain];
		struct expense expense = {.of = EXPENSE_MEMORY, .index = domain, .ns = d->spent_ns};
		/* would the next step lose what shows where memory grows? */
		enum growth growth = places_leaks(d) && next_step(memory, d) >= STEP_NO_FREES
					     ? memory->growth
					     : GROWTH_NONE;

		if (!d->by_default && !everything)
			continue;
		if (can_go(memory, domain, everything) &&
		    !(growth == GROWTH_POSSIBLE && expense.ns <= most_ns)) {
			expenses_add(expenses,
				     growth == GROWTH_STEADY ? WORTH_GROWTH : WORTH_DETAIL,
				     expense);
			continue;
		}
		expenses->all_ns += expense.ns;
		expenses->deferred_ns += growth == GROWTH_POSSIBLE ? expense.ns : 0;
	}
}

/* The cost in the window, had the domain been in its new state: at least that of its traps. */
static double expected_ns(const struct domain *d)
{
	double allocations_ns = d->trap_ns * d->allocations_share;

	switch (d->step) {
	case STEP_FULL: /* in doubt: it is measured anew */
	case STEP_OFF:
		return 0;
	case STEP_FEW_STACKS:
		return d->trap_ns;
	case STEP_FREES_INFERRED:
	case STEP_NO_FREES:
		return allocations_ns;
	case STEP_DUTY:
		return allocations_ns * ON_NS / PERIOD_NS;
	}
	return 0;
}

void memory__reduce(struct memory *memory, enum perfx_domain domain, double limit_ns,
		    double allowed_ns, bool everything)
{
	struct domain *d = &memory->domains[domain];
	bool surely = d->spent_ns >= MUCH * limit_ns || d->trap_ns > allowed_ns;

	memory->by_limit = everything;
	/* The first stacks take several times as long as those after them, whose code has its
	 * unwind tables: what more there is to be done is seen when that is over. */
	if (follows_all(memory, d) && !d->doubted && !surely) {
		d->doubted = true;
	} else {
		do
			d->step = next_step(memory, d);
		while (expected_ns(d) > allowed_ns);
		enter_step(memory, domain);
	}
	d->spent_ns = expected_ns(d);
}

enum perfx_domain memory__costly_frees(const struct memory *memory, bool everything,
				       double limit_ns)
{
	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++) {
		const struct domain *d = &memory->domains[domain];

		if (can_go(memory, domain, everything) && can_infer(d) &&
		    d->spent_ns > FREES_SHARE * limit_ns)
			return domain;
	}
	return PERFX_DOMAINS;
}

void memory__tick(struct memory *memory, uint64_t now_ns)
{
	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++) {
		struct domain *d = &memory->domains[domain];

		if (d->step != STEP_DUTY || now_ns < d->switch_ns)
			continue;
		d->on = !d->on;
		d->switch_ns = now_ns + (d->on ? ON_NS : PERIOD_NS - ON_NS);
		probes__want_alloc(memory->probes, domain, d->on, false);
	}
}

static void report_lost(struct memory *memory, uint32_t process, enum perfx_domain domain)
{
	struct perfx_overflow_memory record = {.process = process, .domain = domain};
	uint64_t key = (uint64_t)process << 32 | domain;
	struct perfx_memory_lost lost;

	tracer__memory_lost(memory->tracer, process, domain, &lost);
	record.allocs_count = lost.allocs_count;
	record.allocated_bytes = lost.allocated_bytes;
	record.frees_count = lost.frees_count;
	emitted_subtract(&memory->lost_emitted, key, &record.allocs_count);
	if ((record.allocs_count || record.frees_count) &&
	    !emitted_add(&memory->lost_emitted, key, &record.allocs_count))
		SINK_PACK(memory->sink, &memory->buffer, PERFX_KIND_OVERFLOW_MEMORY, record);
}

void memory__report(struct memory *memory)
{
	uint32_t count = tracer__processes_count(memory->tracer);
	uint64_t drops = tracer__counter(memory->tracer, PERFX_COUNTER_MEMORY_DROPS);

	if (drops == memory->drops_emitted)
		return;
	memory->drops_emitted = drops;
	for (uint32_t process = 0; process < count && process < PERFX_MAX_PROCESSES; process++)
		for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++)
			report_lost(memory, process, domain);
}

/* The names of a domain's allocators, each once. */
static void add_allocators(struct text *text, const struct plan *plan, enum perfx_domain domain)
{
	const char *separator = "";

	for (size_t i = 0; i < plan->allocators_count; i++) {
		const struct plan_allocator *allocator = &plan->allocators[i];
		bool known = allocator->domain != domain;

		for (size_t j = 0; !known && j < i; j++)
			known = plan->allocators[j].domain == domain &&
				!strcmp(plan->allocators[j].name, allocator->name);
		if (known)
			continue;
		text_printf(text, "%s%s", separator, allocator->name);
		separator = ", ";
	}
}

char *memory__summary(const struct memory *memory)
{
	struct text text = {0};

	for (enum perfx_domain domain = PERFX_DOMAIN_HOST; domain < PERFX_DOMAINS; domain++) {
		/* blocks that the program marks have no allocator */
		if (memory->domains[domain].level == PERFX_MEMORY_OFF ||
		    domain == PERFX_DOMAIN_USER)
			continue;
		text_printf(&text, "%s%s%s (", text.length ? ", " : "", name_of_domain(domain),
			    PERFX_MEMORY_IS_SAMPLED(memory->domains[domain].level) ? " sampled"
										   : "");
		add_allocators(&text, memory->plan, domain);
		text_add(&text, ")");
	}
	return text_take(&text);
}
