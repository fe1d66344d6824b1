// SPDX-License-Identifier: BSD-2-Clause
#include "proc/descriptor.h"
#include "session/dump.h"

#include <stdlib.h>
#include <sys/stat.h>

struct wait_targets {
	struct pipe_users pipe_users;
};

struct wait_targets *wait_targets__new(void)
{
	struct wait_targets *targets = calloc(1, sizeof(*targets));

	if (targets)
		targets->pipe_users.sockets = true;
	return targets;
}

void wait_targets__free(struct wait_targets *targets)
{
	if (!targets)
		return;
	pipe_users__forget(&targets->pipe_users);
	free(targets);
}

static enum perfx_target_kind kind_of_file(mode_t mode)
{
	return S_ISFIFO(mode)	? PERFX_TARGET_PIPE
	       : S_ISSOCK(mode) ? PERFX_TARGET_SOCKET
				: PERFX_TARGET_FILE;
}

char *wait_targets__find(struct wait_targets *targets, pid_t pid,
			 const struct perfx_thread_state *state, struct perfx_wait_target *target)
{
	struct descriptor_facts facts;
	char *name;

	if (state->fd < 0)
		return NULL;
	target->kind = (uint8_t)kind_of_file((mode_t)state->mode);
	name = descriptor_name(&(struct descriptor){.pid = pid,
						    .fd = state->fd,
						    .inode = state->inode,
						    .device = state->device,
						    .mode = (mode_t)state->mode,
						    .reads = state->reason != PERFX_WAIT_WRITE},
			       &targets->pipe_users, &facts);
	target->pid = (uint32_t)facts.other;
	return name;
}
