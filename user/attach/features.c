// SPDX-License-Identifier: BSD-2-Clause
#include "attach/features.h"

#include "attach/hit_cost.h"
#include "attach/links.h"
#include "attach/perf_links.h"
#include "attach/sampler.h"
#include "base/cache.h"
#include "base/hash.h"
#include "elf/image.h"
#include "proc/process.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* int count(void *ctx) { __sync_fetch_and_add(&map[0], 1); return 0; } */
static int load_counter(int map_fd, int attach_type)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4, .imm = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -4},
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = BPF_REG_1,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = map_fd},
		{.code = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = 2, .imm = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_1, .imm = 1},
		{.code = BPF_STX | BPF_ATOMIC | BPF_DW,
		 .dst_reg = BPF_REG_0,
		 .src_reg = BPF_REG_1,
		 .imm = BPF_ADD},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)attach_type);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "perfx_try", "Dual BSD/GPL", insns,
			       sizeof(insns) / sizeof(insns[0]), &opts);

	return fd < 0 ? -errno : fd;
}

static uint64_t read_counter(int map_fd)
{
	uint32_t key = 0;
	uint64_t value = 0;

	bpf_map_lookup_elem(map_fd, &key, &value);
	return value;
}

static void *call_calib_target(void *calib_target)
{
	((const struct calib_target *)calib_target)->call();
	return NULL;
}

/* Hits when a second thread of this process calls the calibration target under a link of the
 * given kind. A link for one process is left to the end of the process; one for all processes is
 * closed at once, because it would stop other programs. */
static uint64_t hits_under_multi(int map_fd, int attach_type, int exe_fd, pid_t pid)
{
	const struct calib_target *calib_target = calib_target_of(PERFX_SITE_STEPPED, false);
	uint64_t cookie = 0, before = read_counter(map_fd), offset;
	int64_t found = calib_target_offset(calib_target->entry);
	int prog_fd = load_counter(map_fd, attach_type), link_fd;
	struct link_points points = {.offsets = &offset, .cookies = &cookie, .count = 1};
	pthread_t thread;

	if (prog_fd < 0 || found < 0)
		return 0;
	offset = (uint64_t)found;
	link_fd = link_multi(prog_fd, attach_type, exe_fd, pid, false, &points);
	if (link_fd < 0)
		return 0;
	if (!pthread_create(&thread, NULL, call_calib_target, (void *)calib_target))
		pthread_join(thread, NULL);
	if (!pid)
		close(link_fd);
	return read_counter(map_fd) - before;
}

/* The optimized nop5 jumps to the uprobe system call, which fails when it is called from
 * elsewhere. Tried in a child, in case the kernel answers with a signal. */
static bool have_uprobe_syscall(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(syscall(336) == -1 && errno == ENOSYS ? 1 : 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The first hit of a link at a nop5 turns it into a call to a page that the kernel maps for
 * that. Linux 6.18 gives a forked child the call but not the page. */
static bool child_survives(int map_fd, int exe_fd)
{
	const struct calib_target *calib_target = calib_target_of(PERFX_SITE_NOP5, false);
	int64_t found = calib_target ? calib_target_offset(calib_target->entry) : -ENOENT;
	uint64_t cookie = 0, offset = (uint64_t)found, before = read_counter(map_fd);
	struct link_points points = {.offsets = &offset, .cookies = &cookie, .count = 1};
	int prog_fd = load_counter(map_fd, BPF_ATTACH_UPROBE_MULTI), status;
	pid_t pid;

	if (found < 0 || prog_fd < 0 ||
	    link_multi(prog_fd, BPF_ATTACH_UPROBE_MULTI, exe_fd, getpid(), false, &points) < 0)
		return false;
	for (int i = 0; i < 3; i++)
		calib_target->call();
	if (read_counter(map_fd) - before != 3)
		return false;
	pid = fork();
	if (!pid) {
		/* with a handler the kernel does not log it */
		signal(SIGSEGV, _exit);
		calib_target->call();
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       !WEXITSTATUS(status);
}

/* Which links work. */
struct trial {
	bool optimized_nop5, uprobe_multi, multi_pid, uprobe_session, nop5_survives_fork;
};

static struct trial try_links(int map_fd)
{
	int exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct trial trial = {.optimized_nop5 = have_uprobe_syscall()};

	if (exe_fd < 0)
		return trial;
	/* entry and return: the program returns 0, so it runs twice. A kernel with sessions has
	 * the other links too. For one process only, because another tracer may be trying the
	 * same now */
	trial.uprobe_session =
		hits_under_multi(map_fd, BPF_ATTACH_UPROBE_SESSION, exe_fd, getpid()) == 2;
	trial.multi_pid = trial.uprobe_session ||
			  hits_under_multi(map_fd, BPF_ATTACH_UPROBE_MULTI, exe_fd, getpid());
	trial.uprobe_multi =
		trial.multi_pid || hits_under_multi(map_fd, BPF_ATTACH_UPROBE_MULTI, exe_fd, 0);
	trial.nop5_survives_fork =
		trial.optimized_nop5 && trial.multi_pid && child_survives(map_fd, exe_fd);
	return trial;
}

static int new_map(void)
{
	return bpf_map_create(BPF_MAP_TYPE_ARRAY, "perfx_try", 4, 8, 1, NULL);
}

/* May programs of the tracing kind be loaded? 0 or errno. */
static int try_load(int map_fd)
{
	int prog_fd = map_fd < 0 ? -errno : load_counter(map_fd, 0);

	if (prog_fd < 0)
		return -prog_fd;
	close(prog_fd);
	return 0;
}

/* A value of an enumeration: libbpf cannot try helpers of tracing programs. */
static bool has_helper(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, "bpf_func_id", BTF_KIND_ENUM);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;

	for (uint32_t i = 0; type && i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[i].name_off), name))
			return true;
	return false;
}

