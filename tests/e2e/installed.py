#!/usr/bin/env python3
"""What `cmake --install` brings is enough: programs, the exporter, machines by their names, strategies; and what piper-plan answers in
JSON is as schemas/piper_plan.schema.json says.

  installed.py --bin BIN --work DIR
"""
import argparse
import array
import json
import pathlib
import re
import shutil
import subprocess
import sys

from checks import check, faults

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"


KINDS = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}


def fits(value, schema):
    """The part of JSON Schema that piper_plan.schema.json uses."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        return False
    if "type" in schema and (not isinstance(value, KINDS[schema["type"]]) or isinstance(value, bool)):
        return False
    if isinstance(value, list):
        return all(fits(item, schema["items"]) for item in value)
    if isinstance(value, dict):
        known = schema["properties"]
        return all(key in value for key in schema["required"]) and all(key in known and fits(item, known[key]) for key, item in value.items())
    return True


BANNER = [r"piper-run: tiny_gpt\.onnx: [\d,]+ parameters, f32; 1 rank .*, 1 thread a rank",
          r"piper-run: data: tokens\.bin: raw tokens, 4096 tokens of u16; \d+ samples of \d+ tokens, .*",
          r"piper-run: 2 steps of 4 samples: \S+ times the data"]


def begins_with_a_banner(text):
    lines = text.splitlines()
    return all(re.fullmatch(wanted, line) for wanted, line in zip(BANNER, lines)) and len(lines) > len(BANNER)


def json_answers(called):
    """Each --json is what the schema says."""
    schema = json.loads((MODELS.parents[1] / "schemas" / "piper_plan.schema.json").read_text())["$defs"]
    code, text = called("piper-run", "plans", "--data", "tokens.bin", "--steps", 2, "--checkpoint", "checkpoints", "--threads", 1)
    check("a run says first what it reads, and as what", code == 0 and begins_with_a_banner(text), text)
    for name, words in {"verify": ["verify", "plans"], "show": ["show", "plans"], "simulate": ["simulate", "plans"], "explain": ["explain", "plans"],
                        "checkpoint_ls": ["checkpoint", "ls", "checkpoints"], "checkpoint_verify": ["checkpoint", "verify", "checkpoints"],
                        "checkpoint_diff": ["checkpoint", "diff", "checkpoints", "checkpoints"]}.items():
        code, text = called("piper-plan", *words, "--json")
        check(f"piper-plan {' '.join(words)} --json is as its schema says", code == 0 and fits(json.loads(text), schema[name]), text)
    called("piper-run", "plans", "--data", "tokens.bin", "--steps", 3, "--checkpoint", "longer", "--threads", 1)
    code, text = called("piper-plan", "checkpoint", "diff", "checkpoints", "longer", "--json")
    check("differences are listed one by one", code == 1 and fits(json.loads(text), schema["checkpoint_diff"]) and
          {"what": "step", "how": "2 against 3"} in json.loads(text), text)
    here = called.here
    whole = next(path for path in sorted((here / "longer").rglob("*.safetensors")) if path.stat().st_size > 0)
    whole.write_bytes(whole.read_bytes()[:-1] + bytes([whole.read_bytes()[-1] ^ 1]))
    code, text = called("piper-plan", "checkpoint", "verify", "longer", "--json")
    check("what is damaged is told", code == 1 and fits(json.loads(text), schema["checkpoint_verify"]) and json.loads(text)[0]["damaged"], text)
    code, text = called("piper-plan", "verify", "nothing", "--json")
    check("a refutation is an answer, too", code == 1 and fits(json.loads(text), schema["verify"]) and not json.loads(text)["proved"], text)


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

    called.here = here
    code, text = called("cmake", "--install", arguments.bin.resolve().parent, "--prefix", prefix)
    check("it installs", code == 0, text[-2000:])
    for program in ("piperc", "piper-run", "piper-plan", "piper-launch"):
        code, text = called(program, "--version")
        check(f"{program} is there", code == 0 and text.startswith(f"{program} "), text)
    code, text = called("piper-export", "--help")
    # It needs torch, which the Python of this test may lack.
    check("the exporter is there", code == 0 and "usage" in text.lower() or "piper_export.py" in text and "No module named 'torch'" in text, text)
    strategies = prefix / "share" / "piper" / "strategies"
    check("strategies are there", (strategies / "1f1b.yaml").exists() and (strategies / "targets" / "h100_node8.yaml").exists())
    (here / "s.yaml").write_text("piper: 1\nmodel: {batch: 4, inputs: {input_ids: tokens, labels: next_tokens}}\noptimizer: {sgd: {lr: 0.1}}\n")
    code, text = called("piperc", MODELS / "tiny_gpt.onnx", "--strategy", "s.yaml", "--target", "cpu_two_cores", "-o", "plans")
    check("a machine is found by its name", code == 0 and " ms a step" in text, text)
    code, text = called("piper-plan", "simulate", "plans", "--target", "cpu_two_cores")
    check("also by piper-plan", code == 0 and "step:" in text, text)
    code, text = called("piper-plan", "simulate", "plans", "--target", "cpu_two_core")
    check("a wrong name is told with those that there are", code == 1 and "h100_node8" in text, text)
    (here / "tokens.bin").write_bytes(array.array("H", (i * 7 % 19 for i in range(4096))).tobytes())
    json_answers(called)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
