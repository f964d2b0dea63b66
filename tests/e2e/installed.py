#!/usr/bin/env python3
"""What `cmake --install` brings is enough: programs, the exporter, machines by their names, strategies.

  installed.py --bin BIN --work DIR
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

from checks import check, faults

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    here, prefix = work / "here", work / "prefix"
    here.mkdir(parents=True)

    def called(*words):
        done = subprocess.run([str(word) for word in words], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={"PATH": f"{prefix / 'bin'}:/usr/bin:/bin", "PIPER_PYTHON": sys.executable})
        return done.returncode, done.stdout

    code, text = called("cmake", "--install", arguments.bin.resolve().parent, "--prefix", prefix)
    check("it installs", code == 0, text[-2000:])
    for program in ("piperc", "piper-run", "piper-plan", "piper-launch"):
        code, text = called(program, "--version")
        check(f"{program} is there", code == 0 and text.startswith(f"{program} "), text)
    code, text = called("piper-export", "--help")
    check("the exporter is there", code == 0 and "usage" in text.lower(), text)
    strategies = prefix / "share" / "piper" / "strategies"
    check("strategies are there", (strategies / "1f1b.yaml").exists() and (strategies / "targets" / "h100_node8.yaml").exists())
    (here / "s.yaml").write_text("piper: 1\nmodel: {batch: 4}\noptimizer: {sgd: {lr: 0.1}}\n")
    code, text = called("piperc", MODELS / "tiny_gpt.onnx", "--strategy", "s.yaml", "--target", "cpu_two_cores", "-o", "plans")
    check("a machine is found by its name", code == 0 and " ms a step" in text, text)
    code, text = called("piper-plan", "simulate", "plans", "--target", "cpu_two_cores")
    check("also by piper-plan", code == 0 and "step:" in text, text)
    code, text = called("piper-plan", "simulate", "plans", "--target", "cpu_two_core")
    check("a wrong name is told with those that there are", code == 1 and "h100_node8" in text, text)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
