// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Calls of the C library on files and sockets: counts, bytes and times by process and group of
 * files. Sums, no events: a data loader reads thousands of files a second.
 *
 * Major faults of mapped files are counted as well, by a perf event.
 *
 * A group is the files of one folder with the same suffix, or the peer of sockets. Pipes, local
 * sockets and devices are not counted.
 */
#include "stack.bpf.h"

/* include/uapi/linux/stat.h, linux/socket.h */
#define S_IFMT	 0170000
#define S_IFREG	 0100000
#define S_IFSOCK 0140000
#define AF_INET	 2
#define AF_INET6 10

#define SOCK_STREAM 1

SUM_MAP(file_calls, PERFX_MAX_FILE_SUMS);

volatile __u32 perfx_next_file_group = PERFX_FILES_OTHER + 1;
struct group_key {
	__u64 folder; /* inode of the folder; sockets: hash of the peer */
	__u64 suffix; /* hash */
	__u32 device, is_socket;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PERFX_MAX_FILE_GROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct group_key);
	__type(value, __u32);
} perfx_file_group_ids SEC(".maps");

/* By id; user space names them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space: PERFX_MAX_FILE_GROUPS where files are recorded */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct perfx_files_seen);
} perfx_files_seen SEC(".maps");

struct file_thread {
	/* The open call. A call inside it, of a signal handler, is not counted. */
	__u64 ret_addr_sp; /* address of its return address; 0: none */
	__u64 return_address;
	__u64 start_ns;
	__u64 stored_bytes; /* stored_bytes() of the last call or fault */
	__u64 offset;	    /* READ_FILE, of a file */
	__u64 file;	    /* its address; 0: not counted */
	__u32 group, is_socket;
	__u64 last_file, last_end; /* of the last read */
	__u64 sent_file, sent_ns;  /* the socket of the last write, until it is read */
	/* of the file that was used last: most calls use it again */
	__u64 known_file, known_inode;
	__u32 known_group, known_is_socket;
	__u32 process, recording_window;
	__u32 number; /* of the thread: PERFX_FILE_KEY */
	__u32 tid;    /* 0: of several threads */
	/* new sums, all 0: no room on the stack, below which there are five calls for a sample */
	struct perfx_file_calls none;
	/* Time in calls until the next sample, and since the last one. */
	__s64 until_sample_ns;
	__u64 since_sample_ns;
	__u64 execs; /* of the process: exec keeps this state, for which it is another process */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct file_thread);
} perfx_file_threads SEC(".maps");

/* A thread builds a stack here. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call_stack);
} perfx_file_stacks SEC(".maps");

/* Bytes that the thread has fetched from storage. */
static __always_inline __u64 stored_bytes(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return bpf_core_field_exists(task->ioac.read_bytes) ? task->ioac.read_bytes : 0;
}

/* NULL: the current thread has no state, or of an earlier program or window. */
static __always_inline struct file_thread *thread_known(struct task_struct *task)
{
	struct file_thread *t = bpf_task_storage_get(&perfx_file_threads, task, NULL, 0);

	return t && t->process && t->recording_window == current_recording_window() &&
			       t->execs == task->self_exec_id
		       ? t
		       : NULL;
}

/* NULL: its process is not traced, or no memory. */
static __always_inline struct file_thread *thread_make(struct task_struct *task,
						       struct perfx_traced_process *traced)
{
	struct file_thread *t;

	if (!traced)
		return NULL;
	t = task_storage_make(&perfx_file_threads, task);
	if (!t) {
		counter_add(PERFX_COUNTER_MAP_FULL, 1);
		return NULL;
	}
	t->process = traced->process;
	t->recording_window = current_recording_window();
	t->execs = task->self_exec_id;
	t->ret_addr_sp = t->last_file = t->sent_file = t->known_file = 0;
	t->stored_bytes = stored_bytes();
	t->number = __sync_fetch_and_add(&traced->file_threads, 1) + 1;
	if (t->number >= PERFX_MAX_FILE_THREADS)
		t->number = 0;
	t->tid = t->number ? task->pid : 0;
	return t;
}

