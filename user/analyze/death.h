/* SPDX-License-Identifier: BSD-2-Clause */
/* How a process ended, in words, and whether that was a failure. */
#ifndef PERFX_ANALYZE_DEATH_H
#define PERFX_ANALYZE_DEATH_H

#include "aggregate/profile.h"
#include "base/text.h"

#include <stdbool.h>

enum death {
	DEATH_NONE = 0, /* it lives, or ended as it should: status 0 */
	DEATH_ASKED,   /* its parent, the terminal or itself ended it, or it dies with its parent */
	DEATH_STATUS,  /* an exit status other than 0 */
	DEATH_KILLED,  /* by another program or the kernel */
	DEATH_CRASHED, /* by a fault of its own, abort() */
	DEATH_OF_MEMORY, /* for lack of memory */
};

enum death death_of(const struct profile *profile, const struct profile_process *process);
/* Does its end fail the job? Of programs that the job only calls, such as a compiler, a status
 * other than 0 says nothing. */
bool death_is_failure(const struct profile *profile, const struct profile_process *process);
/* The failure with which all began; NULL: none. */
const struct profile_process *death_first(const struct profile *profile);

/* The signal by which it ended, or was asked to; NULL: none was seen. */
const struct perfx_signal *death_signal(const struct profile_process *process);
/* "SIGSEGV"; of a signal without a name "signal 40". Valid until the next call. */
const char *signal_words(int signal);

/* "exited with status 1", "was killed by SIGKILL from pkill (pid 4711) of bash (pid 4700)", "was
 * killed for lack of memory (SIGKILL by the kernel): its control group /job used 1.00 GiB of
 * 1.00 GiB", "crashed: SIGSEGV at 0xdead0000, where nothing is mapped". Only if it has ended. */
void death_add(struct text *text, const struct profile *profile,
	       const struct profile_process *process);
/* "status 1", "SIGKILL", "out of memory"; of one process also who sent a signal, "SIGKILL from
 * pkill (pid 4711)". */
void death_add_brief(struct text *text, const struct profile *profile,
		     const struct profile_process *process, bool whole);

/* The last sample of the thread that the signal ended, or else of the main thread; NULL: none. */
const struct profile_last_sample *death_sample(const struct profile_process *process);
/* Was it taken by the signal itself? */
bool death_sample_is_exact(const struct profile_process *process,
			   const struct profile_last_sample *sample);
/* Where to begin reading: the program's own Python frame, or its own native one; NULL: unknown. */
const struct profile_frame *death_place_of(const struct profile_last_sample *sample);
/* Of death_sample(). A status was chosen by the program: only its own lines say where. */
const struct profile_frame *death_place(const struct profile_process *process);

#endif