/* Does a program see the switches of CPUs? */
static bool have_switches(const struct btf *btf)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int id = btf__find_by_name_kind(btf, "btf_trace_sched_switch", BTF_KIND_TYPEDEF);
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .attach_btf_id = id > 0 ? (uint32_t)id : 0);
	int prog_fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "perfx_try", "Dual BSD/GPL", insns,
				    sizeof(insns) / sizeof(insns[0]), &opts);
	int link_fd = prog_fd < 0 ? -1 : bpf_raw_tracepoint_open(NULL, prog_fd);

	if (link_fd >= 0)
		close(link_fd);
	if (prog_fd >= 0)
		close(prog_fd);
	return link_fd >= 0;
}

/* Longest wait for the trial process: other tracers may hold the locks that attaching needs. */
#define TRIAL_MS 20000

void features_try(struct features *features)
{
	struct perf_event_attr clock = cpu_clock_attr(1000000000);
	int map_fd = new_map(), clock_fd, result[2] = {-1, -1};
	struct trial trial = {0};
	struct btf *btf;

	*features = (struct features){.load_error = try_load(map_fd)};
	features->privileged = !features->load_error;
	features->btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
	features->uprobe_perf = access("/sys/bus/event_source/devices/uprobe/type", R_OK) == 0;
	if (!features->privileged) {
		features->optimized_nop5 = have_uprobe_syscall();
		goto out;
	}
	/* A child tries the links, reports through a pipe and takes its links with it: the kernel
	 * needs 25 to 65 ms to close each, which delays nothing then. */
	if (!pipe2(result, O_CLOEXEC)) {
		features->trial_pid = fork();
		if (!features->trial_pid) {
			trial = try_links(map_fd);
			_exit(write(result[1], &trial, sizeof(trial)) != sizeof(trial));
		}
		close(result[1]);
	}
	features->ring_buffer = libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) == 1;
	features->cookies = libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE,
						    BPF_FUNC_get_attach_cookie, NULL) == 1;
	btf = features->btf ? btf__load_vmlinux_btf() : NULL;
	if (btf) {
		features->socket_lengths =
			btf__find_by_name(btf, "btf_trace_sock_send_length") > 0 &&
			btf__find_by_name(btf, "btf_trace_sock_recv_length") > 0;
		features->switches = have_switches(btf);
		features->uprobe_events = perf_events_work(btf);
		features->task_memory = has_helper(btf, "BPF_FUNC_copy_from_user_task");
		btf__free(btf);
	}
	clock_fd = (int)syscall(SYS_perf_event_open, &clock, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	features->cpu_clock = clock_fd >= 0 || errno == ENODEV; /* the CPU is offline */
	if (clock_fd >= 0)
		close(clock_fd);
	if (result[0] >= 0) {
		features->links_tried =
			features->trial_pid > 0 && process_answers(features->trial_pid, result[0],
								   &trial, sizeof(trial), TRIAL_MS);
		if (!features->links_tried)
			trial = (struct trial){0};
		close(result[0]);
	}
	features->optimized_nop5 = trial.optimized_nop5;
	features->uprobe_multi = trial.uprobe_multi;
	features->multi_pid = trial.multi_pid;
	features->uprobe_session = trial.uprobe_session;
	features->nop5_survives_fork = trial.nop5_survives_fork;
out:
	if (map_fd >= 0)
		close(map_fd);
}

/* 0: this boot or this build is not known. */
static uint64_t boot_key(uint64_t variant)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char boot[36] = ""; /* hexadecimal digits and dashes */
	ssize_t size = fd < 0 ? -1 : read(fd, boot, sizeof(boot));
	uint64_t key[] = {size > 0 ? fnv1a(boot, (size_t)size) : 0, image_own_id(), variant, 0};
	struct stat status;

	if (fd >= 0)
		close(fd);
	if (!stat("/proc/self/ns/mnt", &status))
		key[3] = status.st_ino;
	return key[0] && key[1] ? fnv1a(key, sizeof(key)) : 0;
}

bool boot_recall(const char *name, uint64_t variant, void *facts, size_t size)
{
	uint64_t key = boot_key(variant);
	char *path = key ? cache_path(name) : NULL;
	size_t kept_size = 0;
	void *kept = path ? cache_recall(path, key, size, &kept_size) : NULL;
	bool known = kept && kept_size == size;

	if (known)
		memcpy(facts, kept, size);
	free(kept);
	free(path);
	return known;
}

void boot_keep(const char *name, uint64_t variant, const void *facts, size_t size)
{
	uint64_t key = boot_key(variant);
	char *path = key ? cache_path(name) : NULL;

	/* a folder that cannot be written, a full disk: the next run finds out again */
	if (path)
		(void)cache_keep(path, key, facts, size);
	free(path);
}

#define FEATURES_FILE "features"

void features_find(struct features *features)
{
	int map_fd = new_map();
	/* may programs be loaded? That is not kept: it depends on the user */
	int load_error = try_load(map_fd);

	if (map_fd >= 0)
		close(map_fd);
	if (!load_error && boot_recall(FEATURES_FILE, 0, features, sizeof(*features))) {
		features->trial_pid = 0;
		return;
	}
	features_try(features);
	if (features->links_tried)
		boot_keep(FEATURES_FILE, 0, features, sizeof(*features));
}

void features_end(struct features *features)
{
	if (features->trial_pid > 0)
		process_reap(features->trial_pid, TRIAL_MS);
	features->trial_pid = 0;
}