/* Bytes of the longest suffix, its dot included. */
#define SUFFIX_BYTES 16

/* The hash of a name's suffix, such as ".jpg"; 0: the name has none. */
static __always_inline __u64 suffix_of(const struct dentry *dentry)
{
	__u32 length = BPF_CORE_READ(dentry, d_name.len);
	const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
	char tail[SUFFIX_BYTES] = {};
	__u64 hash = 0;

	if (length > SUFFIX_BYTES)
		name += length - SUFFIX_BYTES;
	bpf_probe_read_kernel(tail, length < SUFFIX_BYTES ? length : SUFFIX_BYTES, name);
	for (int i = 0; i < SUFFIX_BYTES; i++)
		if (tail[i] == '.')
			hash = HASH_BASIS;
		else if (hash && tail[i])
			hash = mix(hash, (__u8)tail[i]);
	return hash;
}

struct path_text {
	struct dentry *dentry;
	char *text; /* of PERFX_FILE_PATH_BYTES */
	__u32 length;
};

/* Adds a name and a '/'. The root of a file system is its own parent. */
static long path_step(__u32 i, void *ctx)
{
	struct path_text *path = ctx;
	struct dentry *dentry = path->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	__u32 at = path->length;
	long bytes;

	if (!parent || parent == dentry || at > PERFX_FILE_PATH_BYTES - PERFX_FILE_NAME_BYTES)
		return 1;
	bytes = bpf_probe_read_kernel_str(&path->text[at], PERFX_FILE_NAME_BYTES,
					  BPF_CORE_READ(dentry, d_name.name));
	if (bytes <= 0)
		return 1;
	at += bytes;
	path->text[(at - 1) & (PERFX_FILE_PATH_BYTES - 1)] = '/';
	path->length = at;
	path->dentry = parent;
	return 0;
}

/* The socket's peer; false: it is of another family. */
static __always_inline bool read_peer(const struct file *file, struct perfx_peer *peer)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);

	peer->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	peer->port = __builtin_bswap16(BPF_CORE_READ(sock, __sk_common.skc_dport));
	peer->is_stream = BPF_CORE_READ(sock, sk_type) == SOCK_STREAM;
	if (peer->family == AF_INET)
		peer->address[0] = BPF_CORE_READ(sock, __sk_common.skc_daddr);
	else if (peer->family == AF_INET6)
		BPF_CORE_READ_INTO(&peer->address, sock, __sk_common.skc_v6_daddr);
	else
		return false;
	return true;
}

/* The id of a new group, or that of all others if there are too many. seen: where user space finds
 * it. */
static __always_inline __u32 new_group(const struct group_key *key, struct perfx_files_seen **seen)
{
	__u32 group = __sync_fetch_and_add(&perfx_next_file_group, 1), *made;

	*seen = NULL;
	if (group >= PERFX_MAX_FILE_GROUPS)
		return PERFX_FILES_OTHER;
	if (!bpf_map_update_elem(&perfx_file_group_ids, key, &group, BPF_NOEXIST)) {
		*seen = bpf_map_lookup_elem(&perfx_files_seen, &group);
		return group;
	}
	made = bpf_map_lookup_elem(&perfx_file_group_ids, key);
	return made ? *made : PERFX_FILES_OTHER;
}

static __always_inline void describe(struct perfx_files_seen *seen)
{
	seen->tgid = current_tgid();
	barrier();
	seen->ready = 1;
}

static __always_inline __u32 group_of_socket(const struct file *file)
{
	struct group_key key = {.is_socket = 1};
	struct perfx_files_seen *seen;
	struct perfx_peer peer = {};
	__u32 group, *known;

	if (!read_peer(file, &peer))
		return 0;
	key.folder = mix(mix(HASH_BASIS, peer.address[0]), peer.address[1]);
	key.suffix = (__u64)peer.port << 32 | peer.family << 1 | peer.is_stream;
	known = bpf_map_lookup_elem(&perfx_file_group_ids, &key);
	if (known)
		return *known;
	group = new_group(&key, &seen);
	if (seen) {
		seen->peer = peer;
		describe(seen);
	}
	return group;
}

