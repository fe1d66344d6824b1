// SPDX-License-Identifier: BSD-2-Clause
/* Files of rules that a user gives (--flops-rules), compiled to what runs in the kernel. */
#include "fuzz.h"

#include "cost/cost_model.h"

#include <errno.h>

static void find(const struct cost_model *model, const char *base_name, const char *symbol)
{
	struct perfx_cost_program cost;
	const char *origin;

	if (cost_model__find(model, &(struct module_names){.base = base_name}, symbol, &cost,
			     &origin))
		return;
	if (cost.count > PERFX_COST_CODE_MAX || cost.entry_count > cost.count)
		abort();
	cost_argument_regs(&cost);
	cost_has_exit(&cost);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[FUZZ_PATH], why[512] = "";
	int fd = fuzz_file(data, size, path);
	struct cost_model *model = cost_model__load(path, why, sizeof(why));

	close(fd);
	if (!model && !*why)
		abort();
	find(model, "libfast.so", "fast_gemm");
	find(model, "libtorch_cpu.so", "_ZN2at4_ops2mm4callERKNS_6TensorES4_");
	find(model, "libopenblas.so.0", "cblas_sgemm");
	cost_model__free(model);
	return 0;
}
