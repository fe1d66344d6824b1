// SPDX-License-Identifier: BSD-2-Clause
#include "base/message.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "proc/process.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Ancestors of a process that are checked. */
#define DESCENT_MAX 64

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

/* CAP_PERFMON allows reading a process's maps, but not its files and memory. */
static bool may_be_read(pid_t pid)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	char root[64];
	struct stat st;

	if (!syscall(SYS_capget, &header, data) && data[0].effective & CAP_TO_MASK(CAP_SYS_PTRACE))
		return true;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)process_task(pid));
	return !stat(root, &st) || (errno != EACCES && errno != EPERM);
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
	else if (!may_be_read(pid)) {
		msg_say("process %s (%s) is another user's: CAP_SYS_PTRACE is needed to read its "
			"files and memory: run with sudo, or grant it",
			name, info.comm);
		return EXIT_PRIVILEGE;
	} else
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

#define COMMAND_COLUMNS 50
#define NAMED_MAX	8
#define ANSWERS_MAX	3

/* "4711 python3 train.py --lr 0.1 (alice)": without the program's folders, which leaves room for
 * the script's name. */
static void add_process(struct text *text, pid_t pid)
{
	char *command = process_command(pid, " ", false), *slash;
	struct process_info info = {0};
	struct passwd *user = NULL;
	uid_t uid;
	gid_t gid;

	text_printf(text, "%d ", (int)pid);
	slash = command ? memrchr(command, '/', strcspn(command, " ")) : NULL;
	if (command && *command)
		utf8_cut(text, slash ? slash + 1 : command, COMMAND_COLUMNS);
	else
		text_add(text, process_info(pid, &info) ? "?" : info.comm);
	if (!process_owner(pid, &uid, &gid))
		user = getpwuid(uid);
	if (user)
		text_printf(text, " (%s)", user->pw_name);
	free(command);
}

/* "4711 python3 train.py (alice), 4712 python3 serve.py (bob) and 3 more" */
static void add_processes(struct text *text, const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count && i < NAMED_MAX; i++) {
		text_add(text, i ? ", " : "");
		add_process(text, pids[i]);
	}
	if (count > NAMED_MAX)
		text_printf(text, " and %zu more", count - NAMED_MAX);
}

static bool is_one_of(pid_t pid, const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Is the process a child of one of these, or a child's child? */
static bool descends_from(pid_t pid, const pid_t *pids, size_t count)
{
	struct process_info info;

	for (unsigned depth = 0; depth < DESCENT_MAX && !process_info(pid, &info); depth++) {
		pid = info.ppid;
		if (pid <= 0)
			return false;
		if (is_one_of(pid, pids, count))
			return true;
	}
	return false;
}

/* 0: all processes; n > 0: the nth process; -1: no valid answer. */
static int parse_answer(char *answer, const pid_t *pids, size_t count)
{
	unsigned long number;

	answer[strcspn(answer, " \n")] = '\0';
	if (!*answer || !strcmp(answer, "all"))
		return 0;
	number = text_is_number(answer) ? strtoul(answer, NULL, 10) : 0;
	for (size_t i = 0; i < count; i++)
		if (number == i + 1 || number == (unsigned long)pids[i])
			return (int)i + 1;
	return -1;
}

/* Asks for one or all of the processes. Returns a number as parse_answer() does. */
static int ask_user(const char *name, const pid_t *pids, size_t count)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char answer[64];
	int number = -1;

	msg_say("%zu processes are named %s:", count, name);
	for (size_t i = 0; i < count; i++) {
		struct text line = {0};

		add_process(&line, pids[i]);
		msg_say("%3zu) %s", i + 1, text_peek(&line));
		text_clear(&line);
	}
	for (unsigned i = 0; i < ANSWERS_MAX && number < 0; i++) {
		fputs("Which one? Its number or its pid; Enter: all ", stderr);
		/* end of input, or Ctrl-C */
		if (poll(&input, 1, -1) <= 0 || !fgets(answer, sizeof(answer), stdin)) {
			fputs("\n", stderr);
			break;
		}
		number = parse_answer(answer, pids, count);
	}
	if (number < 0)
		msg_say("no process was chosen: name one with -p PID");
	return number;
}