static __always_inline __u32 group_of_file(const struct file *file, __u64 inode)
{
	struct dentry *dentry = BPF_CORE_READ(file, f_path.dentry);
	struct group_key key = {.folder = BPF_CORE_READ(dentry, d_parent, d_inode, i_ino),
				.suffix = suffix_of(dentry),
				.device = BPF_CORE_READ(file, f_inode, i_sb, s_dev)};
	__u32 *known = bpf_map_lookup_elem(&perfx_file_group_ids, &key), group;
	struct perfx_files_seen *seen;
	struct path_text path = {.dentry = dentry};

	if (known) {
		group = *known;
		seen = bpf_map_lookup_elem(&perfx_files_seen, &group);
		if (seen && seen->inode != inode && !seen->several)
			seen->several = 1;
		return group;
	}
	group = new_group(&key, &seen);
	if (seen) {
		seen->inode = inode;
		seen->device = key.device;
		path.text = seen->path;
		repeat(PERFX_FILE_DEPTH, path_step, &path);
		describe(seen);
	}
	return group;
}

/* Finds the group of a file, into t->known_group; 0: it is not counted. A global function: the
 * verifier walks it once. */
__noinline int find_group(struct file_thread *t, __u64 address)
{
	const struct file *file = (const struct file *)address;
	__u64 inode = BPF_CORE_READ(file, f_inode, i_ino);
	__u32 type = BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;

	if (!t || (t->known_file == address && t->known_inode == inode))
		return 0;
	t->known_file = address;
	t->known_inode = inode;
	t->known_is_socket = type == S_IFSOCK;
	t->known_group = type == S_IFSOCK  ? group_of_socket(file)
			 : type == S_IFREG ? group_of_file(file, inode)
					   : 0;
	return 0;
}

/* Returns whether the call is inside another one, which has not been left by a longjmp. */
static __always_inline bool is_inside(const struct file_thread *t, __u64 ret_addr_sp)
{
	return t->ret_addr_sp > ret_addr_sp && read_word(t->ret_addr_sp) == t->return_address;
}

static __always_inline void call_begins(struct file_thread *t,
					const struct perfx_annotation *annotation,
					struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 sp = PT_REGS_SP(ctx), arguments[8] = {};
	struct file *file = NULL;

	if (is_inside(t, sp))
		return;
	read_arguments(arguments, ctx);
	t->ret_addr_sp = sp;
	t->return_address = read_word(sp);
	t->file = 0;
	if (annotation->action != PERFX_ANNOTATION_OPEN_FILE) {
		file = file_of(task, (__s32)arguments[annotation->key_arg & 7]);
		find_group(t, (__u64)file);
		t->group = file ? t->known_group : 0;
		t->is_socket = t->known_is_socket;
		t->file = t->group ? (__u64)file : 0;
		t->offset = annotation->tag_arg ? arguments[annotation->tag_arg & 7]
						: BPF_CORE_READ(file, f_pos);
	}
	t->stored_bytes = stored_bytes();
	t->start_ns = bpf_ktime_get_ns();
}

/* Bytes that the thread has fetched since its last call or fault. */
static __always_inline __u64 newly_stored(struct file_thread *t)
{
	__u64 before = t->stored_bytes;

	t->stored_bytes = stored_bytes();
	return t->stored_bytes - before;
}

