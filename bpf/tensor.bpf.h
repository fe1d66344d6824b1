/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the shape of an at::Tensor. The offsets of its fields are found by trial (perfx_cost.h): a
 * tensor that fits none of the remaining layouts, or several with different results, is not read.
 *
 * A shape shows the work only if the tensor's elements are in memory. Otherwise it is the shape of
 * one sample of a batch (vmap), of another tensor (wrappers, functionalization, func.grad), of few
 * elements among zeros (sparse), or nothing is computed (meta, fake, zero). The work of such a call
 * is in the calls that it makes.
 */
#ifndef PERFX_TENSOR_BPF_H
#define PERFX_TENSOR_BPF_H

#include "thread.bpf.h"

#define IMPL_BYTES   (sizeof(((struct cost_vm *)0)->impl))
#define IMPL_NUMEL   (PERFX_TENSOR_NUMEL / 8)
#define IMPL_DTYPE   (PERFX_TENSOR_DTYPE / 8)
#define IMPL_KEYS    (PERFX_TENSOR_KEYS / 8)
#define SCALARS_MAX  64 /* entries of the tables, a power of two */
#define SCALAR_LAST  48 /* above those of all releases */
#define TENSOR_TRIED 3	/* index in vm.tensors of the tensor being tried */

/* By c10::ScalarType (c10/core/ScalarType.h). Types that later releases added before Undefined are
 * unknown: their operations are counted, their bytes are not. */
static const __u8 scalar_dtypes[SCALARS_MAX] = {
	[0] = PERFX_DTYPE_INTEGER, /* uint8 */
	[1] = PERFX_DTYPE_INTEGER, /* int8 */
	[2] = PERFX_DTYPE_INTEGER, /* int16 */
	[3] = PERFX_DTYPE_INTEGER, /* int32 */
	[4] = PERFX_DTYPE_INTEGER, /* int64 */
	[5] = PERFX_DTYPE_F16,	    [6] = PERFX_DTYPE_F32,   [7] = PERFX_DTYPE_F64,
	[8] = PERFX_DTYPE_F16, /* complex half: its products are of halves */
	[9] = PERFX_DTYPE_C64,	    [10] = PERFX_DTYPE_C128, [11] = PERFX_DTYPE_INTEGER, /* bool */
	[12] = PERFX_DTYPE_INTEGER,							 /* qint8 */
	[13] = PERFX_DTYPE_INTEGER,			   /* quint8 */
	[14] = PERFX_DTYPE_INTEGER,			   /* qint32 */
	[15] = PERFX_DTYPE_BF16,    [23] = PERFX_DTYPE_F8, /* e5m2 */
	[24] = PERFX_DTYPE_F8,				   /* e4m3fn */
	[25] = PERFX_DTYPE_F8,				   /* e5m2fnuz */
	[26] = PERFX_DTYPE_F8,				   /* e4m3fnuz */
};

static const __u8 scalar_bytes[SCALARS_MAX] = {
	[0] = 1,  [1] = 1,  [2] = 2,  [3] = 4,	 [4] = 8,  [5] = 2,  [6] = 4,
	[7] = 8,  [8] = 4,  [9] = 8,  [10] = 16, [11] = 1, [12] = 1, [13] = 1,
	[14] = 4, [15] = 2, [23] = 1, [24] = 1,	 [25] = 1, [26] = 1,
};

static __always_inline bool is_complex(__u32 scalar)
{
	return scalar >= 8 && scalar <= 10;
}

static __always_inline bool read_user(void *to, __u32 bytes, __u64 address)
{
	if (!bpf_probe_read_user(to, bytes, (void *)address))
		return true;
	counter_add(PERFX_COUNTER_READ_FAULTS, 1);
	return false;
}

static __always_inline __u64 *stack_at(struct cost_vm *m, __u32 index)
{
	return &m->stack[index & (PERFX_COST_DEPTH - 1)];
}

/* Sets *product to a * b; false: overflow. */
static __always_inline bool multiply(__u64 a, __u64 b, __u64 *product)
{
	__u64 most;

	if ((a | b) >> 32 && b) {
		most = ~0ull / b;
		barrier_var(most); /* otherwise clang emits a 128-bit multiplication */
		if (a > most)
			return false;
	}
	*product = a * b;
	return true;
}

/* Copies the sizes of the tensor being tried: up to five are stored inline. */
static __always_inline bool copy_sizes(struct cost_vm *m, struct tensor *tried, __u64 ndim)
{
	if (ndim > PERFX_COST_DIMS_MAX)
		return false;
	if (ndim > PERFX_TENSOR_INLINE)
		return !bpf_probe_read_user(tried->sizes, ndim * 8, (void *)m->impl[1]);
	for (int i = 0; i < PERFX_TENSOR_INLINE; i++)
		tried->sizes[i] = m->impl[1 + i];
	return true;
}

