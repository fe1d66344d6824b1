// SPDX-License-Identifier: BSD-2-Clause
#include "cost/operator_label.h"

#include <stdio.h>
#include <string.h>

/* A symbol without '_' between its letters has no overload. */
static bool has_no_overload(const char *name, size_t length)
{
	while (length && name[length - 1] == '_')
		length--;
	while (length && *name == '_') {
		name++;
		length--;
	}
	return length && !memchr(name, '_', length);
}

static bool label_operator(struct text *label, const char *name, size_t length, size_t name_bytes)
{
	if (!name_bytes && has_no_overload(name, length))
		name_bytes = length;
	if (!name_bytes || name_bytes > length ||
	    (name_bytes < length && (name[name_bytes] != '_' || name_bytes + 1 == length)))
		return false;
	text_add(label, "aten::");
	text_add_bytes(label, name, name_bytes);
	if (name_bytes == length)
		return true;
	text_add(label, ".");
	text_add_bytes(label, name + name_bytes + 1, length - name_bytes - 1);
	return true;
}

/* Methods of torch.Tensor (1.13) whose names neither begin nor end with '_'. Functions such as
 * torch.cat have bindings of the same form, so names missing here get no label. */
static const char methods[] =
	" abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all allclose "
	"amax amin aminmax angle any arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax "
	"argmin argsort argwhere as_strided as_strided_scatter as_subclass asin asinh atan atan2 "
	"atanh baddbmm bernoulli bfloat16 bincount bitwise_and bitwise_left_shift bitwise_not "
	"bitwise_or bitwise_right_shift bitwise_xor bmm bool broadcast_to byte ccol_indices "
	"cdouble ceil cfloat chalf char cholesky_inverse cholesky_solve chunk clamp clamp_max "
	"clamp_min clip clone coalesce col_indices conj conj_physical contiguous copysign corrcoef "
	"cos cosh count_nonzero cov cpu cross crow_indices cuda cummax cummin cumprod cumsum "
	"data_ptr deg2rad dense_dim dequantize det detach device diag diag_embed diagflat diagonal "
	"diagonal_scatter diff digamma dim dist div divide dot double dsplit dtype element_size eq "
	"equal erf erfc erfinv exp exp2 expand expand_as expm1 fix flatten flip fliplr flipud "
	"float float_power floor floor_divide fmax fmin fmod frac frexp gather gcd ge geqrf ger "
	"get_device greater greater_equal gt half hardshrink heaviside histc histogram hsplit "
	"hypot i0 igamma igammac imag index_add index_copy index_fill index_put index_reduce "
	"index_select indices inner int int_repr inverse ipu is_coalesced is_complex is_conj "
	"is_contiguous is_cpu is_cuda is_distributed is_floating_point is_inference is_ipu is_leaf "
	"is_meta is_mkldnn is_mps is_neg is_nested is_nonzero is_pinned is_quantized is_same_size "
	"is_set_to is_signed is_sparse is_sparse_csr is_vulkan is_xpu isclose isfinite isinf isnan "
	"isneginf isposinf isreal istft item kron kthvalue layout lcm ldexp le lerp less "
	"less_equal lgamma log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp "
	"logdet logical_and logical_not logical_or logical_xor logit logsumexp long lt lu_solve "
	"masked_fill masked_scatter masked_select matmul matrix_exp matrix_power max maximum mean "
	"median min minimum mm mode moveaxis movedim msort mul multinomial multiply mv mvlgamma "
	"nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy ne neg negative new "
	"new_empty new_empty_strided new_full new_ones new_tensor new_zeros nextafter nonzero norm "
	"not_equal numel numpy orgqr ormqr outer permute pin_memory pinverse polygamma positive "
	"pow prelu prod put q_per_channel_axis q_per_channel_scales q_per_channel_zero_points "
	"q_scale q_zero_point qscheme quantile rad2deg ravel real reciprocal record_stream relu "
	"remainder renorm repeat repeat_interleave reshape reshape_as resolve_conj resolve_neg "
	"retain_grad retains_grad roll rot90 round row_indices rsqrt scatter scatter_add "
	"scatter_reduce select select_scatter sgn short sigmoid sign signbit sin sinc sinh size "
	"slice_scatter slogdet smm softmax sort sparse_dim sparse_mask split split_with_sizes sqrt "
	"square squeeze sspaddmm std stft storage storage_offset stride sub subtract sum "
	"sum_to_size svd swapaxes swapdims t take take_along_dim tan tanh tensor_split tile to "
	"to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc "
	"to_sparse_csr tolist topk trace transpose triangular_solve tril triu true_divide trunc "
	"type type_as unbind unflatten unfold unique_consecutive unsafe_chunk unsafe_split "
	"unsafe_split_with_sizes unsqueeze values var vdot view view_as vsplit where xlogy xpu ";

/* Bindings that Python calls through slots of the type. */
static const struct {
	const char *binding, *method;
} slots[] = {
	{"bool_scalar", "__bool__"},   {"complex_scalar", "__complex__"},
	{"float_scalar", "__float__"}, {"getitem", "__getitem__"},
	{"index_scalar", "__index__"}, {"integral_scalar", "__int__"},
	{"invert", "__invert__"},      {"length", "__len__"},
	{"setitem", "__setitem__"},
};

/* name: the NAME of THPVariable_NAME. NULL: not a method. */
static const char *method_of(const char *name)
{
	size_t length = strlen(name);
	char word[128];

	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
		if (!strcmp(name, slots[i].binding))
			return slots[i].method;
	if (name[0] == '_')
		return length > 4 && begins_with(name, "__") && !strcmp(name + length - 2, "__")
			       ? name
			       : NULL;
	snprintf(word, sizeof(word), " %s ", name);
	return name[length - 1] == '_' || strstr(methods, word) ? name : NULL;
}

/* Python's operators are bound through a wrapper that turns a TypeError into NotImplemented:
 * "TypeError_to_NotImplemented_<&(torch::autograd::THPVariable___eq__(…))>" */
static bool label_method(struct text *label, const char *function)
{
	static const char scope[] = "torch::autograd::", binding[] = "THPVariable_";
	static const char wrapper[] = "torch::autograd::TypeError_to_NotImplemented_<";
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_";
	const char *method;
	char name[96];
	size_t length;

	if (begins_with(function, wrapper))
		function = strstr(function, binding);
	else if (begins_with(function, scope))
		function += sizeof(scope) - 1;
	if (!function || !begins_with(function, binding))
		return false;
	function += sizeof(binding) - 1;
	length = strspn(function, letters);
	if (!length || length >= sizeof(name) ||
	    (function[length] && !strchr("(>", function[length])))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)length, function);
	method = method_of(name);
	if (method)
		text_printf(label, "Tensor.%s", method);
	return method != NULL;
}

bool operator_label(struct text *label, const char *function, uint16_t name_bytes)
{
	static const char scope[] = "at::_ops::", call[] = "::call";
	size_t length = strlen(function);

	if (!begins_with(function, scope))
		return label_method(label, function);
	function += sizeof(scope) - 1;
	length -= sizeof(scope) - 1;
	if (length < sizeof(call) || strcmp(function + length - sizeof(call) + 1, call) != 0)
		return false;
	length -= sizeof(call) - 1;
	return !memchr(function, ':', length) &&
	       label_operator(label, function, length, name_bytes);
}