static __always_inline void add_read(struct file_thread *t, struct perfx_file_calls *sums,
				     __u64 bytes, __u64 now)
{
	__sync_fetch_and_add(&sums->reads_count, 1);
	__sync_fetch_and_add(&sums->read_bytes, bytes);
	__sync_fetch_and_add(&sums->read_ns, now - t->start_ns);
	if (t->is_socket) {
		if (bytes && t->sent_file == t->file) {
			__sync_fetch_and_add(&sums->answers_count, 1);
			__sync_fetch_and_add(&sums->answer_ns, now - t->sent_ns);
			t->sent_file = 0;
		}
		return;
	}
	__sync_fetch_and_add(&sums->stored_bytes, newly_stored(t));
	if (t->last_file == t->file ? t->last_end == t->offset : !t->offset)
		__sync_fetch_and_add(&sums->sequential_count, 1);
	t->last_file = t->file;
	t->last_end = t->offset + bytes;
}

/* A sample stands for so much time in calls, on average. */
#define SAMPLE_NS 10000000
/* The next try, where an unwind table was missing, which user space is loading. */
#define RETRY_NS 1000000

/* Returns whether to sample the call; *ns: the time that it stands for. is_new: it is the first one
 * of the thread and group. */
static __always_inline bool is_sampled(struct file_thread *t, bool is_new, __u64 call_ns, __u64 *ns)
{
	*ns = call_ns;
	if (is_new)
		return true;
	t->since_sample_ns += call_ns;
	t->until_sample_ns -= call_ns;
	if (t->until_sample_ns > 0)
		return false;
	*ns = t->since_sample_ns;
	t->since_sample_ns = 0;
	t->until_sample_ns = SAMPLE_NS / 2 + bpf_get_prandom_u32() % SAMPLE_NS;
	return true;
}

