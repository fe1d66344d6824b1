// SPDX-License-Identifier: BSD-2-Clause
#include "cost/operator_label.h"
#include "site/site.h"

#include "site_fixture.h"

#define OP(length, name) "_ZN2at4_ops" #length #name "4callEv"
#define STRING(name)	 "\t.section .rodata\n9: .asciz \"" name "\"\n\t.text\n"

static const struct {
	struct asm_function function;
	uint16_t bytes;
} rows[] = {
	/* the lookup is in it, or in a function of its own */
	{{.name = OP(10, add_Tensor),
	  .code = "lea 9f(%rip),%rdi\nret\n",
	  .extra = STRING("aten::add")},
	 3},
	{{.name = OP(10, unique_dim),
	  .code = "lea 9f(%rip),%rsi\nret\n",
	  .extra = STRING("aten::unique_dim")},
	 10},
	{{.name = OP(15, sum_dim_IntList),
	  .code = "test %eax,%eax\nje 1f\ncall create@plt\ncall 8f\n1: ret\n",
	  .extra = "8: push %rbx\nlea 9f(%rip),%rsi\npop %rbx\nret\n" STRING("aten::sum")},
	 3},
	{{.name = OP(13, _cudnn_rnn_x_),
	  .code = "lea 9f(%rip),%rsi\nret\n",
	  .extra = STRING("aten::_cudnn_rnn_x_")},
	 13},
	/* strings of others: another operator, a part of a word, another namespace, no end */
	{{.name = OP(6, mm_out), .code = "lea 9f(%rip),%rdi\nret\n", .extra = STRING("aten::bmm")},
	 0},
	{{.name = OP(7, abs_out), .code = "lea 9f(%rip),%rdi\nret\n", .extra = STRING("aten::ab")},
	 0},
	{{.name = OP(7, mul_out),
	  .code = "lea 9f(%rip),%rdi\nret\n",
	  .extra = STRING("prims::mul")},
	 0},
	{{.name = OP(5, empty), .code = "ret\n"}, 0},
	{{.name = "_ZN2at4_ops2mm10redispatchEv",
	  .code = "lea 9f(%rip),%rdi\nret\n",
	  .extra = STRING("aten::mm")},
	 0},
};

Test(operator_name, the_code_says_where_it_ends)
{
	struct fixture f;

	fixture__assemble(&f, rows, sizeof(rows) / sizeof(rows[0]), sizeof(rows[0]), LINK_SHARED);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct symbol symbol = fixture__symbol(&f, rows[i].function.name);

		cr_expect_eq(operator_name_bytes(f.image, symbol.name, symbol.vaddr, symbol.size),
			     rows[i].bytes, "%s", symbol.name);
	}
	fixture__close(&f);
}

Test(operator_name, labels)
{
	static const struct {
		const char *function;
		uint16_t bytes;
		const char *label; /* NULL: it keeps its name */
	} names[] = {
		{"at::_ops::mm::call", 2, "aten::mm"},
		{"at::_ops::add_Tensor::call", 3, "aten::add.Tensor"},
		{"at::_ops::add__Tensor::call", 4, "aten::add_.Tensor"},
		{"at::_ops::__and___Tensor::call", 7, "aten::__and__.Tensor"},
		{"at::_ops::_log_softmax_backward_data::call", 26,
		 "aten::_log_softmax_backward_data"},
		{"at::_ops::sum_dim_IntList::call", 3, "aten::sum.dim_IntList"},
		/* of captures that do not say it: where there is but one way to read the name */
		{"at::_ops::mm::call", 0, "aten::mm"},
		{"at::_ops::_softmax::call", 0, "aten::_softmax"},
		{"at::_ops::add_::call", 0, "aten::add_"},
		{"at::_ops::add_Tensor::call", 0, NULL},
		{"at::_ops::unique_dim::call", 0, NULL},
		/* damaged */
		{"at::_ops::mm::call", 3, NULL},
		{"at::_ops::add_Tensor::call", 2, NULL},
		{"at::_ops::add_::call", 3, NULL},
		{"at::_ops::::call", 0, NULL},
		{"at::_ops::_::call", 0, NULL},
		{"at::_ops::a::b::call", 0, NULL},
		/* others */
		{"at::_ops::mm::redispatch", 0, NULL},
		{"at::native::mm", 0, NULL},
		{"mm", 0, NULL},
		{"", 0, NULL},
		{"torch::autograd::THPVariable_add", 0, "Tensor.add"},
		{"torch::autograd::THPVariable_mul_", 0, "Tensor.mul_"},
		{"THPVariable_add", 0, "Tensor.add"},
		{"torch::autograd::THPVariable_getitem", 0, "Tensor.__getitem__"},
		{"torch::autograd::TypeError_to_NotImplemented_<&(torch::autograd::THPVariable___"
		 "eq__"
		 "(_object*, _object*, _object*))>",
		 0, "Tensor.__eq__"},
		{"torch::autograd::THPVariable_cat", 0, NULL}, /* torch.cat alone */
		{"torch::autograd::THPVariable_", 0, NULL},
		{"torch::autograd::THPVariable_add::parser", 0, NULL},
		{"THPVariable_Wrap", 0, NULL},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct text label = {0};
		bool found = operator_label(&label, names[i].function, names[i].bytes);

		cr_expect_eq(found, names[i].label != NULL, "%s", names[i].function);
		cr_expect_str_eq(text_peek(&label), names[i].label ? names[i].label : "", "%s",
				 names[i].function);
		text_clear(&label);
	}
}