static int find_name(const char *name, const struct options *options, pid_t **pids, size_t *count)
{
	pid_t *found = NULL;
	ssize_t n = process_find(name, &found);
	size_t left = 0, first = 0;
	struct text list = {0};
	int code = EXIT_OK;

	/* children, such as a DataLoader's workers, are traced with their parents anyway */
	for (ssize_t i = 0; i < n; i++)
		if (found[i] != getpid() &&
		    (options->no_children || !descends_from(found[i], found, (size_t)n)))
			found[left++] = found[i];
	if (!left) {
		msg_say("no process named '%s': give the exact name of the program's file, "
			"or the title that ps shows",
			name);
		code = EXIT_FAILED;
	}
	/* at a terminal the user chooses one or all of several processes */
	if (left > 1 && isatty(STDIN_FILENO) && msg_has_status()) {
		int number = ask_user(name, found, left);

		if (number < 0)
			code = EXIT_USAGE;
		else if (number > 0)
			first = (size_t)number - 1, left = (size_t)number;
	} else if (left > 1) {
		add_processes(&list, found, left);
		msg_say("%zu processes are named %s, all are traced: %s", left, name,
			text_peek(&list));
		text_clear(&list);
	}
	for (size_t i = first; i < left && !code; i++)
		code = may_be_read(found[i]) ? add_pid(found[i], pids, count)
					     : check_pid(found[i], name);
	free(found);
	return code;
}

/* A shell has no functions to trace, but the programs that it starts may. */
static void say_shell(pid_t pid, const struct options *options)
{
	static const char *const shells[] = {"bash", "sh",   "dash", "zsh", "fish",
					     "ksh",  "tcsh", "csh",  NULL};
	const pid_t own = getpid();
	struct process_info info;
	pid_t *children = NULL;
	struct text list = {0};
	size_t count = 0;
	ssize_t n;

	if (process_info(pid, &info) || !text_is_one_of(info.comm, shells))
		return;
	n = options->no_children ? 0 : process_descendants(pid, &children);
	/* without this process and its ancestors, such as sudo */
	for (ssize_t i = 0; i < n; i++)
		if (children[i] != own && !descends_from(own, &children[i], 1))
			children[count++] = children[i];
	add_processes(&list, children, count);
	if (options->no_children)
		msg_say("process %d is a shell (%s): without --no-children the programs that it "
			"starts are traced, too",
			(int)pid, info.comm);
	else if (count)
		msg_say("process %d is a shell (%s): its children are traced: %s", (int)pid,
			info.comm, text_peek(&list));
	else
		msg_say("process %d is a shell (%s) without children: programs that it starts "
			"from now on are traced",
			(int)pid, info.comm);
	text_clear(&list);
	free(children);
}

/* This program's file as a shell finds it: sudo has a PATH of its own, without virtual environments
 * and ~/.local/bin. */
static void add_program(struct text *text, const struct options *options)
{
	bool has_folder = strchr(options->argv[0], '/');

	text_add(text, has_folder ? "" : "\"$(command -v ");
	shell_quote(text, options->argv[0]);
	text_add(text, has_folder ? "" : ")\"");
}

char *command_by_sudo(const struct options *options)
{
	struct text text = {0};

	text_add(&text, "sudo ");
	add_program(&text, options);
	for (char *const *argument = options->argv + 1; *argument; argument++) {
		text_add(&text, " ");
		shell_quote(&text, *argument);
	}
	return text_take(&text);
}

