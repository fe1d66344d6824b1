/* SPDX-License-Identifier: BSD-2-Clause */
/* Words for the record ABI's values: the JSON report spells them so, and the others follow it. */
#ifndef PERFX_DECODE_NAMES_H
#define PERFX_DECODE_NAMES_H

#include "perfx_record.h"

const char *name_of_source(enum perfx_source source);
const char *name_of_alignment(enum perfx_alignment alignment);
const char *name_of_link(enum perfx_link link);
const char *name_of_return(enum perfx_return ret);
const char *name_of_site(enum perfx_site site);
const char *name_of_domain(enum perfx_domain domain);
const char *name_of_loss(enum perfx_loss_kind loss);
const char *name_of_kind(enum perfx_kind kind); /* NULL: of a later version */
const char *name_of_memory_level(enum perfx_memory_level level);
/* "f32", "bf16", …; "unknown" */
const char *name_of_dtype(enum perfx_dtype dtype);
const char *name_of_peak_origin(enum perfx_peak_origin origin);
/* "native", "python" */
const char *name_of_language(enum perfx_language language);
/* "no_table": why a stack has no more frames */
const char *name_of_stack_end(enum perfx_stack_end end);
/* Its meaning, in the midst of a sentence: "code without a file (compiled at run time)" */
const char *meaning_of_stack_end(enum perfx_stack_end end);
/* "read", "gil"; of PERFX_WAIT_SYSCALL "syscall": the call's own name is base/syscalls.h's */
const char *name_of_wait(enum perfx_wait_reason reason);
const char *name_of_target(enum perfx_target_kind kind);
const char *name_of_gpu_op(enum perfx_gpu_op op);
const char *name_of_gpu_direction(enum perfx_gpu_direction direction); /* "host_to_device" */
/* op: COPY or MEMSET. The direction's; "memset" */
const char *name_of_gpu_copy(enum perfx_gpu_op op, enum perfx_gpu_direction direction);
const char *name_of_gpu_host_memory(enum perfx_gpu_host_memory memory);
const char *name_of_gpu_agent_state(enum perfx_gpu_agent_state state);
/* The meaning of a loss: one line for the report. */
const char *meaning_of_loss(enum perfx_loss_kind loss);

#endif
