// SPDX-License-Identifier: BSD-2-Clause
/*
 * The floor under every tracer: a BPF program that does nothing, attached to given places of a
 * process's executable or library.
 *
 *	empty_probe PID FILE OFFSET…            each place a plain probe (an entry, an exit site)
 *	empty_probe --return PID FILE OFFSET…   entry and return probe of functions
 *
 * Says "attached" and stays until its stdin is closed. Offsets are in the file, as strtoul takes
 * them. The best link that there is: session, then entry and return of uprobe_multi.
 */
#include "attach/links.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POINTS_MAX 64

static int load_empty(int attach_type)
{
	/* r0 = 0; exit. Of a session, 0 at entry asks for the return. */
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)attach_type);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "perfx_empty", "GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &opts);
}

static int attach(int attach_type, int file_fd, pid_t pid, bool at_return,
		  const struct link_points *points)
{
	int program_fd = load_empty(attach_type), link_fd;

	if (program_fd < 0)
		return -errno;
	link_fd = link_multi(program_fd, attach_type, file_fd, pid, at_return, points);
	close(program_fd); /* the link holds the program */
	return link_fd;
}

static int attach_returns(int file_fd, pid_t pid, const struct link_points *points)
{
	int link_fd = attach(BPF_ATTACH_UPROBE_SESSION, file_fd, pid, false, points);

	if (link_fd >= 0)
		return link_fd;
	link_fd = attach(BPF_ATTACH_UPROBE_MULTI, file_fd, pid, true, points);
	return link_fd < 0 ? link_fd : attach(BPF_ATTACH_UPROBE_MULTI, file_fd, pid, false, points);
}

int main(int argc, char **argv)
{
	bool by_return = argc > 1 && !strcmp(argv[1], "--return");
	char **args = argv + 1 + by_return, c;
	uint64_t offsets[POINTS_MAX], cookies[POINTS_MAX] = {0};
	struct link_points points = {.offsets = offsets, .cookies = cookies};
	int file_fd, err;
	pid_t pid;

	if (argc - by_return < 4 || argc - by_return > 3 + POINTS_MAX) {
		fprintf(stderr, "usage: empty_probe [--return] PID FILE OFFSET…\n");
		return 2;
	}
	pid = (pid_t)strtol(args[0], NULL, 10);
	file_fd = open(args[1], O_RDONLY | O_CLOEXEC);
	if (file_fd < 0) {
		perror(args[1]);
		return 1;
	}
	for (char **arg = args + 2; *arg; arg++)
		offsets[points.count++] = strtoull(*arg, NULL, 0);
	link_warm_pages(file_fd, offsets, points.count);
	err = by_return ? attach_returns(file_fd, pid, &points)
			: attach(BPF_ATTACH_UPROBE_MULTI, file_fd, pid, false, &points);
	if (err < 0) {
		fprintf(stderr, "empty_probe: %s\n", strerror(-err));
		return 1;
	}
	puts("attached");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
