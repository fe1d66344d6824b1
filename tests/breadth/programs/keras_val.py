# SPDX-License-Identifier: BSD-2-Clause
"""Keras' fit with an evaluation after each epoch."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import tensorflow as tf
from truth import Truth

N, D = 256, 256
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
data = tf.data.Dataset.from_tensors((tf.random.normal((N, D)), tf.random.normal((N, D)))).repeat()
validation = data.take(40)
model = keras.Sequential([keras.layers.Dense(D, use_bias=False) for _ in range(4)])
model.compile(optimizer="sgd", loss="mse", jit_compile=False)
model.fit(data, steps_per_epoch=2, verbose=0)


class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        truth.step()
        if not truth.going():
            self.model.stop_training = True


truth = Truth((3 * 4 - 1) * 2 * N * D * D)
model.fit(data, steps_per_epoch=200, epochs=1000000, verbose=0, callbacks=[Ends()], validation_data=validation)
truth.finish()
