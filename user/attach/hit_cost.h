/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of a hit on this host, now, in ns. The numbers differ from machine to machine (4 to
 * 17 µs for a stepped instruction on machines of one kind), so none is quoted. Only this file
 * computes them, from two parts:
 *
 * - The trap, calibrated: functions of our own are traced by the same programs and links that the
 *   target gets, and between two calls the data of the caches nearest to the CPU is replaced, as
 *   programs that do something between two hits do it.
 * - The programs, as the kernel accounts for them in the traced processes: stacks are deeper there,
 *   and caches colder, than in a loop.
 */
#ifndef PERFX_ATTACH_HIT_COST_H
#define PERFX_ATTACH_HIT_COST_H

#include "attach/tracer.h"
#include "perfx_record.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

/* Functions with a known first and last instruction. */
struct calib_target {
	enum perfx_site site;
	void (*call)(void);
	const unsigned char *entry; /* the instruction of that kind */
	const unsigned char *exit;  /* a `jmp` to the `ret`: a branch; NULL: none here */
};

/* The calibration target of a site kind, and that for return probes; NULL on an architecture
 * without. */
const struct calib_target *calib_target_of(enum perfx_site site, bool by_return);

/* File offset of an address in this program's own executable, for links on /proc/self/exe;
 * -errno. */
int64_t calib_target_offset(const void *address);

/* Which programs serve a function's probes. */
enum point_kind point_kind_of(const struct plan_function *function);

/* Mean ns a run, by enum tracer_program; 0: not known. */
struct run_times {
	double ns[TRACER_PROGRAMS];
};

/*
 * Runs of a program, by the ticks in which they were accounted for. The account is by the clock: a
 * run in which the host of a virtual machine, or an interrupt, had the CPU may have a thousand
 * times what it takes, as has the first one of a thread.
 */
#define RUN_ACCOUNTS 16
struct run_accounts {
	struct accounted_runs list[RUN_ACCOUNTS]; /* the last ones */
	unsigned count;				  /* that there have been */
};

/* False: so few runs are no account. */
bool run_accounts_add(struct run_accounts *accounts, struct accounted_runs runs);
/* Mean ns a run, without accounts that are far above the lowest one; 0: not known. */
double run_accounts_ns(const struct run_accounts *accounts);

#define SITE_KINDS (PERFX_SITE_STEPPED + 1)

struct calibration {
	/* by enum perfx_site; 0: not measured */
	double hit_ns[SITE_KINDS];  /* a hit at an entry or exit site, half of the program's work in
				       it */
	double call_ns[SITE_KINDS]; /* entry on that site and return probe together */
	/* Duration of the span of an empty call, by the entry's site: the part of the cost that
	 * lies between the two time stamps. With exit sites, and with a return probe. */
	double empty_span_ns[SITE_KINDS], empty_span_by_return_ns[SITE_KINDS];
	struct run_times run_times; /* of the programs in hit_ns and call_ns */
};

/* Before anything else is attached; leaves the tracer as if new. 0 or -errno: then all is 0. */
int calibrate(struct tracer *tracer, struct calibration *calibration);

/* Cost of a hit at a function's entry, with its return where that is probed; 0: not measured. */
double calibration_entry_ns(const struct calibration *calibration, enum site_kind entry,
			    enum perfx_return ret);
/* Cost of a hit at one of its exits, which are not hit where the return is probed. */
double calibration_exit_ns(const struct calibration *calibration, enum site_kind exit);
/* Cost of a call: the entry and the first exit, as it is not known which exit is hit. */
double calibration_call_ns(const struct calibration *calibration,
			   const struct plan_function *function, enum site_kind entry,
			   enum perfx_return ret);
/* The part of that between the call's own two time stamps. */
double calibration_span_ns(const struct calibration *calibration, enum site_kind entry,
			   enum perfx_return ret);

/* Work that tracing does in the traced processes without a probe. */
struct background_cost {
	struct background begun;	 /* when the account in progress began */
	struct accounted_runs accounted; /* not in accounts yet: too few */
	struct run_accounts accounts;
	double event_ns;       /* 0: not known */
	uint64_t events_count; /* that are in spent_ns */
	double spent_ns;
};

/* The part of an account that events of traced threads took: the rest of the runs does next to
 * nothing. */
struct accounted_runs background_of_traced(enum tracer_background which,
					   const struct background *before,
					   const struct background *after);

struct hit_costs {
	const struct tracer *tracer;
	const struct calibration *calibration;
	struct run_accounts accounts[TRACER_PROGRAMS];	  /* while tracing */
	struct accounted_runs accounted[TRACER_PROGRAMS]; /* what is in them, or forgotten */
	struct run_times run_times;			  /* by these accounts */
	/* Domains of which a sample is recorded: most entries decline the return probe. */
	bool sampled[PERFX_DOMAINS];
	struct background_cost background[TRACER_BACKGROUNDS];
	uint64_t ticks_count, waited_count; /* waited: since the last account */
	bool forgotten;			    /* and not measured anew yet */
};

/* To be called at each tick of the clock. Until the first one costs are the calibrated ones: the
 * first run of a thread makes its state, and is no measure. */
void hit_costs_watch(struct hit_costs *costs, struct tracer *tracer);
/* Hits on links that are being closed do nothing, and are no measure of those that stay: the next
 * account waits, but not for ever. */
bool hit_costs_wait(struct hit_costs *costs, bool links_are_closing);
/* The programs will take another time from now on: their run times are forgotten, and measured anew
 * within a few ticks. */
void hit_costs_forget(struct hit_costs *costs, struct tracer *tracer);
/* A domain's level has changed, and with it what the programs of all domains take. */
void hit_costs_sample(struct hit_costs *costs, enum perfx_domain domain, bool sampled);
/* As calibration_entry_ns and calibration_exit_ns, as far as is known now. */
double hit_costs_entry_ns(const struct hit_costs *costs, const struct plan_function *function,
			  enum site_kind entry, enum perfx_return ret);
double hit_costs_exit_ns(const struct hit_costs *costs, const struct plan_function *function,
			 enum site_kind exit);

#endif
