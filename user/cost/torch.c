// SPDX-License-Identifier: BSD-2-Clause
/*
 * PyTorch's operators: at::_ops::NAME::call, which Python, C++ and autograd pass when they call
 * one, of 1.13 to 2.15, and the at::native functions under those that compiled graphs call by the
 * dispatcher instead. Schemas: aten/src/ATen/native/native_functions.yaml.
 *
 * How arguments are passed (System V AMD64, Itanium C++ ABI; checked against the code of 1.13.1 and
 * 2.15.0): a Tensor or tuple that is returned has its place in rdi, arguments follow from rsi: the
 * text has 'slot' then. The _out and in-place forms return Tensor & and begin at rdi; the _out
 * forms of several results return a tuple of references, which has a place in memory as well.
 * Tensors come by reference, lists as (address, length).
 */
#include "cost/builtin.h"

#include "base/grow.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MM(a, b)                                                                      \
	"let m=size(" a ",0); let k=same(size(" a ",1),size(" b ",0)); let n=size(" b \
	",1); flops=2*complex(" a ")*m*n*k; bytes=elem(" a ")*(k*(m+n)+m*n)"
#define BMM(a, b)                                                                                \
	"let b=same(size(" a ",0),size(" b ",0)); let m=size(" a ",1); let k=same(size(" a       \
	",2),size(" b ",1)); let n=size(" b ",2); flops=2*complex(" a ")*b*m*n*k; bytes=elem(" a \
	")*b*(k*(m+n)+m*n)"
#define MV(a, v)                                                                          \
	"let m=size(" a ",0); let k=same(size(" a ",1),numel(" v ")); flops=2*complex(" a \
	")*m*k; bytes=elem(" a ")*(m*k+m+k)"
#define DOT "let k=same(numel(arg1),numel(arg2)); flops=2*complex(arg1)*k; bytes=elem(arg1)*2*k"
/* weight (n, k), or (k) for one output */
#define LINEAR                                                           \
	"let k=same(size(arg1,-1),size(arg2,-1)); let n=numel(arg2)/k; " \
	"flops=2*complex(arg1)*numel(arg1)*n; "                          \
	"bytes=elem(arg1)*(numel(arg1)+numel(arg2)+numel(arg1)/k*n)"

/* Every element of the result is a sum over the weights of its channel; transposed, every element
 * of the input goes through those of its channel. */
#define CONVOLUTION(transposed)                                                           \
	"let t=u8(" transposed "); let each=2*complex(arg2)*(numel(arg2)/size(arg2,0)); " \
	"flops=select(t,each*numel(arg1),0); let rest=select(t,0,each); "                 \
	"bytes=elem(arg1)*(numel(arg1)+numel(arg2)); "                                    \
	"exit; flops=rest*numel(result); bytes=elem(result)*numel(result)"

/*
 * (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
 * groups, output_mask): once for each of grad_input and grad_weight that is asked for. bias_sizes
 * is an OptionalArrayRef: 16 bytes up to 2.3, in r8 and r9, and 24 with std::optional, on the
 * stack, so what follows moves. Which one it is shows by the length of dilation, as many as the
 * weight has dimensions less 2: in the other layout there is an address in its place.
 */
#define CONVOLUTION_BACKWARD                                                     \
	"let old=eq(stack6,ndim(arg3)-2); let t=u8(select(old,stack7,stack8)); " \
	"let mask=select(old,stack11,stack12); "                                 \
	"let wanted=u8(mask)+(u16(mask)-u8(mask))/256; "                         \
	"flops=2*complex(arg3)*numel(arg3)*wanted*"                              \
	"select(t,numel(arg2)/size(arg2,1),numel(arg1)/size(arg1,1)); "          \
	"bytes=elem(arg1)*wanted*(numel(arg1)+numel(arg2)+numel(arg3))"

/* Two products: of (sq, dq) and (dq, sk), of (sq, sk) and (sk, dv), for each of batch and head of
 * the query; backward five: query and key again, and one for each factor of each product. */
#define ATTENTION(q, k, v, tokens)                                                 \
	"let dq=size(" q ",-1); let dv=size(" v ",-1); let rows=numel(" q ")/dq; " \
	"let sk=same(size(" k "," tokens "),size(" v "," tokens ")); "
