/* SPDX-License-Identifier: BSD-2-Clause */
/* cuBLASLt without a GPU: makes opaque layouts. */
#include "cuda_api.h"

#include <stdlib.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

__attribute__((noipa)) word cublasLtMatrixLayoutCreate(handle *layout, word type, uint64_t rows,
						       uint64_t columns, int64_t ld)
{
	*layout = calloc(8, sizeof(uint64_t));
	return *layout ? 0 : 3;
}

__attribute__((noipa)) word cublasLtMatrixLayoutInit_internal(handle layout, size_t size, word type,
							      uint64_t rows, uint64_t columns,
							      int64_t ld)
{
	return 0;
}

__attribute__((noipa)) word cublasLtMatrixLayoutSetAttribute(handle layout, word attribute,
							     in value, size_t size)
{
	return 0;
}

__attribute__((noipa)) word cublasLtMatrixLayoutDestroy(handle layout)
{
	free(layout);
	return 0;
}

__attribute__((noipa)) word cublasLtMatmul(handle h, handle operation, in alpha, in a,
					   handle layout_a, in b, handle layout_b, in beta, in c,
					   handle layout_c, out d, handle layout_d, in algorithm,
					   out workspace, size_t workspace_size, handle stream)
{
	return 0;
}
