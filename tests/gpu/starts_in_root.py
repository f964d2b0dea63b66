#!/usr/bin/env python3
"""The programs that gpu_node.sh packs start where there is nothing but C's and C++'s libraries and torch for CUDA: as on a machine that is
lent, except its driver, which here is a library that counts one GPU and knows nothing else.

  starts_in_root.py --programs DIR --site SITE_PACKAGES --work DIR        # as root: chroot in a mount namespace

--site: where torch 2.11 for CUDA is installed with all that it depends on (pip install --target SITE torch==2.11.0). Expected is the one
line R0106 that the driver is too old, said by CUDA's runtime out of libpiper_cuda.so; printed is which libraries were loaded by then.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

DRIVER = "int cuInit(unsigned flags) { return (int)(flags * 0); }\nint cuDeviceGetCount(int* count) { *count = 1; return 0; }\n"
WANTED = ("libpiper_cuda.so", "libtorch_cuda.so", "libtorch_cpu.so", "libc10_cuda.so", "libcudart.so", "libnccl.so", "libcublas.so", "libcudnn.so")


def libraries_of(file, environment):
    """What the loader finds for a file here: name, path or nothing."""
    said = subprocess.run(["ldd", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment).stdout
    return re.findall(r"^\s*(\S+) => (\S+|not found)", said, re.M) + [(path, path) for path in re.findall(r"^\s*(/\S*ld-linux\S*)", said, re.M)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    parser.add_argument("--site", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    args = parser.parse_args()
    root, site = (args.work / "root").resolve(), args.site.resolve()
    shutil.rmtree(root, ignore_errors=True)
    (root / "site").mkdir(parents=True)
    subprocess.run(["cp", "-rL", args.programs, root / "programs"], check=True)
    (root / "site" / "torch").mkdir()
    for part in ("torch/lib", "nvidia"):
        subprocess.run(["cp", "-al", site / part, root / "site" / part], check=True)
    folders = ["/site/torch/lib", *(f"/site/nvidia/{path.parent.name}/lib" for path in sorted((site / "nvidia").glob("*/lib")))]
    there = os.environ | {"LD_LIBRARY_PATH": ":".join(f"{root}{folder}" for folder in folders)}
    missing = set()
    for file in [*sorted((root / "programs").iterdir()), root / "site/torch/lib/libtorch_cuda.so"]:
        for name, path in libraries_of(file, there):
            if path == "not found":
                missing.add(name)
            elif not path.startswith(str(root)) and not any((root / folder.lstrip("/") / pathlib.Path(name).name).exists() for folder in folders):
                target = root / path.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    shutil.copy2(os.path.realpath(path), target)
    print("not here:", ", ".join(sorted(missing)) or "nothing")
    (args.work / "driver.c").write_text(DRIVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", root / "site/torch/lib/libcuda.so.1", args.work / "driver.c"], check=True)
    for folder in ("tmp", "proc"):
        (root / folder).mkdir(exist_ok=True)
    environment = {"LD_LIBRARY_PATH": ":".join(folders), "HOME": "/", "TMPDIR": "/tmp"}

    def inside(*words, **more):
        enter = ["unshare", "--mount", "sh", "-c", 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"', root]
        enter[0] = shutil.which(enter[0])
        return subprocess.run([*enter, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=environment | {"PATH": os.environ["PATH"]} | more)
    done = inside("/programs/write_plans", "pipeline", "/tmp/pipeline")
    if done.returncode != 0:
        raise SystemExit(done.stdout)
    run = ["/programs/piper-run", "/tmp/pipeline/plans", "--data", "/tmp/pipeline/data.safetensors", "--init", "normal:0.02"]
    cpu = inside(*run, "--steps", "2")
    print(f"on CPU ranks: exit {cpu.returncode}: {cpu.stdout.splitlines()[-1] if cpu.stdout else ''}")
    done = inside(*run, "--device", "cuda")
    print(f"on a GPU: exit {done.returncode}: {done.stdout.strip()}")
    loaded = inside(*run, "--device", "cuda", LD_DEBUG="files").stdout
    seen = {name: re.findall(rf"calling init: (\S*{re.escape(name)}\S*)", loaded) for name in WANTED}
    for name, paths in seen.items():
        print(f"  {name}: {paths[0] if paths else 'NOT loaded'}")
    tests = {name: inside(f"/programs/{name}") for name in ("gpu_device_test", "gpu_nccl_test")}
    for name, test in tests.items():
        print(f"{name}: exit {test.returncode}: {next((line for line in test.stdout.splitlines() if 'skipped' in line), test.stdout)}")
    good = (not missing and cpu.returncode == 0 and done.returncode == 1 and "R0106" in done.stdout and "driver" in done.stdout and all(seen.values()) and
            all(test.returncode == 0 and "skipped" in test.stdout for test in tests.values()))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
