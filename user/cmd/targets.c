// SPDX-License-Identifier: BSD-2-Clause
#include "base/message.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "proc/process.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limit of ancestors that are looked at. */
#define DESCENT_MAX 64

static bool is_number(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isdigit((unsigned char)*text))
			return false;
	return true;
}

static int add_pid(pid_t pid, pid_t **pids, size_t *count)
{
	pid_t *grown;

	for (size_t i = 0; i < *count; i++)
		if ((*pids)[i] == pid)
			return EXIT_OK;
	grown = realloc(*pids, (*count + 1) * sizeof(*grown));
	if (!grown) {
		msg_say("out of memory");
		return EXIT_FAILED;
	}
	*pids = grown;
	grown[(*count)++] = pid;
	return EXIT_OK;
}

static int check_pid(pid_t pid, const char *name)
{
	struct process_info info;
	int err = process_info(pid, &info);

	if (err)
		msg_say("no process %s: find its id with ps or pgrep", name);
	else if (pid == getpid())
		msg_say("process %s is perfx-trace itself: name another", name);
	else if (info.kernel_thread)
		msg_say("process %s (%s) is a kernel thread: it has no user-space functions", name,
			info.comm);
	else if (process_has_ended(pid))
		msg_say("process %s (%s) has already exited (a zombie)", name, info.comm);
	else if (info.is_32bit)
		msg_say("process %s (%s) is a 32-bit program: only 64-bit ones can be traced", name,
			info.comm);
	else
		return EXIT_OK;
	return EXIT_FAILED;
}

/* A pid may also be a thread's: its process is meant. */
static int find_number(const char *text, pid_t **pids, size_t *count)
{
	unsigned long number;
	pid_t pid;
	int code;

	errno = 0;
	number = strtoul(text, NULL, 10);
	if (errno || number == 0 || number > INT32_MAX) {
		msg_say("-p %s: not a process id", text);
		return EXIT_USAGE;
	}
	pid = process_of_thread((pid_t)number);
	if (pid < 0)
		pid = (pid_t)number; /* check_pid() says what is wrong with it */
	code = check_pid(pid, text);
	return code ? code : add_pid(pid, pids, count);
}

static int find_name(const char *name, pid_t **pids, size_t *count)
{
	pid_t *found = NULL;
	ssize_t n = process_find(name, &found);
	size_t before = *count;
	int code = EXIT_OK;

	for (ssize_t i = 0; i < n && !code; i++)
		if (found[i] != getpid())
			code = add_pid(found[i], pids, count);
	free(found);
	if (code || *count > before)
		return code;
	msg_say("no process named '%s': give the exact name of the program's file", name);
	return EXIT_FAILED;
}

int targets_find(const struct options *options, pid_t **pids, size_t *count)
{
	int code = EXIT_OK;

	*pids = NULL;
	*count = 0;
	for (size_t i = 0; i < options->targets_count && !code; i++) {
		const char *text = options->targets[i];

		code = is_number(text) ? find_number(text, pids, count)
				       : find_name(text, pids, count);
	}
	return code;
}

/* --process PID: one that is there, and is a target's or its descendant's. */
static bool is_of_targets(pid_t pid, const struct options *options, const pid_t *pids, size_t count)
{
	struct process_info info;

	for (unsigned depth = 0; pid > 0 && depth < DESCENT_MAX; depth++) {
		for (size_t i = 0; i < count; i++)
			if (pids[i] == pid)
				return true;
		if (process_info(pid, &info))
			return false;
		if (options->all)
			return true;
		pid = options->no_children ? 0 : info.ppid;
	}
	return false;
}

static bool is_name_of_targets(const char *name, const pid_t *pids, size_t count)
{
	struct process_info info;

	for (size_t i = 0; i < count; i++)
		if (!process_info(pids[i], &info) && !strcmp(info.comm, name))
			return true;
	return false;
}

int targets_check_process(const struct options *options, const pid_t *pids, size_t count)
{
	const char *name = options->process;
	bool known;

	if (!name)
		return EXIT_OK;
	if (is_number(name))
		known = is_of_targets((pid_t)strtoul(name, NULL, 10), options, pids, count);
	else /* any process, or a later child, may take that name */
		known = !options->no_children || options->all || options->command ||
			is_name_of_targets(name, pids, count);
	if (known)
		return EXIT_OK;
	msg_say("--process %s: no such process will be traced", name);
	return EXIT_USAGE;
}

/* BPF programs see the host's pids, not those of a pid namespace. */
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCu /* include/linux/proc_ns.h: PROC_PID_INIT_INO */

bool pids_are_the_hosts(void)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == INITIAL_PID_NAMESPACE;
}

int features_check(struct features *features)
{
	features_try(features);
	if (!features->privileged) {
		msg_say("no permission to load BPF programs (%s): run with sudo, or see "
			"perfx-trace "
			"doctor",
			strerror(features->load_error));
		return EXIT_PRIVILEGE;
	}
	if (!features->btf || !features->ring_buffer || !features->cookies) {
		msg_say("this kernel is too old: Linux 5.15 with BTF is needed; see perfx-trace "
			"doctor");
		return EXIT_FAILED;
	}
	if (!pids_are_the_hosts()) {
		msg_say("process ids of this container are not those of the host: run on the host, "
			"or "
			"start the container with --pid=host");
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

struct plan_options plan_options_of(const struct options *options, const struct features *features)
{
	bool session =
		options->link ? options->link == PERFX_LINK_SESSION : features->uprobe_session;

	return (struct plan_options){
		.patterns = options->patterns,
		.patterns_count = options->patterns_count,
		.return_mode = options->return_mode,
		.site_entry_only = options->site_entry_only,
		.optimized_nop5 = features->optimized_nop5,
		.nop5_kills = features->optimized_nop5 && !features->nop5_survives_fork,
		.return_guard = session,
		.functions_max = options->functions_max,
		.memory = options->memory,
		.cost_model = options->cost_model,
		.flops_too = options->flops == FLOPS_ON,
		.host_level = options->host_level,
		.gpu = options->gpu,
		.usdt = options->usdt,
		.usdt_count = options->usdt_count,
		.step_range = options->step_range,
		.wait = options->wait,
	};
}

char *shell_join(char *const *argv)
{
	struct text text = {0};

	for (size_t i = 0; argv[i]; i++) {
		if (i)
			text_add(&text, " ");
		shell_quote(&text, argv[i]);
	}
	return text_take(&text);
}
