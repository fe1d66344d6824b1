/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libperfx-gpu.so, the agent in a process that uses a GPU. It drives CUPTI's activity API and hands
 * what CUPTI says to the tracer (perfx_agent.h).
 *
 * It is a guest: one thread of its own with all signals blocked, which alone calls CUPTI; the
 * program's threads only pass through the callbacks of buffers.c, which take no lock. Nothing is
 * allocated but by mmap. Only functions that the C library has had since 2.17 are called, so that
 * one file serves every process.
 *
 * In a forked child the thread is not there: each callback compares the pid and does nothing. The
 * ring is not mapped there (MADV_DONTFORK); CUPTI's buffers are, as a copy, since CUPTI itself may
 * still write to one.
 */
#ifndef PERFX_AGENT_AGENT_H
#define PERFX_AGENT_AGENT_H

#include "perfx_agent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is this the process that the agent works in, and not a child forked from it? */
bool agent_is_here(void);
uint64_t agent_now_ns(void); /* CLOCK_MONOTONIC */
/* The agent's thread has something to do. From any thread; takes no lock. */
void agent_wake(void);

/* Records that were lost, by reason. Callbacks add from any thread. */
enum loss {
	LOSS_RING_FULL,
	LOSS_CUPTI_DROPPED,
	LOSS_UNBUFFERED,
	LOSS_THROWN_BUFFERS,
	LOSS_UNTIMED,
	LOSS_UNKNOWN_KINDS,
	LOSS_UNKNOWN_BUFFERS,
	LOSS_UNNAMED,
};

/* Maps the ring that the tracer has sent; the descriptor stays the caller's. False: it is none. */
bool ring_map(int memfd, uint64_t bytes);
void ring_unmap(void);
void loss_add(enum loss loss, uint64_t count);
/* Puts a record into the ring; size and kind of its header are filled in. text: follows the fixed
 * part, or NULL. False: there is no room, which is counted. */
bool ring_put(void *record, size_t fixed_size, enum perfx_agent_record_kind kind, const char *text,
	      size_t text_bytes);
/* Shows the tracer the losses so far. Has anything been put since the last time? */
bool ring_publish(void);
/* The number of a name, which goes into the ring when it is new. 0: there is none. */
uint32_t ring_name(const char *text, uint32_t flags);

/* CUPTI's callbacks. */
void buffer_requested(uint8_t **buffer, size_t *size, size_t *records_max);
void buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

bool buffers_map(bool null_is_allowed);
/* Lends no more buffers, and unmaps them unless CUPTI still has one, to which it may write. */
void buffers_end(void);
size_t buffers_mapped_bytes(void);
/* Hands each complete buffer to parse, oldest first, and takes it back into the pool. */
void buffers_drain(void (*parse)(uint8_t *bytes, size_t valid));

/* CUPTI's functions, and the two of the driver, as they are called. Result 0 is success. */
struct cupti {
	void *library;
	uint32_t version;
	int driver_version;
	char path[256];
	int (*get_version)(uint32_t *version);
	int (*get_result_string)(int result, const char **text);
	int (*subscribe)(void **subscriber, void (*callback)(void *, int, uint32_t, const void *),
			 void *ctx);
	int (*subscribe_v2)(void **subscriber,
			    void (*callback)(void *, int, uint32_t, const void *), void *ctx,
			    void *params);
	int (*unsubscribe)(void *subscriber);
	int (*get_callback_name)(int domain, uint32_t call, const char **name);
	int (*register_callbacks)(void (*requested)(uint8_t **, size_t *, size_t *),
				  void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t));
	int (*register_timestamp)(uint64_t (*now_ns)(void));
	int (*set_thread_id_type)(int type);
	int (*activity_enable)(int kind);
	int (*activity_disable)(int kind);
	int (*enable_driver_call)(uint32_t call, uint8_t enable);
	int (*enable_runtime_call)(uint32_t call, uint8_t enable);
	int (*flush_all)(uint32_t flag);
	int (*next_record)(uint8_t *buffer, size_t valid, uint8_t **record);
	int (*dropped_records)(void *context, uint32_t stream, size_t *count);
	int (*tracing_is_running)(uint8_t *running); /* from 13.2 on */
};

extern struct cupti cupti;

/* The state of the driver, which must have been asked before any function of CUPTI is called: one
 * release dies of it where there is no device. */
enum driver { DRIVER_READY, DRIVER_NOT_YET, DRIVER_UNUSABLE };
enum driver driver_state(char *why, size_t why_size);
/* Puts what the driver's devices are into the ring. The driver is READY. */
void driver_tell_devices(void);

/* Finds CUPTI, and makes sure that it may be used here. False: why, one clause. injection: a
 * profiler that the driver has loaded before; NULL: none. */
bool cupti_open(const char *injection, char *why, size_t why_size);
/* Begins to record. False: why, and nothing is left enabled. */
bool cupti_begin(uint32_t level, uint32_t flags, char *why, size_t why_size);
void cupti_disable(void);

/* Domains of calls, as CUPTI numbers them. */
enum domain { DOMAIN_DRIVER = 1, DOMAIN_RUNTIME = 2, DOMAINS };
/* Calls of a domain are numbered below: CUDA 13 has 807. */
#define CALLS_MAX 1024

/* Kinds of records. */
enum cupti_kind {
	CUPTI_MEMCPY = 1,
	CUPTI_MEMSET = 2,
	CUPTI_DRIVER = 4,
	CUPTI_RUNTIME = 5,
	CUPTI_CONCURRENT_KERNEL = 10,
	CUPTI_MEMCPY_PEER = 22,
	CUPTI_SYNCHRONIZATION = 38,
	CUPTI_GRAPH_TRACE = 51,
};

/* The operation of a call of this name: enum perfx_gpu_op; INVALID: it is not recorded. The name is
 * as CUPTI has it: "cudaMemcpyAsync_ptsz_v7000". */
uint8_t call_op(const char *name);
/* The same of a call that has been looked up before, by records_find_calls. */
uint8_t call_op_of(enum domain domain, uint32_t call);
/* Asks CUPTI for the names of all its calls, before the first record. */
void records_find_calls(void);
/* Puts a buffer's records into the ring. */
void records_parse(uint8_t *bytes, size_t valid);
/* Asks CUPTI how many records it has dropped since the last time. */
void records_count_drops(void);

#endif
