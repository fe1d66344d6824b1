// SPDX-License-Identifier: BSD-2-Clause
/*
 * Room for the states of threads.
 *
 * What the programs know of a thread is allocated with its first hit, where the kernel may not
 * wait, and charged to the control group of the tracer. In one whose limit is reached, because it
 * is full of what was read from files, that fails until somebody who can wait has asked for memory,
 * and the thread's calls are not seen. So the tracer asks for some, by a map, which is refused
 * where nothing can be given up (touching pages would have a process killed there), and returns it.
 */
#include "attach/tracer_internal.h"

#include <bpf/bpf.h>
#include <unistd.h>

/* Of some two hundred threads; the kernel takes 2 ms to fill it with zeros. */
#define ROOM_VALUE_BYTES 4096
#define ROOM_VALUES	 2048

/* The counter grows for other reasons, too, which room is no help against. */
#define ROOM_TRIES_MAX 100

void tracer__make_room(struct tracer *tracer)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "perfx_room", sizeof(uint32_t),
				ROOM_VALUE_BYTES, ROOM_VALUES, NULL);

	if (fd >= 0)
		close(fd);
	tracer->room_tries++;
}

void tracer__renew_room(struct tracer *tracer)
{
	uint64_t full = tracer__counter(tracer, PERFX_COUNTER_MAP_FULL);

	if (full > tracer->room_lacked && tracer->room_tries < ROOM_TRIES_MAX)
		tracer__make_room(tracer);
	tracer->room_lacked = full;
}