static __always_inline void emit_file_sample(struct file_thread *t, struct pt_regs *ctx,
					     __u64 ret_addr_sp, __u64 ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct perfx_traced_process *traced = traced_of(task);
	struct perfx_file_sample record = {.process = t->process, .group = t->group, .ns = ns};
	struct call_stack *stack = task_storage_make(&perfx_file_stacks, task);
	void *ring = ring_of(&perfx_memory, task->pid);

	if (!traced || !stack || !ring)
		return;
	stack_walk_return(stack, ctx, t->return_address, ret_addr_sp);
	if (PERFX_STACK_END(stack->head.flags) == PERFX_STACK_END_NO_TABLE) {
		t->since_sample_ns += ns;
		t->until_sample_ns = RETRY_NS;
		return;
	}
	record.stack = stack_id(stack, traced->memory_process, task->pid);
	record.hdr.size = record.hdr.fixed = sizeof(record);
	record.hdr.kind = PERFX_KIND_FILE_SAMPLE;
	record.time_ns = bpf_ktime_get_ns();
	record.tid = task->pid;
	if (bpf_ringbuf_output(ring, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		count_lost_sample(t->process);
}

/* NULL: no room. */
static __always_inline struct perfx_file_calls *file_sums(struct file_thread *t, __u32 group)
{
	t->none.process = t->process;
	t->none.key = PERFX_FILE_KEY(t->number, group);
	t->none.group = group;
	t->none.tid = t->tid;
	return sums_get(&perfx_sum_file_calls, &t->none);
}

static __always_inline void call_ends(struct file_thread *t, __u8 action, struct pt_regs *ctx)
{
	struct perfx_file_calls *sums;
	__s64 result = (__s64)PT_REGS_RC(ctx);
	__u64 now = bpf_ktime_get_ns(), ret_addr_sp = t->ret_addr_sp, ns;
	struct file *file;
	bool is_new;

	t->ret_addr_sp = 0;
	if (action == PERFX_ANNOTATION_OPEN_FILE) {
		file = (__s32)result < 0 ? NULL
					 : file_of(bpf_get_current_task_btf(), (__s32)result);
		/* the address may be that of a file that was closed */
		t->known_file = 0;
		find_group(t, (__u64)file);
		t->group = file && !t->known_is_socket ? t->known_group : 0;
	}
	if (!t->group)
		return;
	sums = file_sums(t, t->group);
	if (!sums)
		return;
	is_new = !(sums->opens_count | sums->reads_count | sums->writes_count | sums->errors_count);
	if (is_sampled(t, is_new, now - t->start_ns, &ns))
		emit_file_sample(t, ctx, ret_addr_sp, ns);
	if (action == PERFX_ANNOTATION_OPEN_FILE) {
		__sync_fetch_and_add(&sums->opens_count, 1);
		__sync_fetch_and_add(&sums->open_ns, now - t->start_ns);
		t->last_file = 0;
	} else if (result < 0) {
		/* a socket that would block fails, too */
		if (!t->is_socket)
			__sync_fetch_and_add(&sums->errors_count, 1);
	} else if (action == PERFX_ANNOTATION_READ_FILE) {
		add_read(t, sums, result, now);
	} else {
		__sync_fetch_and_add(&sums->writes_count, 1);
		__sync_fetch_and_add(&sums->write_bytes, result);
		__sync_fetch_and_add(&sums->write_ns, now - t->start_ns);
		t->sent_file = t->is_socket ? t->file : 0;
		t->sent_ns = now;
	}
}

SEC("uprobe")
int perfx_on_file_call(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct perfx_annotation *annotation;
	struct perfx_probe *probe;
	__u64 sp = PT_REGS_SP(ctx), fp = PT_REGS_FP(ctx);
	struct file_thread *t;
	__u32 index, rule;
	bool enters;

	stay_on_thread_stack(ctx);
	if (!is_recording() || !gate_open(ctx, &index))
		return 0;
	probe = probe_of(index);
	rule = probe ? probe->rule : 0;
	annotation = bpf_map_lookup_elem(&perfx_annotations, &rule);
	if (!probe || !annotation)
		return 0;
	enters = probe->kind == PERFX_PROBE_ANNOTATION;
	if (!enters && !(probe->flags & PERFX_PROBE_F_LEAVES) &&
	    !condition_holds(ctx, probe->condition))
		return 0;
	t = thread_known(task);
	if (!t && enters)
		t = thread_make(task, process_at(probe));
	if (!t)
		return 0;
	count_hit(index);
	/* the verifier refuses a computed offset into ctx */
	barrier_var(sp);
	barrier_var(fp);
	if (enters)
		call_begins(t, annotation, ctx);
	else if (t->ret_addr_sp == (probe->cfa_is_fp ? fp : sp) + (__s64)probe->cfa_offset - 8)
		call_ends(t, annotation->action, ctx);
	return 0;
}

enum bpf_func_id___find_vma { BPF_FUNC_find_vma___find_vma = 180 };

static long note_file(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	*(__u64 *)ctx = (__u64)BPF_CORE_READ(vma, vm_file);
	return 0;
}

/* The group of the file that is mapped at an address of the current thread; 0: none is. The kernel
 * may be changing the mappings: then all others. */
static __always_inline __u32 group_at(struct file_thread *t, struct task_struct *task,
				      __u64 address)
{
	__u64 file = 0;
	long err;

	if (!bpf_core_enum_value_exists(enum bpf_func_id___find_vma, BPF_FUNC_find_vma___find_vma))
		return PERFX_FILES_OTHER;
	err = bpf_find_vma(task, address, note_file, &file, 0);
	if (err)
		return PERFX_FILES_OTHER;
	if (!file)
		return 0;
	find_group(t, file);
	return t->known_is_socket ? 0 : t->known_group;
}

/* A fault for which the kernel waited for storage has ended: a software event, once each. */
SEC("?perf_event")
int perfx_on_major_fault(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct perfx_traced_process *traced;
	struct perfx_file_calls *sums;
	struct file_thread *t;
	__u64 bytes;
	__u32 group;

	if (!is_recording())
		return 0;
	traced = traced_of(task);
	if (!traced)
		return 0;
	t = thread_known(task);
	if (!t)
		t = thread_make(task, traced);
	if (!t)
		return 0;
	bytes = newly_stored(t);
	group = group_at(t, task, ctx->addr);
	sums = group ? file_sums(t, group) : NULL;
	if (!sums)
		return 0;
	__sync_fetch_and_add(&sums->faults_count, 1);
	__sync_fetch_and_add(&sums->fault_bytes, bytes);
	return 0;
}
