# SPDX-License-Identifier: BSD-2-Clause
import pathlib

TOP = pathlib.Path(__file__).resolve().parents[2]
