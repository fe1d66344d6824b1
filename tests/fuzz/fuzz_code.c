// SPDX-License-Identifier: BSD-2-Clause
/* Machine code: where probes may go. The first bytes say what is asked of it. */
#include "fuzz_image.h"

#include "plan/jitted.h"
#include "site/site.h"

static void plan_at(struct image *image, const struct fuzz_question *q, uint64_t vaddr,
		    size_t available)
{
	struct site_options options = {.entry_only = q->flags & 1,
				       .optimized_nop5 = q->flags & 2,
				       .nop5_kills = q->flags & 4,
				       .arguments_may_move = q->flags & 8,
				       .needs_result = q->flags & 16,
				       .argument_regs = q->argument_regs & 0x7f};
	struct site_plan plan;
	uint64_t size = q->size < available ? q->size : available;

	if (!site_plan(image, vaddr, size, &options, &plan)) {
		if (plan.entry_vaddr < vaddr)
			abort();
		for (size_t i = 0; i < plan.exits_count; i++)
			for (size_t k = 0; k < i; k++)
				if (plan.exits[i].vaddr == plan.exits[k].vaddr)
					abort();
	}
	site_plan__clear(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct accessor accessor;
	struct fuzz_question question;
	struct image *image;
	const uint8_t *code;
	uint64_t vaddr;
	size_t available;

	if (size < sizeof(question))
		return 0;
	memcpy(&question, data, sizeof(question));
	image = fuzz_image("code", data + sizeof(question), size - sizeof(question));
	if (!image)
		return 0;
	code = image__code_segment(image, 0, &vaddr, &available);
	if (code && question.skip < available) {
		plan_at(image, &question, vaddr + question.skip, available - question.skip);
		operator_name_bytes(image, "_ZN2at4_ops10add_Tensor4callEv", vaddr + question.skip,
				    available - question.skip);
		accessor_of_pointer(code, available, &accessor);
		accessor_of_text(code, available, &accessor);
	}
	image__free(image);
	return 0;
}
