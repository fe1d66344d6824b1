#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A TensorFlow trainer: a convolution and two dense layers on a made-up task, trained by a
tf.function that Keras's own optimizer is applied in. At the gate:

    run N      N steps of train_step
    new N      the same for batches of another size, for which it is traced anew
    eager N    N products of matrices outside of any function
    xla N      N calls of a function that XLA compiles: two products of matrices
    fit N      N batches by Keras's own loop
    ops 0      one JSON line: {node name: type} of train_step's graph
"""
import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402  pylint: disable=wrong-import-position

import gate  # noqa: E402  pylint: disable=wrong-import-position

BATCH, INPUTS, HIDDEN, CLASSES = 32, 128, 64, 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    gate.add_arguments(parser)
    parser.add_argument("--threads", type=int, default=0, help="of an operation; 0: TensorFlow's own choice")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.random.set_seed(1)
    w1 = tf.Variable(tf.random.normal((INPUTS, HIDDEN)) * 0.1, name="w1")
    w2 = tf.Variable(tf.random.normal((HIDDEN, CLASSES)) * 0.1, name="w2")
    x = tf.random.normal((BATCH, INPUTS))
    labels = tf.argmax(x[:, :CLASSES], axis=1)

    @tf.function
    def train_step(x, labels):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.matmul(x, w1))
            logits = tf.matmul(hidden, w2)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        for variable, gradient in zip((w1, w2), tape.gradient(loss, (w1, w2))):
            variable.assign_sub(0.1 * gradient)
        return loss

    a, b = tf.ones((20, 30)), tf.ones((30, 40))

    def eager(count):
        for _ in range(count):
            tf.matmul(a, b)

    square = tf.ones((256, 256))

    @tf.function(jit_compile=True)
    def two_products(a, b):
        return tf.matmul(tf.matmul(a, b), b, transpose_a=True)

    def xla(count):
        for _ in range(count):
            two_products(square, square)

    def new(count):
        for _ in range(count):
            train_step(x[:16], labels[:16])

    model = tf.keras.Sequential([tf.keras.Input((INPUTS,)), tf.keras.layers.Dense(HIDDEN, "relu"),
                                 tf.keras.layers.Dense(CLASSES)])
    model.compile(optimizer="sgd", jit_compile=False,
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def fit(count):
        data = tf.data.Dataset.from_tensors((x, labels)).repeat(count)
        model.fit(data, steps_per_epoch=count, verbose=0)

    def ops(_):
        graph = train_step.get_concrete_function(x, labels).graph
        gate.say(json.dumps({op.name: op.type for op in graph.get_operations()}))

    def step():
        return float(train_step(x, labels))

    for _ in range(3):
        step()
    eager(1)
    xla(1)
    fit(2)
    gate.Trainer(args, step, {"eager": eager, "xla": xla, "new": new, "fit": fit, "ops": ops}).main()


if __name__ == "__main__":
    main()
