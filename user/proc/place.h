/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a process runs, by the names that a cluster's user knows: its container, pod, job and unit.
 *
 *	0::/kubepods.slice/…-pod2f1e….slice/cri-containerd-4be1….scope: container, UID of the pod
 *	/var/log/containers/llm-0_ml_trainer-4be1….log: their names
 *
 * The path of its cgroup, which the kernel gives, says what it runs in. What that is called stands
 * in files of the container runtimes on the host and, less certain, in what the process says of
 * itself. No daemon is asked.
 */
#ifndef PERFX_PROC_PLACE_H
#define PERFX_PROC_PLACE_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Malloc'd; NULL: not known. All zero at first. */
struct place {
	char *of[PERFX_PLACES]; /* by enum perfx_place_part */
};

void place_clear(struct place *place);

/* Its cgroup, and what that says. -errno: the process is gone. */
int place_read_cgroup(pid_t pid, struct place *place);
/* Adds the names of its container and pod that files of the host have. */
void place_add_names(struct place *place);
/* The same from a process of that container whose names are known. False: it is in another. */
bool place_add_names_of(struct place *place, const struct place *other);
/* Adds what the process itself says, which may be false: its environment and its host name. */
void place_read_claims(pid_t pid, struct place *place);

/* Of /proc/PID/cgroup. */
void place_parse_cgroup(const char *text, struct place *place);
/* Of an environment, "NAME=VALUE" NUL-separated, of which a few variables are read. */
void place_parse_environment(const char *environment, size_t bytes, struct place *place);
/* Of /etc/hostname in its root, where it has a host name of its own. */
void place_parse_hostname(const char *text, struct place *place);
/* Of a file in /var/log/containers, when it is that of its container:
 * POD_NAMESPACE_CONTAINER-ID.log. */
bool place_parse_log_file(const char *name, struct place *place);
/* Of a folder in /var/log/pods, when it is that of its pod: NAMESPACE_POD_UID. */
bool place_parse_log_folder(const char *name, struct place *place);
/* Of Docker's config.v2.json of its container, and of the list of them that Podman keeps
 * (containers.json). */
bool place_parse_docker(const char *json, size_t bytes, struct place *place);
bool place_parse_podman(const char *json, size_t bytes, struct place *place);

#endif