#define FORWARD(q, k, v)                                                                 \
	"flops=2*rows*sk*(dq+dv); bytes=elem(" q ")*(numel(" q ")+numel(" k ")+numel(" v \
	")+rows*dv)"
#define BACKWARD(q, k, v)                                                                      \
	"flops=2*rows*sk*(3*dq+2*dv); bytes=elem(" q ")*2*(numel(" q ")+numel(" k ")+numel(" v \
	")+rows*dv)"
#define SDPA	      ATTENTION("arg1", "arg2", "arg3", "-2") FORWARD("arg1", "arg2", "arg3")
#define SDPA_BACKWARD ATTENTION("arg2", "arg3", "arg4", "-2") BACKWARD("arg2", "arg3", "arg4")
/* (batch, tokens, heads, size); packed sequences have one dimension less, and no known cost */
#define FLASH                                                         \
	"same(ndim(arg1),4); " ATTENTION("arg1", "arg2", "arg3", "1") \
		FORWARD("arg1", "arg2", "arg3")
#define FLASH_BACKWARD                                                \
	"same(ndim(arg2),4); " ATTENTION("arg2", "arg3", "arg4", "1") \
		BACKWARD("arg2", "arg3", "arg4")
/* One layer in one direction: every step of every sequence through both weights. */
#define RNN(times)                                                                \
	"flops=" times "*(numel(arg1)/size(arg1,-1))*(numel(arg2)+numel(arg3)); " \
	"bytes=elem(arg1)*(numel(arg1)+numel(arg2)+numel(arg3))"

enum forms {
	ONE = 1, /* gives one Tensor; its _out and in-place forms begin at rdi */
	ALONE,	 /* no other forms, or they have rows of their own */
	TUPLE,	 /* gives several; the _out form begins at rsi as well */
	OUT,	 /* an _out form itself */
};

static const struct torch_operator {
	const char *name;
	enum forms forms;
	const char *text;
	bool only_named; /* leads to others of the table */
} operators[] = {
	{"mm", ONE, MM("arg1", "arg2"), false},
	{"mm_dtype", ONE, MM("arg1", "arg2"), false},
	{"_int_mm", ONE, MM("arg1", "arg2"), false},
	{"_scaled_mm", ONE, MM("arg1", "arg2"), false},
	{"_scaled_mm_v2", ONE, MM("arg1", "arg2"), false},
	{"addmm", ONE, MM("arg2", "arg3"), false},
	{"addmm_dtype", ONE, MM("arg2", "arg3"), false},
	{"_addmm_activation", ONE, MM("arg2", "arg3"), false},
	{"bmm", ONE, BMM("arg1", "arg2"), false},
	{"bmm_dtype", ONE, BMM("arg1", "arg2"), false},
	{"baddbmm", ONE, BMM("arg2", "arg3"), false},
	{"baddbmm_dtype", ONE, BMM("arg2", "arg3"), false},
	{"addbmm", ONE, BMM("arg2", "arg3"), false},
	{"mv", ONE, MV("arg1", "arg2"), false},
	{"addmv", ONE, MV("arg2", "arg3"), false},
	{"dot", ONE, DOT, false},
	{"vdot", ONE, DOT, false},
	{"linear", ONE, LINEAR, true},
	{"mkldnn_linear", ONE, LINEAR, false},
	{"convolution", ALONE, CONVOLUTION("stack5"), false},
	{"_convolution", ALONE, CONVOLUTION("stack5"), false},
	/* the lists leave r9 to the flag, which comes after them */
	{"convolution_out", OUT, CONVOLUTION("arg6"), false},
	{"_convolution_out", OUT, CONVOLUTION("arg6"), false},
	{"convolution_backward", TUPLE, CONVOLUTION_BACKWARD, false},
	{"_scaled_dot_product_flash_attention_for_cpu", ALONE, SDPA, false},
	{"_scaled_dot_product_flash_attention", ALONE, SDPA, false},
	{"_scaled_dot_product_efficient_attention", ALONE, SDPA, false},
	{"_scaled_dot_product_cudnn_attention", ALONE, SDPA, false},
	{"_scaled_dot_product_fused_attention_overrideable", ALONE, SDPA, false},
	{"_scaled_dot_product_flash_attention_for_cpu_backward", ALONE, SDPA_BACKWARD, false},
	{"_scaled_dot_product_flash_attention_backward", ALONE, SDPA_BACKWARD, false},
	{"_scaled_dot_product_efficient_attention_backward", ALONE, SDPA_BACKWARD, false},
	{"_scaled_dot_product_cudnn_attention_backward", ALONE, SDPA_BACKWARD, false},
	{"_scaled_dot_product_fused_attention_overrideable_backward", ALONE, SDPA_BACKWARD, false},
	{"_flash_attention_forward", ALONE, FLASH, false},
	{"_flash_attention_backward", ALONE, FLASH_BACKWARD, false},
	{"mkldnn_rnn_layer", TUPLE, RNN("2"), false},
	{"mkldnn_rnn_layer_backward", TUPLE, RNN("4"), false},
};

