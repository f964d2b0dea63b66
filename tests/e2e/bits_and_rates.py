#!/usr/bin/env python3
"""What must not change a bit, and what follows PyTorch beside the loss: rates, clipping, dropout, import routes.

  bits_and_rates.py --bin BIN --work DIR [--no-mpirun]

Bitwise: gpipe to 1f1b, every other schedule family of four stages, another placement, local and mpirun, two runs of one
bundle, the CPU twin of a plan for GPUs; compiling twice, and in another folder, gives the same bytes; changing lr changes manifest lines only. To 1e-5:
warm-up + cosine and clipping with two stages on two replicas; dropout with the masks of a torch twin of the generator,
under every composition; both import routes.
"""
import argparse
import filecmp
import json
import math
import shutil
import sys

from checks import check, faults
import harness
import philox
import zoo


def same_bits(a, b):
    if a.losses != b.losses:
        return False, f"losses {next((x, y) for x, y in zip(a.losses, b.losses) if x != y)}"
    for name, tensor in a.weights.items():
        if not (tensor.view(-1).numpy().tobytes() == b.weights[name].view(-1).numpy().tobytes()):
            return False, f"weight {name}"
    return True, ""


def bits(bench, mpirun):
    for model in ("gpt", "bert"):
        base = bench.train(model, "pp2_1f1b", "adamw")
        for other, launch in [("pp2_gpipe", "local"), ("pp2_1f1b_swapped", "local"), ("pp2_one_device", "local")] + (
                [("pp2_1f1b", "mpirun"), ("pp2_dp2", "mpirun")] if mpirun else []):
            against = base
            if other == "pp2_dp2":
                against = bench.train(model, other, "adamw")
            result = bench.train(model, other, "adamw", launch)
            check(f"{model}: pp2_1f1b and {other} {launch} give the same bits" if against is base else
                  f"{model}: {other} local and mpirun give the same bits", *same_bits(against, result))
        check(f"{model}: two runs give the same bits", *same_bits(base, bench.train(model, "pp2_1f1b", "adamw")))


def twin(bench):
    """A plan for GPUs runs on CPU ranks to the bits of the plan for these; its buffers begin where a GPU wants them."""
    here = bench.train("gpt", "pp2_dp2", "adamw")
    check("gpt: the CPU twin of a plan for cuda gives the same bits", *same_bits(here, bench.train("gpt", "pp2_dp2", "adamw", "local", "",
                                                                                                 "--device", "cuda")))
    plans = bench.work / "gpt-pp2_dp2-adamw.plans"
    manifest = json.loads((plans / "manifest.json").read_text())
    check("gpt: the manifest names device and way of summing", (manifest["device"], manifest["reduction"]) == ("cuda", "library"), str(manifest["device"]))
    offsets = json.loads((plans / "ranks" / "rank-00000.json").read_text())["offsets"].values()
    check("gpt: buffers of a plan for cuda begin at multiples of 256", all(offset % 256 == 0 for offset in offsets), str(max(offsets)))


def bits_of_families(bench):
    """Every family that leaves a stage's microbatches in their order gives the same bits, whatever ranks its stages are on."""
    base = bench.train("gpt", "pp4_1f1b", "adamw")
    for other in ("pp4_gpipe", "pp4_zero_bubble", "pp4_interleaved", "pp4_interleaved_zero_bubble", "pp4_zb_v", "pp4_dualpipev"):
        check(f"gpt: pp4_1f1b and {other} give the same bits", *same_bits(base, bench.train("gpt", other, "adamw")))


def files_of(folder):
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())


def bytes_of_plans(bench):
    text = harness.strategy_text("gpt", "pp2_dp2", "adamw")
    first = bench.compile("gpt", text, "same")
    elsewhere = bench.work / "elsewhere"
    shutil.rmtree(elsewhere, ignore_errors=True)
    elsewhere.mkdir()
    kept = elsewhere / "kept.plans"
    shutil.copytree(first, kept)
    again = bench.compile("gpt", text, "same")
    check("compiling twice gives the same bytes", filecmp.cmpfiles(kept, again, files_of(kept), shallow=False)[0] == files_of(kept))
    shutil.copy(bench.exported("gpt"), elsewhere)
    shutil.copy(bench.work / "same.yaml", elsewhere)
    bench.call([bench.bin / "piperc", "gpt.onnx", "--strategy", "same.yaml", "-o", "moved.plans"], cwd=elsewhere)
    moved = elsewhere / "moved.plans"
    check("compiling in another folder gives the same bytes", filecmp.cmpfiles(kept, moved, files_of(kept), shallow=False)[0] == files_of(kept))
    other = bench.compile("gpt", text.replace('"lr": 0.001', '"lr": 0.002'), "same")
    different = [str(f) for f in files_of(kept) if (kept / f).read_bytes() != (other / f).read_bytes()]
    check("another lr changes the manifest only", different == ["manifest.json"], str(different))


def rates(bench):
    def cosine(step, warmup=4, until=15, to=0.1):
        if step <= warmup:
            return step / warmup
        if step >= until:
            return to
        return to + (1 - to) * (1 + math.cos(math.pi * (step - warmup) / (until - warmup))) / 2

    extra = "lr_schedule: {warmup: 4, cosine: {until: 15, to: 0.1}}\nclip_grad_norm: 0.5\n"
    for optimizer in ("adamw", "sgd"):
        losses, _, _ = harness.torch_training("gpt", optimizer, schedule=cosine, clip=0.5)
        result = bench.train("gpt", "pp2_dp2", optimizer, "local", extra)
        problems = harness.loss_faults(result.losses, losses, 1e-5)
        check(f"{optimizer}: warm-up, cosine and clipping on two stages of two replicas", not problems, problems[:1])


def dropout(bench):
    losses, gradients, _ = harness.torch_training("gpt_dropout", "sgd", around=philox.with_masks(seed=0))
    for name in ("one", "mb4", "dp2_mb2", "pp2_1f1b", "pp2_dp2", "pp4_zero_bubble", "pp4_dualpipev_dp2", "pp2_dualpipe"):
        result = bench.train("gpt_dropout", name, "sgd")
        problems = harness.loss_faults(result.losses, losses, 1e-5) + harness.gradient_faults(result.gradients, gradients)
        check(f"dropout with the twin's masks, {name}", not problems, problems[:1])


def routes(bench):
    for model in ("mlp", "gpt", "cnn", "bert", "gpt2", "llama", "qwen3", "vit"):
        expected = bench.train(model, "one", "sgd").losses
        result = bench.train(model, "one", "sgd", "local", "", "--route", "onnx")
        problems = harness.loss_faults(result.losses, expected, zoo.MODELS[model].tolerance)
        check(f"{model}: ONNX operators one by one train to the same losses", not problems, problems[:1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--no-mpirun", action="store_true")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    bytes_of_plans(bench)
    rates(bench)
    dropout(bench)
    routes(bench)
    bits_of_families(bench)
    twin(bench)
    bits(bench, not args.no_mpirun)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
