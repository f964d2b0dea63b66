#!/usr/bin/env python3
"""Who may include whom, read off the #include lines.

  check_includes.py ROOT

Only the code of a device looks into its addresses. Folders of the project see only the folders that FOLDERS lists for them, third-party headers are in .cc files or in the
adapter headers of ADAPTERS, and no strategy has a name in the code that every strategy shares. A source includes what declares the
functions that it calls of another namespace: where sources are joined, those of the one before it would do.
"""
import collections
import pathlib
import re
import sys

BASE, PLAN, VERIFY, CHECKPOINT = "schemas/base", "schemas/plan", "schemas/verify", "schemas/checkpoint"
FORMS = "schemas/forms"
DIGEST, TIMELINE, PERFETTO = "schemas/digest", "schemas/timeline", "schemas/perfetto"
LAUNCH, LIVE = "schemas/launch", "schemas/live"
COMMAND_LINE = "schemas/command_line"
DIAG, IR = "compiler/diag", "compiler/ir"
# Folder -> folders it may include. Files directly in compiler/, runtime/ or a tool are programs: they see their component.
FOLDERS = {
    BASE: [],
    FORMS: [BASE],
    COMMAND_LINE: [BASE],
    PLAN: [BASE],
    VERIFY: [BASE, PLAN],
    CHECKPOINT: [BASE, PLAN],
    DIGEST: [BASE, PLAN, VERIFY],
    TIMELINE: [BASE, FORMS, PLAN, VERIFY],
    PERFETTO: [],
    LAUNCH: [],
    LIVE: [BASE, PLAN, VERIFY],
    DIAG: [BASE],
    IR: [BASE, FORMS, PLAN, DIAG],
    "compiler/strategy": [BASE, PLAN, DIAG, IR],
    "compiler/machine": [BASE, PLAN, TIMELINE, DIAG, "compiler/strategy"],
    "compiler/frontend": [BASE, FORMS, PLAN, DIAG, IR],
    "compiler/autodiff": [BASE, PLAN, DIAG, IR],
    "compiler/analysis": [BASE, PLAN, IR, "compiler/autodiff"],
    "compiler/regions": [BASE, PLAN, DIAG, IR, "compiler/strategy", "compiler/analysis"],
    "compiler/experts": [BASE, PLAN, DIAG, IR, "compiler/analysis", "compiler/regions"],
    "compiler/tensors": [BASE, PLAN, DIAG, IR],
    "compiler/losses": [BASE, PLAN, DIAG, IR, "compiler/analysis"],
    "compiler/evaluation": [BASE, PLAN, DIAG, IR, "compiler/analysis"],
    "compiler/passes": [BASE, PLAN, DIAG, IR, "compiler/strategy", "compiler/autodiff", "compiler/analysis", "compiler/regions",
                        "compiler/experts", "compiler/tensors", "compiler/losses"],
    "compiler/directives": [BASE, PLAN, DIAG, IR, "compiler/strategy"],
    "compiler/emit": [BASE, PLAN, DIAG, IR, "compiler/strategy"],
    "compiler/driver": [BASE, PLAN, VERIFY, CHECKPOINT, TIMELINE, "compiler"],
    "compiler/tune": [BASE, PLAN, TIMELINE, "compiler"],
    "compiler/search": [BASE, PLAN, VERIFY, TIMELINE, "compiler"],
    "compiler": [BASE, COMMAND_LINE, PLAN, "compiler"],
    "runtime/hal": [BASE, PLAN],
    "runtime/trace": [BASE, PLAN, DIGEST, PERFETTO, LIVE],
    "runtime/data": [BASE, PLAN, LIVE, "runtime/trace"],
    "runtime/kernels": [BASE, FORMS, PLAN, "runtime/hal"],
    "runtime/bootstrap": [BASE, PLAN, LAUNCH, "runtime/hal"],
    "runtime/checkpoint": [BASE, PLAN, CHECKPOINT, LIVE, "runtime/hal", "runtime/trace"],
    "runtime/exec": [BASE, PLAN, CHECKPOINT, DIGEST, LIVE, "runtime"],
    "runtime/program": [BASE, COMMAND_LINE, PLAN, VERIFY, LAUNCH, LIVE, "runtime"],
    "runtime": ["runtime"],
    "launcher": [BASE, COMMAND_LINE, PLAN, LAUNCH, LIVE, "launcher"],
    "tools/mutate": [BASE, COMMAND_LINE, PLAN, VERIFY, "runtime/kernels", "runtime/program"],
    "tools/piper_plan": [BASE, COMMAND_LINE, PLAN, VERIFY, TIMELINE, CHECKPOINT, DIGEST, PERFETTO, LIVE, DIAG, "compiler/machine", "compiler/strategy"],
    "tools/piper_torchscript": [BASE, COMMAND_LINE],
    "tools/piper_opt": [BASE, COMMAND_LINE, PLAN, VERIFY, "compiler"],
}
NAMELESS = ("compiler/ir", "compiler/analysis", "compiler/regions", "compiler/experts", "compiler/tensors", "compiler/losses",
            "compiler/evaluation", "compiler/passes", "compiler/emit", "runtime")