/* Ways for a user to get the privilege for this command line. */
static void say_privilege(const struct options *options)
{
	char *command = command_by_sudo(options);
	struct text program = {0};

	add_program(&program, options);
	msg_say("with sudo: %s", command ? command : "?");
	msg_say("or once, for every user who may execute the file (Linux 6.6 or later): "
		"sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep %s",
		text_peek(&program));
	text_clear(&program);
	free(command);
}

int targets_find(const struct options *options, pid_t **pids, size_t *count)
{
	int code = EXIT_OK;

	*pids = NULL;
	*count = 0;
	for (size_t i = 0; i < options->targets_count && !code; i++) {
		const char *text = options->targets[i];

		code = text_is_number(text) ? find_number(text, pids, count)
					    : find_name(text, options, pids, count);
	}
	for (size_t i = 0; i < *count && !code; i++)
		say_shell((*pids)[i], options);
	if (code == EXIT_PRIVILEGE && geteuid())
		say_privilege(options);
	return code;
}

/* --process PID: one that is there, and is a target's or its descendant's. */
static bool is_of_targets(pid_t pid, const struct options *options, const pid_t *pids, size_t count)
{
	struct process_info info;

	for (unsigned depth = 0; pid > 0 && depth < DESCENT_MAX; depth++) {
		if (is_one_of(pid, pids, count))
			return true;
		if (process_info(pid, &info))
			return false;
		if (options->all)
			return true;
		pid = options->no_children ? 0 : info.ppid;
	}
	return false;
}

int targets_check_process(const struct options *options, const pid_t *pids, size_t count)
{
	const char *name = options->process;
	struct process_info info;
	bool known;

	if (!name)
		return EXIT_OK;
	if (text_is_number(name))
		known = is_of_targets((pid_t)strtoul(name, NULL, 10), options, pids, count);
	else { /* any process, or a later child, may take that name */
		known = !options->no_children || options->all || options->command;
		for (size_t i = 0; i < count && !known; i++)
			known = !process_info(pids[i], &info) && !strcmp(info.comm, name);
	}
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

int features_check(struct features *features, const struct options *options)
{
	if (options->no_cache)
		features_try(features);
	else
		features_find(features);
	if (!features->privileged) {
		msg_say("no permission to load BPF programs (%s): %ssee perfx-trace doctor",
			strerror(features->load_error), geteuid() ? "run with sudo, or " : "");
		if (geteuid())
			say_privilege(options);
		return EXIT_PRIVILEGE;
	}
	if (!features->btf || !features->ring_buffer || !features->cookies) {
		msg_say("this kernel is too old: Linux 5.15 with BTF is needed; see perfx-trace "
			"doctor");
		return EXIT_FAILED;
	}
	if (!pids_are_the_hosts()) {
		msg_say("process ids of this container are not those of the host: run on the host, "
			"or start the container with --pid=host");
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

struct plan_options plan_options_of(const struct options *options, const struct features *features)
{
	bool session =
		options->link ? options->link == PERFX_LINK_SESSION : features->uprobe_session;

	return (struct plan_options){
		.facts_folder = options->facts_folder,
		.patterns = options->patterns,
		.patterns_count = options->patterns_count,
		.return_mode = options->return_mode,
		.site = {.entry_only = options->site_entry_only,
			 .optimized_nop5 = features->optimized_nop5,
			 .nop5_kills = features->optimized_nop5 && !features->nop5_survives_fork},
		.return_guard = session,
		.functions_max = options->functions_max,
		.memory = options->memory,
		.cost_model = options->cost_model,
		.operators = options->operators,
		.flops_too = options->flops == FLOPS_ON,
		.host_level = options->host_level,
		.gpu = options->gpu,
		.usdt = options->usdt,
		.usdt_count = options->usdt_count,
		.step_range = options->step_range,
		.wait = options->wait,
		.files = options->files,
		/* the driver's device; that of Windows; that of a Jetson */
		.no_cuda = access("/dev/nvidiactl", F_OK) && access("/dev/dxg", F_OK) &&
			   access("/dev/nvmap", F_OK),
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
