// SPDX-License-Identifier: BSD-2-Clause
/* Files of rules that a user gives (--flops-rules), compiled to what runs in the kernel. */
#include "fuzz.h"

#include "cost/figures.h"

#include <errno.h>

static void find(const struct figures *figures, const char *base_name, const char *symbol)
{
	struct perfx_figure figure;
	const char *origin;

	if (figures__find(figures, base_name, symbol, &figure, &origin))
		return;
	if (figure.count > PERFX_FIGURE_CODE_MAX || figure.entry_count > figure.count)
		abort();
	figure_argument_regs(&figure);
	figure_has_exit(&figure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[FUZZ_PATH], why[512] = "";
	int fd = fuzz_file(data, size, path);
	struct figures *figures = figures__load(path, why, sizeof(why));

	close(fd);
	if (!figures && !*why)
		abort();
	find(figures, "libfast.so", "fast_gemm");
	find(figures, "libtorch_cpu.so", "_ZN2at4_ops2mm4callERKNS_6TensorES4_");
	find(figures, "libopenblas.so.0", "cblas_sgemm");
	figures__free(figures);
	return 0;
}
