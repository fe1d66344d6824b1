/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol between the tracer and libperfx-gpu.so, its agent in a process that uses a GPU: how
 * the agent finds the tracer, the messages of their socket, and the ring for records.
 *
 * The socket is AF_UNIX, SOCK_SEQPACKET: a message is a packet. The tracer writes the socket or its
 * name into the library's image before it injects the library (struct perfx_agent_config). With
 * `run`, CUDA_INJECTION64_PATH names the library and PERFX_GPU_SOCKET the socket. Then:
 *
 *	tracer → agent   START, with the memfd of the ring
 *	agent → tracer   HELLO: it records; or REFUSED, with the reason, and nothing more
 *	agent → tracer   FILLED: the ring has new records
 *	tracer → agent   STOP or STEP_ASIDE
 *	agent → tracer   STOPPED or STEPPED_ASIDE, the last message
 *
 * The agent stops by itself when the socket is closed, the deadline has passed or the process
 * exits. Its data is as untrusted as its process: the tracer copies first and checks the copy.
 */
#ifndef PERFX_AGENT_H
#define PERFX_AGENT_H

#include <linux/types.h>
#include <string.h>

#define PERFX_AGENT_VERSION 3
/* The abstract socket's name, without the leading NUL. */
#define PERFX_AGENT_SOCKET_VARIABLE "PERFX_GPU_SOCKET"
#define PERFX_AGENT_SOCKET_NAME	    32 /* bytes, NUL included */

/* --- in the image ----------------------------------------------------------------------------- */

#define PERFX_AGENT_MAGIC "\x7fperfx-gpu-agent" /* 16 bytes */

/* Once in the image, aligned to 8; the injector finds it by its magic. */
struct perfx_agent_config {
	char magic[16];
	__u32 version;	 /* PERFX_AGENT_VERSION */
	__u32 size;	 /* of this struct */
	__s32 socket_fd; /* in the process; -1: by name */
	__u32 pad;
	/* The abstract socket's, without the leading NUL; "": that of PERFX_GPU_SOCKET. */
	char socket_name[PERFX_AGENT_SOCKET_NAME];
};

/* --- CUPTI ------------------------------------------------------------------------------------ */

/* Why this release (cuptiGetVersion) is not used; NULL: no reason is known. */
static inline const char *perfx_agent_bad_cupti(__u32 version)
{
	switch (version) {
	case 130000:
		return "13.0 can deadlock when kernels are no longer recorded: Update 1 mends it";
	default:
		return 0;
	}
}

/* The profiler that uses CUPTI by its own library `file`; NULL: none of these. */
static inline const char *perfx_agent_profiler(const char *file)
{
	static const struct {
		const char *prefix, *name;
	} profilers[] = {
		{"libToolsInjection", "Nsight Systems"},
		{"libcuda-injection", "Nsight Compute"},
		{"libsanitizer-", "Compute Sanitizer"},
		{"libparcagpu", "parcagpu"},
	};

	for (unsigned i = 0; i < sizeof(profilers) / sizeof(profilers[0]); i++)
		if (!strncmp(file, profilers[i].prefix, strlen(profilers[i].prefix)))
			return profilers[i].name;
	return 0;
}

/* --- messages --------------------------------------------------------------------------------- */

enum perfx_agent_message {
	PERFX_AGENT_START = 1,
	PERFX_AGENT_STOP = 2,
	/* The process's own profiler begins and has CUPTI for itself from now on. */
	PERFX_AGENT_STEP_ASIDE = 3,
	PERFX_AGENT_HELLO = 16,
	PERFX_AGENT_REFUSED = 17,
	PERFX_AGENT_STOPPED = 18,
	PERFX_AGENT_STEPPED_ASIDE = 19,
	/* A message instead of an eventfd: a program that closes all descriptors may reuse the
	 * number for its own file, which the agent detects by a socket's inode. */
	PERFX_AGENT_FILLED = 20,
};

/* Graphs as nodes: a record for each kernel and copy in them instead of one for each launch. */
#define PERFX_AGENT_GRAPH_NODES 0x1

struct perfx_agent_start {
	__u32 kind; /* PERFX_AGENT_START, _STOP, _STEP_ASIDE; the latter two use only this field */
	__u32 version;
	__u32 level;	   /* 1 or 2, as --gpu */
	__u32 flags;	   /* PERFX_AGENT_GRAPH_NODES */
	__u64 deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	__u64 ring_bytes;  /* of the memfd */
};

#define PERFX_AGENT_TEXT 232