NAMES = re.compile(r"1f1b|one_f_one_b|gpipe|dual_?pipe|zero[ _-]?bubble|\bzb[_-]|\bzero-?[123]\b", re.IGNORECASE)
# What a device's memory is to the host: an Address, which only these turn into a pointer.
POINTERS = re.compile(r"\bin_device(_as)?\b")
DEVICE_CODE = ("runtime/hal/", "runtime/kernels/")
# Headers that a component must not see, however deep in its folders.
FORBIDDEN = {
    "compiler": re.compile(r"^(ATen|c10|torch|caffe2|cuda|cublas|cudnn|nccl|mpi\.h|rccl|hip)"),
    "schemas": re.compile(r"^(ATen|c10|torch|caffe2|cuda|cublas|cudnn|nccl|mpi\.h|onnx|yaml-cpp)"),
    "runtime": re.compile(r"^(onnx|yaml-cpp|protozero|google/protobuf|Python\.h|pybind11|torch/(csrc/)?(jit|autograd|extension))"),
    "launcher": re.compile(r"^(ATen|c10|torch|cuda|nccl|mpi\.h|ucp|ucs|uct|onnx|yaml-cpp|protozero)"),
}
# Headers that hand a third-party type to the .cc files of their own folder, and to nobody else.
ADAPTERS = {
    "compiler/frontend/onnx/wire.h": "protozero/",
    "compiler/frontend/onnx/onnx_fields.h": "protozero/",
    "compiler/frontend/pt2/json_integer.h": "nlohmann/",
    "runtime/hal/cuda/cuda_check.h": "cuda_runtime_api.h",
    "runtime/hal/cuda/cuda_handles.h": "cuda_runtime_api.h",
    "runtime/hal/nccl/nccl_communicators.h": "nccl.h",
    "runtime/hal/tcp/store_connection.h": "torch/",
    "runtime/kernels/binding.h": ("ATen/", "c10/"),
    "runtime/kernels/cuda/device_code.h": ("cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h"),
    "runtime/kernels/fast_pointwise.h": ("ATen/",),
}
# Whose streams NCCL's calls go to, and whose views are the operands of LibTorch's operators.
ADAPTER_USERS = {"runtime/hal/nccl": "runtime/hal/cuda", "runtime/kernels/library": "runtime/kernels",
                 "runtime/kernels/cuda": "runtime/kernels"}
THIRD_PARTY = re.compile(r"[/]|^(mpi|nccl|cuda\w*|xxhash|zlib|zstd)\.h$")
SYSTEM = re.compile(r"^(sys|linux|netinet|arpa|net|bits|asm)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')

SILENT = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'(?!\w)', re.DOTALL)
# Declared at the beginning of a line, and called as one of a namespace of the project.
FUNCTION = re.compile(r"^(?!using|typedef|return|namespace|class|struct|enum|#)\w[\w:<>,&* ]*[\s&*](\w+)\(", re.MULTILINE)
QUALIFIED = re.compile(r"(?<![\w.>:])(?:piper::)?(plan|verify|checkpoint|hal|kernels|exec|trace|live|launch|data|bootstrap)::(\w+)\(")


