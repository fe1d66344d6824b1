#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch operators on unusual shapes, PyTorch 1.13 and later. The operations beside each case are
worked out by hand: a multiply-add is 2, of complex numbers 8."""

import argparse
import contextlib

import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

import ranges

try:
    from torch import func
except ImportError:  # 1.13
    import functorch as func

DTYPES = {"f64": torch.float64, "bf16": torch.bfloat16, "i64": torch.int64}
RECENT = hasattr(F, "scaled_dot_product_attention")


def tensor(*sizes, dtype=torch.float32, grad=False):
    return torch.ones(*sizes, dtype=dtype).requires_grad_(grad)


def forward_and_backward(function, *tensors):
    def run():
        for t in tensors:
            t.grad = None
        function(*tensors).sum().backward()

    return run


def failing(function):
    """Only fails: an exception leaves the operator."""
    def run():
        with contextlib.suppress(RuntimeError):
            function()
            raise AssertionError("this works")

    return run


def matrices():
    a, b = tensor(3, 5), tensor(5, 4)
    square = tensor(6, 6)
    out = torch.empty(3, 4)
    yield "mm", lambda: torch.mm(a, b), 120
    for name, dtype in DTYPES.items():
        x, y = tensor(3, 5, dtype=dtype), tensor(5, 4, dtype=dtype)
        yield f"mm {name}", lambda x=x, y=y: torch.mm(x, y), 120
    for name, dtype in (("c64", torch.complex64), ("c128", torch.complex128)):
        x, y = tensor(3, 5, dtype=dtype), tensor(5, 4, dtype=dtype)
        yield f"mm {name}", lambda x=x, y=y: x @ y, 480
        yield f"mm {name} adjoint", lambda x=x, y=y: torch.mm(y.mH, x.mH), 480
    half = tensor(3, 5, dtype=torch.float16), tensor(5, 4, dtype=torch.float16)
    if RECENT:
        yield "mm f16", lambda: half[0] @ half[1], 120
    else:
        yield "mm f16", failing(lambda: half[0] @ half[1]), 0
    yield "mm of other sizes", failing(lambda: torch.mm(a, a)), 0
    yield "mm after that", lambda: torch.mm(a, b), 120
    yield "mm out", lambda: torch.mm(a, b, out=out), 120
    yield "mm transposed", lambda: torch.mm(b.t(), a.t()), 120
    yield "mm of no rows", lambda: torch.mm(a[:0], b), 0
    yield "mm of no columns", lambda: torch.mm(a, b[:, :0]), 0
    yield "mm of nothing between", lambda: torch.mm(a[:, :0], b[:0]), 0
    yield "mm of numbers", lambda: torch.mm(a[:1, :1], b[:1, :1]), 2
    yield "mm strided", lambda: torch.mm(tensor(60, 100)[::10, ::20], tensor(5, 8)[:, ::2]), 240
    yield "mm expanded", lambda: torch.mm(tensor(1, 5).expand(3, 5), tensor(1).expand(5, 4)), 120
    yield "mm large", lambda: torch.mm(tensor(256, 300), tensor(300, 200)), 30720000
    yield "addmm", lambda: torch.addmm(tensor(4), a, b), 120
    yield "addmm beta 0", lambda: torch.addmm(tensor(3, 4), a, b, beta=0, alpha=2), 120
    yield "addmm in place", lambda: square.addmm_(square, square, beta=0, alpha=1 / 6), 432
    yield "einsum", lambda: torch.einsum("ij,jk->ik", a, b), 120
    yield "tensordot", lambda: torch.tensordot(
        tensor(2, 3, 5), tensor(5, 2, 7), ([2, 0], [0, 1])), 420
    # 5×4×2 first, then 3×5×2
    yield "multi_dot", lambda: torch.linalg.multi_dot([a, b, tensor(4, 2)]), 140


def batches():
    a, b = tensor(7, 3, 5), tensor(7, 5, 4)
    yield "bmm", lambda: torch.bmm(a, b), 840
    yield "bmm bf16", lambda: torch.bmm(a.bfloat16(), b.bfloat16()), 840
    yield "bmm f64", lambda: torch.bmm(a.double(), b.double()), 840
    yield "bmm c64", lambda: torch.bmm(a.cfloat(), b.cfloat()), 3360
    yield "bmm of one", lambda: torch.bmm(a[:1], b[:1]), 120
    yield "bmm of none", lambda: torch.bmm(a[:0], b[:0]), 0
    yield "bmm transposed", lambda: torch.bmm(b.transpose(1, 2), a.transpose(1, 2)), 840
    yield "bmm expanded", lambda: torch.bmm(a, tensor(1, 5, 4).expand(7, 5, 4)), 840
    yield "bmm large", lambda: torch.bmm(tensor(4, 64, 80), tensor(4, 80, 96)), 3932160
    yield "baddbmm", lambda: torch.baddbmm(tensor(4), a, b), 840
    yield "addbmm", lambda: torch.addbmm(tensor(3, 4), a, b), 840
    yield "matmul broadcast", lambda: tensor(2, 1, 3, 5) @ tensor(7, 5, 4), 1680
    yield "matmul 4-D", lambda: tensor(2, 6, 3, 5) @ tensor(2, 6, 5, 4), 1440
    yield "matmul 3-D by 2-D", lambda: a @ tensor(5, 4), 840
    yield "matmul 2-D by 3-D", lambda: tensor(3, 5) @ b, 840
    yield "matmul 3-D by 1-D", lambda: a @ tensor(5), 210
    yield "einsum of batches", lambda: torch.einsum("bij,bjk->bik", a, b), 840


def vectors():
    a, x = tensor(30, 20), tensor(20)
    yield "mv", lambda: torch.mv(a, x), 1200
    yield "mv transposed", lambda: torch.mv(a.t(), tensor(30)), 1200
    yield "mv c64", lambda: torch.mv(a.cfloat(), x.cfloat()), 4800
    yield "mv of no columns", lambda: torch.mv(a[:, :0], x[:0]), 0
    yield "addmv", lambda: torch.addmv(tensor(30), a, x), 1200
    yield "vector by matrix", lambda: tensor(30) @ a, 1200
    yield "dot", lambda: torch.dot(x, x), 40
    yield "vdot c64", lambda: torch.vdot(x.cfloat(), x.cfloat()), 160
    yield "outer", lambda: torch.outer(x, x), 0


def linears():
    x, w = tensor(2, 7, 16), tensor(24, 16)
    yield "linear", lambda: F.linear(tensor(14, 16), w, tensor(24)), 10752
    yield "linear 3-D", lambda: F.linear(x, w, tensor(24)), 10752
    yield "linear 3-D without bias", lambda: F.linear(x, w), 10752
    yield "linear 4-D transposed", lambda: F.linear(tensor(16, 7, 2, 3).transpose(0, 3), w), 32256
    yield "linear 1-D", lambda: F.linear(tensor(16), w, tensor(24)), 768
    yield "linear of none", lambda: F.linear(x[:0], w, tensor(24)), 0
    yield "linear bf16", lambda: F.linear(x.bfloat16(), w.bfloat16(), tensor(24).bfloat16()), 10752
    yield "linear f64", lambda: F.linear(x.double(), w.double()), 10752
    yield ("linear and back", forward_and_backward(
        F.linear, tensor(2, 7, 16, grad=True), tensor(24, 16, grad=True), tensor(24, grad=True)),
        3 * 10752)


def autocast():
    """Each operator calls itself on operands of another type: it counts once."""
    x, w, v = tensor(2, 7, 16), tensor(24, 16), tensor(16)
    a, image, kernel = tensor(7, 3, 16), tensor(2, 3, 12, 12), tensor(5, 3, 3, 3)
    layers = tensor(24, 16, grad=True), tensor(8, 24, grad=True)

    def within(function):
        def run():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return function()

        return run

    def train():
        for layer in layers:
            layer.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = F.linear(F.linear(x, layers[0]).relu(), layers[1])
        result.sum().backward()

    yield "autocast linear", within(lambda: F.linear(x, w, tensor(24))), 10752
    yield "autocast mm", within(lambda: torch.mm(x[0], w.t())), 5376
    yield "autocast bmm", within(lambda: torch.bmm(a, a.transpose(1, 2))), 2016
    yield "autocast baddbmm", within(lambda: torch.baddbmm(tensor(3), a, a.transpose(1, 2))), 2016
    yield "autocast matmul by vector", within(lambda: torch.matmul(w, v)), 768
    yield "autocast conv2d", within(lambda: F.conv2d(image, kernel)), 54000
    # three products of the second layer, two of the first
    yield "autocast and back", train, 2 * 10752 + 3 * 5376


def convolutions():
    image, kernel = tensor(2, 3, 12, 12), tensor(5, 3, 3, 3)
    # 2·5·10·10 results of 27 multiply-adds
    yield "conv2d", lambda: F.conv2d(image, kernel, tensor(5)), 54000
    yield "conv2d f64", lambda: F.conv2d(image.double(), kernel.double()), 54000
    yield "conv2d bf16", lambda: F.conv2d(image.bfloat16(), kernel.bfloat16()), 54000
    # done as three of real numbers, as 3m products are
    yield "conv2d c64", lambda: F.conv2d(image.cfloat(), kernel.cfloat()), 162000
    yield "conv2d of one", lambda: F.conv2d(image[:1], kernel), 27000
    yield "conv2d of no batch", lambda: F.conv2d(image[0], kernel), 27000
    yield "conv2d of none", lambda: F.conv2d(image[:0], kernel), 0
    yield "conv2d channels last", lambda: F.conv2d(
        image.to(memory_format=torch.channels_last), kernel), 54000
    yield "conv2d strided view", lambda: F.conv2d(tensor(2, 3, 24, 12)[:, :, ::2], kernel), 54000
    yield "conv2d same", lambda: F.conv2d(image, kernel, padding="same"), 77760
    yield "conv2d stride 2", lambda: F.conv2d(image, kernel, stride=2, padding=1), 19440
    yield "conv2d dilated", lambda: F.conv2d(image, kernel, dilation=2), 34560
    yield "conv2d 1×1", lambda: F.conv2d(image, tensor(5, 3, 1, 1)), 8640
    # 2·12·10·10 results of 2 · 9
    yield "conv2d grouped", lambda: F.conv2d(
        tensor(2, 8, 10, 10), tensor(12, 2, 3, 3), padding=1, groups=4), 86400
    yield "conv2d depthwise", lambda: F.conv2d(
        tensor(2, 8, 10, 10), tensor(8, 1, 3, 3), padding=1, groups=8), 28800
    yield "conv1d", lambda: F.conv1d(tensor(2, 4, 20), tensor(6, 4, 3)), 5184
    yield "conv1d dilated grouped", lambda: F.conv1d(
        tensor(2, 4, 20), tensor(6, 2, 3), dilation=3, groups=2), 2016
    # 4·4·5·6 results of 54
    yield "conv3d", lambda: F.conv3d(tensor(1, 2, 6, 7, 8), tensor(4, 2, 3, 3, 3)), 51840
    # every one of 200 inputs goes into 54
    yield "conv_transpose2d", lambda: F.conv_transpose2d(
        tensor(2, 4, 5, 5), tensor(4, 6, 3, 3), stride=2), 21600
    yield "conv_transpose2d grouped", lambda: F.conv_transpose2d(
        tensor(2, 4, 5, 5), tensor(4, 3, 3, 3), stride=2, groups=2), 10800
    yield "conv_transpose1d", lambda: F.conv_transpose1d(tensor(2, 4, 9), tensor(4, 6, 3)), 2592
    yield "conv_transpose3d", lambda: F.conv_transpose3d(
        tensor(1, 2, 3, 4, 5), tensor(2, 3, 2, 2, 2)), 5760


def convolutions_back():
    image, kernel = tensor(2, 3, 12, 12, grad=True), tensor(5, 3, 3, 3, grad=True)
    yield "conv2d and back", forward_and_backward(F.conv2d, image, kernel), 3 * 54000
    yield "conv2d and back to the image", forward_and_backward(
        F.conv2d, image, kernel.detach()), 2 * 54000
    yield "conv2d and back to the weights", forward_and_backward(
        F.conv2d, image.detach(), kernel), 2 * 54000
    yield "conv2d and back to a bias", forward_and_backward(
        lambda b: F.conv2d(image.detach(), kernel.detach(), b), tensor(5, grad=True)), 54000
    yield "conv2d grouped and back", forward_and_backward(
        lambda x, w: F.conv2d(x, w, padding=1, groups=4),
        tensor(2, 8, 10, 10, grad=True), tensor(12, 2, 3, 3, grad=True)), 3 * 86400
    yield "conv2d dilated and back", forward_and_backward(
        lambda x, w: F.conv2d(x, w, dilation=2), image, kernel), 3 * 34560
    yield "conv2d stride 2 and back", forward_and_backward(
        lambda x, w: F.conv2d(x, w, stride=2, padding=1), image, kernel), 3 * 19440
    yield "conv1d and back", forward_and_backward(
        F.conv1d, tensor(2, 4, 20, grad=True), tensor(6, 4, 3, grad=True)), 3 * 5184
    yield "conv3d and back", forward_and_backward(
        F.conv3d, tensor(1, 2, 6, 7, 8, grad=True), tensor(4, 2, 3, 3, 3, grad=True)), 3 * 51840
    yield "conv_transpose2d and back", forward_and_backward(
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        tensor(2, 4, 5, 5, grad=True), tensor(4, 6, 3, 3, grad=True)), 3 * 21600
    yield "conv_transpose2d grouped and back", forward_and_backward(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2),
        tensor(2, 4, 5, 5, grad=True), tensor(4, 3, 3, 3, grad=True)), 3 * 10800


def products_back():
    yield "mm and back", forward_and_backward(
        torch.mm, tensor(3, 5, grad=True), tensor(5, 4, grad=True)), 360
    yield "mm c64 and back", forward_and_backward(
        lambda a, b: torch.view_as_real(a @ b), tensor(3, 5, dtype=torch.cfloat, grad=True),
        tensor(5, 4, dtype=torch.cfloat, grad=True)), 1440
    yield "bmm and back", forward_and_backward(
        torch.bmm, tensor(7, 3, 5, grad=True), tensor(7, 5, 4, grad=True)), 2520
    yield "baddbmm and back", forward_and_backward(
        torch.baddbmm, tensor(3, 4, grad=True), tensor(7, 3, 5, grad=True),
        tensor(7, 5, 4, grad=True)), 2520
    # the gradient of the matrix is an outer product
    yield "mv and back", forward_and_backward(
        torch.mv, tensor(30, 20, grad=True), tensor(20, grad=True)), 2400
    yield "matmul broadcast and back", forward_and_backward(
        torch.matmul, tensor(2, 1, 3, 5, grad=True), tensor(7, 5, 4, grad=True)), 5040


def recurrent():
    # 9 steps of 3 sequences, two layers in two directions: 4·8 sums of 5 + 8, then of 16 + 8
    lstm = torch.nn.LSTM(5, 8, num_layers=2, bidirectional=True)
    gru = torch.nn.GRU(5, 8)

    def run(model):
        with torch.no_grad():
            model(tensor(9, 3, 5))

    yield "lstm", lambda: run(lstm), 2 * 27 * 2 * 32 * (13 + 24)
    yield "gru", lambda: run(gru), 2 * 27 * 24 * 13


def attention():
    def heads(tokens, size, count=4, **more):
        return tensor(2, count, tokens, size, **more)

    attend = F.scaled_dot_product_attention
    # 2·4 heads, 12 by 20: two products of 8
    yield "attention", lambda: attend(heads(12, 8), heads(20, 8), heads(20, 8)), 61440
    yield "attention causal", lambda: attend(*[heads(12, 8)] * 3, is_causal=True), 36864
    yield "attention masked", lambda: attend(
        heads(12, 8), heads(20, 8), heads(20, 8), attn_mask=tensor(12, 20)), 61440
    yield "attention bf16", lambda: attend(
        *[heads(12, 8, dtype=torch.bfloat16)] * 3), 36864
    yield "attention f64", lambda: attend(*[heads(12, 8, dtype=torch.float64)] * 3), 36864
    yield "attention of two sizes", lambda: attend(heads(12, 8), heads(20, 8), heads(20, 16)), 92160
    yield "attention of one token", lambda: attend(heads(1, 8), heads(20, 8), heads(20, 8)), 5120
    # two heads of keys for four of queries
    yield "attention grouped", lambda: attend(
        heads(12, 8), heads(20, 8, 2), heads(20, 8, 2), enable_gqa=True), 61440
    # backward computes the scores again: five products after two
    yield "attention and back", forward_and_backward(
        attend, heads(12, 8, grad=True), heads(20, 8, grad=True), heads(20, 8, grad=True)), 215040


class Wrapper(torch.Tensor):
    """Has only a shape: another tensor has the elements, here of its first two rows, as in a
    distributed tensor."""
    @staticmethod
    def __new__(cls, whole):
        wrapper = torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=whole.dtype)
        wrapper.part = whole[:2]
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, function, _types, args=(), kwargs=None):
        return function(*[a.part if isinstance(a, Wrapper) else a for a in args], **kwargs or {})


def transforms():
    """Tensors stand for others: the calls made for them count."""
    a, b = tensor(8, 3, 5), tensor(8, 5, 4)
    images, kernels = tensor(4, 2, 3, 12, 12), tensor(4, 5, 3, 3, 3)
    vmap, grad = func.vmap, func.grad
    yield "vmap mm", lambda: vmap(torch.mm)(a, b), 960
    yield "vmap mm by one matrix", lambda: vmap(torch.mm, (0, None))(a, b[0]), 960
    yield "vmap addmm", lambda: vmap(torch.addmm)(tensor(8, 4), a, b), 960
    yield "vmap bmm", lambda: vmap(torch.bmm, (0, None))(tensor(6, 8, 3, 5), b), 5760
    yield "vmap mv", lambda: vmap(torch.mv)(a, b[:, :, 0]), 240
    yield "vmap dot", lambda: vmap(torch.dot)(a[:, 0], b[:, :, 0]), 80
    yield "vmap linear", lambda: vmap(F.linear)(a, tensor(8, 4, 5)), 960
    yield "vmap conv2d", lambda: vmap(F.conv2d, (0, None))(images, kernels[0]), 216000
    yield "vmap conv2d by four kernels", lambda: vmap(F.conv2d)(images, kernels), 216000
    yield "vmap twice", lambda: vmap(vmap(torch.mv), (0, None))(
        tensor(2, 8, 3, 5), b[:, :, 0]), 480
    yield "grad", lambda: grad(lambda x: torch.mm(x, b[0]).sum())(a[0]), 240
    yield "grad of conv2d", lambda: grad(
        lambda w: F.conv2d(images[0], w).sum())(kernels[0]), 108000
    yield "vmap grad", lambda: vmap(grad(lambda x: torch.mm(x, b[0]).sum()))(a), 1920
    # the product and what its tangents give: of the matrix that has none, too, by one of zeros
    yield "jvp", lambda: func.jvp(lambda x: torch.mm(x, b[0]), (a[0],), (a[0],)), 360
    yield "functionalize", lambda: func.functionalize(torch.mm)(a[0], b[0]), 120
    yield "wrapper", lambda: torch.mm(Wrapper(a[0]), b[0]), 80


def fake_product():
    with FakeTensorMode():
        return torch.mm(torch.empty(3, 5), torch.empty(5, 4))


def without_elements():
    """Sparse products do less than their shapes say, by an unknown amount; the others do nothing."""
    a, b = tensor(3, 5), tensor(5, 4)
    coo, csr = a.to_sparse(), a.to_sparse_csr()
    yield "sparse mm", lambda: torch.sparse.mm(coo, b), 0
    yield "sparse mm csr", lambda: csr @ b, 0
    yield "sparse mv", lambda: coo @ b[:, 0], 0
    yield "sparse addmm", lambda: torch.addmm(tensor(3, 4), coo, b), 0
    yield "meta mm", lambda: torch.mm(a.to("meta"), b.to("meta")), 0
    yield "meta conv2d", lambda: F.conv2d(
        tensor(2, 3, 12, 12).to("meta"), tensor(5, 3, 3, 3).to("meta")), 0
    yield "fake mm", fake_product, 0


def other_layouts():
    a, b = tensor(3, 5), tensor(5, 4)
    nested = torch.nested_tensor if not hasattr(torch, "nested") else torch.nested.nested_tensor
    rows, columns = nested([a, a[:2]]), nested([b, b])
    yield "nested bmm", lambda: torch.bmm(rows, columns), 200
    yield "nested linear", lambda: F.linear(rows, tensor(4, 5)), 200
    if torch.backends.mkldnn.is_available():
        image, kernel = tensor(2, 3, 12, 12).to_mkldnn(), tensor(5, 3, 3, 3)
        yield "oneDNN conv2d", lambda: F.conv2d(image, kernel), 54000
        yield "oneDNN linear", lambda: F.linear(
            tensor(14, 16).to_mkldnn(), tensor(24, 16).to_mkldnn()), 10752


def compile_anew():
    """A graph is traced with tensors without elements, and so is its backward graph."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: F.linear(x, w).relu().sum(), backend="aot_eager")
    compiled(tensor(14, 16), tensor(24, 16, grad=True)).backward()


def compiling():
    yield "first call of compile and back", compile_anew, 2 * 10752


def make(_):
    torch.manual_seed(1)
    kinds = [matrices, batches, vectors, linears, autocast, convolutions, convolutions_back,
             products_back, recurrent, transforms, without_elements, other_layouts]
    if RECENT:
        kinds += [attention, compiling]
    return [case for kind in kinds for case in kind()]


if __name__ == "__main__":
    ranges.main(argparse.ArgumentParser(description=__doc__), make)