struct perfx_agent_answer {
	__u32 kind;
	__u32 version;
	__u32 cupti_version;  /* as cuptiGetVersion gives it; 0: unknown */
	__u32 driver_version; /* as cuDriverGetVersion gives it; 0: unknown */
	__u32 tid;	      /* of the agent, in the process's pid namespace */
	__u32 pad;
	__u64 left_mapped_bytes; /* STOPPED, STEPPED_ASIDE: bytes of the agent that stay mapped */
	/* HELLO: CUPTI's version and file; otherwise the reason, one clause. NUL-terminated. */
	char text[PERFX_AGENT_TEXT];
};

/* --- the ring --------------------------------------------------------------------------------- *
 *
 * One producer, the agent's thread; one consumer, the tracer. Positions count bytes since the start
 * and never wrap; data lies at position % data_bytes. A record does not wrap: a PAD record skips
 * the end of the ring if it is too short. The agent never waits: records without room are counted.
 */

#define PERFX_AGENT_RING_MAGIC	 0x78667270 /* "prfx" */
#define PERFX_AGENT_RING_DATA	 4096	    /* offset of the data: the header has its own page */
#define PERFX_AGENT_RING_DEFAULT (PERFX_AGENT_RING_DATA + (16u << 20))

/* The agent's losses so far. */
struct perfx_agent_losses {
	__u64 ring_full;       /* records without room in the ring */
	__u64 cupti_dropped;   /* records that CUPTI reports as dropped */
	__u64 unbuffered;      /* buffers that CUPTI requested and did not get */
	__u64 thrown_buffers;  /* buffers discarded unread: CUPTI before API 27 */
	__u64 untimed;	       /* records without a start or an end */
	__u64 unknown_kinds;   /* records of kinds that were not requested */
	__u64 unknown_buffers; /* completed buffers that are not of the agent's pool */
	__u64 unnamed;	       /* kernels beyond the table of names: name is 0 */
};
#define PERFX_AGENT_LOSSES 8 /* members */

struct perfx_agent_ring {
	/* Written by the tracer before START. */
	__u32 magic;
	__u32 version;
	__u64 data_bytes; /* a power of two */
	__u8 pad0[48];
	/* Written by the agent. */
	__u64 head; /* behind the last record; stored with release */
	struct perfx_agent_losses losses;
	__u8 pad1[56];
	/* Written by the tracer. */
	__u64 tail; /* read up to here; stored with release */
	__u8 pad2[56];
};

enum perfx_agent_record_kind {
	PERFX_AGENT_PAD = 1,
	PERFX_AGENT_NAME = 2,
	PERFX_AGENT_ACTIVITY = 3,
	PERFX_AGENT_CALL = 4,
	PERFX_AGENT_DEVICE = 5,
};

struct perfx_agent_record {
	__u32 size; /* bytes, this header included, a multiple of 8 */
	__u32 kind; /* enum perfx_agent_record_kind */
};

#define PERFX_AGENT_NAME_MAX 4096 /* bytes of a name, NUL included; a longer one is cut */

/* A kernel without a name: the text is made from its record's address. */
#define PERFX_AGENT_NAME_UNKNOWN 0x1

/* Before the first record that names it. The text follows, NUL-terminated, padded with NULs. */
struct perfx_agent_name {
	struct perfx_agent_record hdr;
	__u32 name;  /* from 1 on, per agent */
	__u32 flags; /* PERFX_AGENT_NAME_UNKNOWN */
};

/* The process's number of a device, which depends on CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER,
 * and the device's UUID. Before the first activity. */
struct perfx_agent_device {
	struct perfx_agent_record hdr;
	__u32 device; /* CUDA's ordinal */
	__u32 pad;
	__u8 uuid[16]; /* of the GPU, or of its part (MIG) */
};

/* An activity of the device. Fields that do not apply are 0. */
struct perfx_agent_activity {
	struct perfx_agent_record hdr;
	__u64 start_ns, end_ns; /* CLOCK_MONOTONIC */
	__u64 bytes;		/* COPY, MEMSET */
	__u64 call;		/* CUPTI's correlation id */
	__u32 device;		/* CUDA's ordinal */
	__u32 stream;
	__u32 name;  /* KERNEL */
	__u32 graph; /* 0: in none */
	__u32 grid[3], block[3];
	__u32 static_shared_bytes, dynamic_shared_bytes;
	__u16 registers;  /* of a thread */
	__u8 op;	  /* enum perfx_gpu_op */
	__u8 direction;	  /* enum perfx_gpu_direction */
	__u8 host_memory; /* enum perfx_gpu_host_memory */
	__u8 pad[3];
};

/* A call of the CUDA runtime or driver. */
struct perfx_agent_call {
	struct perfx_agent_record hdr;
	__u64 start_ns, end_ns;
	__u64 call; /* CUPTI's correlation id */
	__u32 tid;  /* in the process's pid namespace */
	__u32 name;
	__u8 op; /* enum perfx_gpu_op */
	__u8 pad[7];
};

#endif