def folder_of(path: str) -> str | None:
    """The longest entry of FOLDERS that the file lies in; a program's folder holds only its own files."""
    parts = path.split("/")[:-1]
    for end in range(len(parts), 0, -1):
        name = "/".join(parts[:end])
        if name in FOLDERS:
            return name
    return None


def may_include(source: str, target: str) -> bool:
    return any(target == allowed or (allowed.count("/") == 0 and target.startswith(allowed + "/"))
               for allowed in [source, *FOLDERS[source]])


def check_line(path: str, folder: str, quoted: bool, header: str) -> str | None:
    """Why this include is wrong, or None."""
    if quoted:
        target = folder_of(header)
        if target is None:
            return f'"{header}" lies in no folder that tests/layering knows' if "/" in header else f'"{header}" is no full path'
        if not may_include(folder, target):
            return f"{folder} must not include {target} ({header})"
        user, owner = (pathlib.PurePath(p).parent.as_posix() for p in (path, header))
        if header in ADAPTERS and owner not in (user, ADAPTER_USERS.get(user)):
            return f"{header} is an adapter of its own folder"
        return None
    forbidden = FORBIDDEN.get(path.split("/")[0])
    if forbidden and forbidden.search(header):
        return f"{path.split('/')[0]} must not include <{header}>"
    third_party = THIRD_PARTY.search(header) and not SYSTEM.search(header)
    if third_party and path.endswith(".h") and not header.startswith(ADAPTERS.get(path, ("\0",))):
        return f"<{header}> belongs into a .cc file"
    return None


def faults_of(root: pathlib.Path, file: pathlib.Path) -> list[str]:
    path = file.relative_to(root).as_posix()
    folder = folder_of(path)
    if folder is None:
        return [f"{path}: lies in no folder that tests/layering knows"]
    faults = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        why = check_line(path, folder, found[1] == '"', found[2]) if found else None
        if why is None and path.startswith(tuple(f"{name}/" for name in NAMELESS)) and NAMES.search(line):
            why = f"names a strategy: {NAMES.search(line)[0]}"
        if why is None and not path.startswith(DEVICE_CODE) and POINTERS.search(line):
            why = f"looks behind an address of a device: {POINTERS.search(line)[0]}"
        if why:
            faults.append(f"{path}:{number}: {why}")
    return faults


def included(path: str, includes: dict[str, list[str]], seen: set[str]) -> set[str]:
    for header in includes[path]:
        if header in includes and header not in seen:
            seen.add(header)
            included(header, includes, seen)
    return seen


def missing_includes(sources: dict[str, str]) -> list[str]:
    """Functions of another folder's namespace whose header a source does not see, but by what a joined build puts before it."""
    silent = {path: SILENT.sub(" ", text) for path, text in sources.items()}
    includes = {path: re.findall(r'^#include "([^"]+)"', text, re.MULTILINE) for path, text in sources.items()}
    declared = collections.defaultdict(set)
    for path, text in silent.items():
        if path.endswith(".h"):
            for function in FUNCTION.findall(text):
                declared[function].add(path)
    faults = []
    for path, text in silent.items():
        used = {name for _, name in QUALIFIED.findall(text) if len(declared[name]) == 1} if path.endswith(".cc") else ()
        seen = included(path, includes, {path}) if used else ()
        faults += [f"{path}: calls {name}() without {header}" for name in sorted(used) for header in declared[name] if header not in seen]
    return faults


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = sorted(file for top in ("schemas", "compiler", "runtime", "launcher", "tools") for file in (root / top).rglob("*")
                   if file.suffix in (".h", ".cc", ".cu", ".def", ".inc"))
    faults = [fault for file in files for fault in faults_of(root, file)]
    faults += missing_includes({file.relative_to(root).as_posix(): file.read_text() for file in files if file.suffix in (".h", ".cc")})
    for line in faults:
        print(line)
    print(f"{len(files)} files, {len(faults)} faults")
    sys.exit(1 if faults or not files else 0)


if __name__ == "__main__":
    main()
