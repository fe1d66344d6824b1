# SPDX-License-Identifier: BSD-2-Clause
"""Cost of reading operators' arguments in a PyTorch trainer: perfx-trace with FLOPs, and the same
functions traced without (--flops off), beside the untraced trainer. Memory and peaks are not
measured."""


import subjects
import tracers
from output import median, number, progress, say, spread, table

BLOCK_SECONDS = 2
WARM_STEPS = 10
MODELS = ("cnn", "transformer")
OPTIONS = ("--memory", "off", "--no-peaks")
SETTINGS = {"off": (*OPTIONS, "--flops", "off"), "on": OPTIONS}


class Flops:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims
        self.pythons = subjects.pythons(options)

    def traced(self, trainer, setting, steps, result):
        tracer = tracers.Perfx(self.options.build, trainer.pid, *SETTINGS[setting])
        trainer.run(WARM_STEPS)
        figures = trainer.run(steps)
        report = tracer.stop()
        compute = next((p["compute"] for p in report["processes"]
                        if p["pid"] == trainer.pid and "compute" in p), None)
        if setting == "on" and compute:
            result["figures_per_step"].append(compute["figures"]["counted"] / (steps + WARM_STEPS))
        return figures

    def round(self, trainer, steps, before, result):
        """Untraced, off, on, untraced; returns the last."""
        off = self.traced(trainer, "off", steps, result)
        on = self.traced(trainer, "on", steps, result)
        after = trainer.run(steps)
        for i, clock in enumerate(("wall", "cpu")):
            untraced = (before[i] + after[i]) / 2
            result[f"on/off {clock}"].append(on[i] / off[i])
            result[f"on/untraced {clock}"].append(on[i] / untraced)
        result["untraced_ms"].append(after[0])
        result["on_ms"].append(on[0])
        return after

    def measure(self, which, python, model):
        version = subjects.torch_version(python)
        if not version:
            return None
        result = {"torch": version, "figures_per_step": [], "untraced_ms": [], "on_ms": [],
                  "on/off wall": [], "on/off cpu": [], "on/untraced wall": [],
                  "on/untraced cpu": []}
        with subjects.Trainer(python, self.options.source, "--model", model) as trainer:
            steps = max(10, round(BLOCK_SECONDS * 200 / trainer.run(30)[0]) * 5)
            before = trainer.run(steps)
            for _ in range(self.options.rounds):
                progress(f"flops: {model}, {which} PyTorch {version}")
                before = self.round(trainer, steps, before, result)
        progress("")
        return result

    def run(self):
        say("Figures of a PyTorch trainer's operators, median of "
            f"{self.options.rounds} rounds")
        results = {(which, model): self.measure(which, python, model)
                   for which, python in self.pythons.items() for model in MODELS}
        results = {key: r for key, r in results.items() if r}
        rows = []
        for (which, model), r in results.items():
            rows += [f"  {model}, {which} PyTorch {r['torch']}: "
                     f"{number(median(r['figures_per_step']))} figures a step",
                     ["  ms/step untraced"] + spread(r["untraced_ms"], 2),
                     ["  ms/step with figures"] + spread(r["on_ms"], 2),
                     ["  with figures / without"] + spread(r["on/off wall"], 3),
                     ["  the same, its CPU time"] + spread(r["on/off cpu"], 3),
                     ["  with figures / untraced"] + spread(r["on/untraced wall"], 3),
                     ["  the same, its CPU time"] + spread(r["on/untraced cpu"], 3)]
        table(["", "median", "min", "max"], rows)
        for (which, model), r in results.items():
            self.aims.add(f"{model}, {which} PyTorch, with figures / untraced",
                          median(r["on/untraced wall"]), 1.02, digits=3)
        say()
        return {f"{which} {model}": r for (which, model), r in results.items()}