/* Returns whether m->impl looks like a tensor, which is then in m->tensors[TENSOR_TRIED]. */
static __always_inline bool fits(struct cost_vm *m)
{
	struct tensor *tried = &m->tensors[TENSOR_TRIED];
	__u64 ndim = m->impl[0], product = 1;

	tried->numel = m->impl[IMPL_NUMEL];
	tried->scalar = m->impl[IMPL_DTYPE] & 0xffff;
	tried->keys = m->impl[IMPL_KEYS];
	if (tried->scalar > SCALAR_LAST || !copy_sizes(m, tried, ndim))
		return false;
	tried->ndim = ndim;
	for (__u32 i = 0; i < PERFX_COST_DIMS_MAX; i++) {
		if (i >= ndim)
			break;
		if (tried->sizes[i] > PERFX_COST_DIM_MAX ||
		    !multiply(product, tried->sizes[i], &product))
			return false;
	}
	return product == tried->numel;
}

static __always_inline bool same_shape(const struct tensor *a, const struct tensor *b)
{
	if (a->ndim != b->ndim || a->numel != b->numel || a->scalar != b->scalar)
		return false;
	for (__u32 i = 0; i < PERFX_COST_DIMS_MAX; i++) {
		if (i >= a->ndim)
			break;
		if (a->sizes[i] != b->sizes[i])
			return false;
	}
	return true;
}

/* Excludes layouts that did not fit, for the whole process. */
static __always_inline void narrow_layouts(struct cost_vm *m, __u32 fitting)
{
	__u32 tgid = current_tgid();
	struct perfx_traced_process *traced;

	m->layouts = fitting;
	traced = bpf_map_lookup_elem(&perfx_traced_tgids, &tgid);
	if (traced && traced->tensor_layouts & fitting)
		__sync_fetch_and_and(&traced->tensor_layouts, fitting);
}

/* Tries layout i; m->tensors[n] becomes the tensor under the first layout that fits. */
__noinline int try_layout(struct thread *t, __u64 impl, __u32 n, __u32 i)
{
	struct cost_vm *m;

	if (!t || i >= PERFX_TENSOR_LAYOUTS)
		return 0;
	m = &t->vm;
	if (bpf_probe_read_user(m->impl, IMPL_BYTES, (void *)(impl + PERFX_TENSOR_FIRST + 8 * i)))
		return 0;
	m->readable |= 1u << i;
	if (!fits(m))
		return 0;
	if (!m->fitting)
		m->tensors[n & 3] = m->tensors[TENSOR_TRIED];
	else if (!same_shape(&m->tensors[n & 3], &m->tensors[TENSOR_TRIED]))
		m->differ = 1;
	m->fitting |= 1u << i;
	return 0;
}

/* oneDNN's tensors have their elements in a private order, and no storage. */
static __always_inline bool is_onednn(const struct tensor *tensor)
{
	return tensor->keys & PERFX_TENSOR_ONEDNN_KEYS &&
	       !(tensor->keys & PERFX_TENSOR_BACKEND_KEYS);
}

/* Returns whether the elements of m->tensors[n], whose TensorImpl is at `impl`, are in memory. */
static __always_inline bool has_elements(struct cost_vm *m, __u64 impl, __u32 n)
{
	__u64 *words = m->words, storage, offset = PERFX_TENSOR_STORAGE;

	if (!m->tensors[n & 3].numel || is_onednn(&m->tensors[n & 3]))
		return true;
	if (!read_user(words, 16, impl + offset))
		return false;
	storage = words[0];
	if (storage && storage < PERFX_TENSOR_ADDRESS_MIN) {
		storage = words[1];
		offset += 8;
	}
	return storage && read_user(words, 8, storage + offset) && words[0];
}

/* Reads the TensorImpl at `impl` into m->tensors[n]. 0, or -1: it is not one. */
__noinline int read_impl(struct thread *t, __u64 impl, __u32 n)
{
	struct cost_vm *m;

	if (!t)
		return -1;
	m = &t->vm;
	m->readable = m->fitting = m->differ = 0;
	for (__u32 i = 0; i < PERFX_TENSOR_LAYOUTS; i++)
		if (m->layouts & 1u << i)
			try_layout(t, impl, n, i);
	if (!m->readable)
		counter_add(PERFX_COUNTER_READ_FAULTS, 1);
	if (m->fitting && m->fitting != m->layouts)
		narrow_layouts(m, m->fitting);
	return m->fitting && !m->differ && has_elements(m, impl, n) ? 0 : -1;
}

/* TENSOR: `address` of an at::Tensor, which is a pointer to its TensorImpl. */
static __always_inline bool read_tensor(struct thread *t, __u64 address, __u32 n)
{
	__u64 *impl = t->vm.words;

	return read_user(impl, 8, address) && !read_impl(t, *impl, n);
}

/* TENSOR_OR_NONE: a missing tensor has no elements. */
static __always_inline bool read_tensor_or_none(struct thread *t, __u64 address, __u32 n)
{
	struct tensor *tensor = &t->vm.tensors[n & 3];
	__u64 *impl = t->vm.words;

	*impl = 0;
	if (address && !read_user(impl, 8, address))
		return false;
	if (*impl)
		return !read_impl(t, *impl, n);
	tensor->ndim = 1;
	tensor->sizes[0] = 0;
	tensor->numel = 0;
	tensor->keys = 0;
	tensor->scalar = 0;
	return true;
}

#endif
