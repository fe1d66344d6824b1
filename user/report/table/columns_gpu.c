// SPDX-License-Identifier: BSD-2-Clause
/* Columns about GPUs: kernels, copies, waits. */
#include "decode/names.h"
#include "report/json/output.h"
#include "report/table/columns.h"

ITEM(kernel_of, profile_gpu_kernel, &r->process->gpu.kernels[r->item])
ITEM(copy_of, profile_gpu_copy, &r->process->gpu.copies[r->item])
ITEM(sync_of, profile_gpu_sync, &r->process->gpu.syncs[r->item])

/* "100x1x1" */
static struct value get_shape(struct data_table *s, const uint32_t shape[3])
{
	return shape[0] ? made(s, "%ux%ux%u", shape[0], shape[1], shape[2]) : absent();
}

VALUE(get_pinned, copy_of(r)->host_memory == PERFX_GPU_HOST_MEMORY_PINNED     ? flag(true)
		  : copy_of(r)->host_memory == PERFX_GPU_HOST_MEMORY_PAGEABLE ? flag(false)
									      : absent())

static struct value get_line(struct data_table *s, const struct profile_frame *frame)
{
	return frame ? column_frames(s, &frame, 1) : absent();
}

VALUE(get_kernel_line, get_line(s, kernel_of(r)->line))
VALUE(get_copy_line, get_line(s, copy_of(r)->line))
VALUE(get_sync_line, get_line(s, sync_of(r)->line))
VALUE(get_kernel_name, words(kernel_of(r)->other ? "(other)" : kernel_of(r)->name))
VALUE(get_kernel_op, words(name_of_gpu_op(kernel_of(r)->op)))
VALUE(get_grid, kernel_of(r)->grid[0] ? nested(json_of_shape(kernel_of(r)->grid)) : absent())
VALUE(get_block, kernel_of(r)->block[0] ? nested(json_of_shape(kernel_of(r)->block)) : absent())
VALUE(get_grid_text, get_shape(s, kernel_of(r)->grid))
VALUE(get_block_text, get_shape(s, kernel_of(r)->block))
VALUE(get_kernel_stddev, rounded(kernel_of(r)->stddev_ns))
VALUE(get_stream, kernel_of(r)->stream == UINT32_MAX ? absent() : integer(kernel_of(r)->stream))
VALUE(get_launcher, function_name(s, kernel_of(r)->function))
VALUE(get_direction, words(name_of_gpu_copy(copy_of(r)->op, copy_of(r)->direction)))
VALUE(get_host_memory, words(name_of_gpu_host_memory(copy_of(r)->host_memory)))
VALUE(get_copier, function_name(s, copy_of(r)->function))
VALUE(get_waiter, function_name(s, sync_of(r)->function))

static const struct data_table_column gpu_kernels_columns[] = {
	OF_PROCESS,
	{"name", .get = get_kernel_name, WORDS},
	{"op", .get = get_kernel_op, WORDS},
	{"calls", COUNT_AT(profile_gpu_kernel, count)},
	{"total_ns", AT(profile_gpu_kernel, total_ns)},
	{"avg_ns", AT(profile_gpu_kernel, avg_ns)},
	{"stddev_ns", .get = get_kernel_stddev},
	{"p99_ns", AT(profile_gpu_kernel, p99_ns)},
	{"max_ns", AT(profile_gpu_kernel, max_ns)},
	{"grid", .get = get_grid_text, WORDS, CSV},
	{"block", .get = get_block_text, WORDS, CSV},
	{"grid", .get = get_grid, NESTED, JSON},
	{"block", .get = get_block, NESTED, JSON},
	{"registers", AT(profile_gpu_kernel, registers), NONZERO},
	{"shared_bytes", AT(profile_gpu_kernel, shared_bytes)},
	{"occupancy", AT(profile_gpu_kernel, occupancy)},
	{"occupancy_limit", AT(profile_gpu_kernel, limit), NONZERO},
	{"stream", .get = get_stream},
	{"function", .get = get_launcher, WORDS},
	{"line", .get = get_kernel_line, WORDS},
};

static const struct data_table_column gpu_copies_columns[] = {
	OF_PROCESS,
	{"direction", .get = get_direction, WORDS},
	{"host_memory", .get = get_host_memory, WORDS},
	{"pinned", .get = get_pinned},
	{"calls", COUNT_AT(profile_gpu_copy, count)},
	{"bytes", COUNT_AT(profile_gpu_copy, bytes)},
	{"total_ns", AT(profile_gpu_copy, total_ns)},
	{"function", .get = get_copier, WORDS},
	{"line", .get = get_copy_line, WORDS},
};

static const struct data_table_column gpu_syncs_columns[] = {
	OF_PROCESS,
	{"name", AT(profile_gpu_sync, name)},
	{"calls", COUNT_AT(profile_gpu_sync, count)},
	{"wait_ns", COUNT_AT(profile_gpu_sync, wait_ns)},
	{"function", .get = get_waiter, WORDS},
	{"line", .get = get_sync_line, WORDS},
};

const struct data_table_kind gpu_kernels_table = {COLUMNS(gpu_kernels), "total_ns", kernel_of_item,
						  EACH(gpu.kernels_count)};
const struct data_table_kind gpu_copies_table = {COLUMNS(gpu_copies), "bytes", copy_of_item,
						 EACH(gpu.copies_count)};
const struct data_table_kind gpu_syncs_table = {COLUMNS(gpu_syncs), "wait_ns", sync_of_item,
						EACH(gpu.syncs_count)};
