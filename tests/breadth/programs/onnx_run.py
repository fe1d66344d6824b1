# SPDX-License-Identifier: BSD-2-Clause
"""ONNX Runtime, whose library has no symbols: its calls cannot be counted, so it has no steps."""
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from truth import Truth

rng = numpy.random.default_rng(0)
names = [f"h{i}" for i in range(9)]
weights = [numpy_helper.from_array(rng.standard_normal((512, 512), dtype=numpy.float32), f"w{i}") for i in range(8)]
nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(8)]
graph = helper.make_graph(nodes, "layers", [helper.make_tensor_value_info("h0", TensorProto.FLOAT, [64, 512])],
                          [helper.make_tensor_value_info("h8", TensorProto.FLOAT, [64, 512])], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.checker.check_model(model)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
x = rng.standard_normal((64, 512), dtype=numpy.float32)
truth = Truth()
while truth.going():
    session.run(None, {"h0": x})
    truth.step()
truth.finish()