/* What compiled graphs reach without passing `call`, by the start of the mangled name. They give
 * tuples. */
static const struct {
	const char *prefix, *text;
} natives[] = {
	{"_ZN2at6native20convolution_backwardERKNS_6Tensor", CONVOLUTION_BACKWARD},
	{"_ZN2at6native39_scaled_dot_product_flash_attention_cpuERKNS_6Tensor", SDPA},
	{"_ZN2at6native48_scaled_dot_product_flash_attention_cpu_backwardERKNS_6Tensor",
	 SDPA_BACKWARD},
};

/* "_ZN2at4_ops" <length> <name> "4callE" …: the mangling of at::_ops::NAME::call. */
static const char call_prefix[] = "_ZN2at4_ops";

int builtin_torch_prefixes(struct prefixes *set)
{
	int err = prefixes_add(set, call_prefix);

	for (size_t i = 0; !err && i < sizeof(natives) / sizeof(natives[0]); i++)
		err = prefixes_add(set, natives[i].prefix);
	return err;
}

bool builtin_torch_name(const char *symbol, char *name, size_t size)
{
	char *end;
	size_t length;

	if (!begins_with(symbol, call_prefix))
		return false;
	length = strtoul(symbol + sizeof(call_prefix) - 1, &end, 10);
	if (!length || length >= size || strlen(end) < length ||
	    !begins_with(end + length, "4callE"))
		return false;
	memcpy(name, end, length);
	name[length] = '\0';
	return true;
}

static const struct torch_operator *find_operator(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (strlen(operators[i].name) == length && !memcmp(operators[i].name, name, length))
			return &operators[i];
	return NULL;
}

/* The operator, and whether this form of it has its result's place before its arguments. */
static const struct torch_operator *find_form(const char *name, bool *slot)
{
	size_t length = strlen(name);
	const struct torch_operator *found = find_operator(name, length);

	*slot = !found || found->forms != OUT;
	if (found)
		return found;
	if (length > 4 && !strcmp(name + length - 4, "_out"))
		found = find_operator(name, length - 4);
	else if (length > 1 && name[length - 1] == '_')
		found = find_operator(name, length - 1);
	if (!found || (found->forms != ONE && found->forms != TUPLE))
		return NULL;
	*slot = found->forms == TUPLE;
	return found;
}

static void describe(bool slot, const char *text, struct builtin *builtin)
{
	builtin->source = PERFX_SOURCE_TORCH;
	builtin->by_default = true;
	snprintf(builtin->text, sizeof(builtin->text), "%s%s", slot ? "slot; " : "", text);
}

bool builtin_torch(const char *base_name, const char *symbol, struct builtin *builtin)
{
	const struct torch_operator *found;
	char name[128];
	bool slot;

	(void)base_name;
	if (!begins_with(symbol, "_ZN2at"))
		return false;
	for (size_t i = 0; i < sizeof(natives) / sizeof(natives[0]); i++)
		if (begins_with(symbol, natives[i].prefix)) {
			describe(true, natives[i].text, builtin);
			return true;
		}
	if (!builtin_torch_name(symbol, name, sizeof(name)))
		return false;
	found = find_form(name, &slot);
	if (!found)
		return false;
	describe(slot, found->text, builtin);
	builtin->by_default = !found->only_named;
	return true;
}
