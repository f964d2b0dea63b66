#!/usr/bin/env python3
"""What every program does alike with its command line: a version; an option that is misspelt is reported once, as it was written, with
the one that was meant; options that exclude each other are refused; what is internal is not in the help.

  command_lines.py --bin BIN

It reads what there is from the programs' own help, so that a new option is looked at, too. What is known to be one answer or the
other is in ALTERNATIVES: every pair of a group must be refused, whatever else is given.
"""
import argparse
import itertools
import os
import pathlib
import re
import subprocess
import sys

from checks import check, faults

COMMANDS = {
    "piperc": [[]],
    "piper-run": [[]],
    "piper-plan": [["verify"], ["show"], ["diff"], ["simulate"], ["explain"], ["report"], ["tune"], ["whyhang"], ["bisect"],
                   ["checkpoint", "ls"], ["checkpoint", "verify"], ["checkpoint", "diff"], ["checkpoint", "export"]],
    "piper-launch": [[], ["submit"], ["status"], ["logs"], ["cancel"], ["drain"]],
    "piperd": [[]],
    "piper-opt": [[]],
    "piper-mutate": [[]],
    "piper-torchscript": [[]],
}
# Options of which each is the whole answer, or the opposite of the other: (program, commands), groups.
ALTERNATIVES = {
    "piperc": [["--explain", "--help-directive"], ["--explain", "--strategy"], ["--explain", "--output"], ["--help-directive", "--strategy"],
               ["--tune", "--output"], ["--tune", "--emit"], ["--tune", "--expand"], ["--tune", "--stop-after"]],
    "piper-run": [["--load", "--init"], ["--digest", "--profile", "--calibrate"], ["--digest", "--save-gradients"], ["--calibrate", "--save-gradients"], ["--trace", "--digest"], ["--trace", "--calibrate"],
                  ["--cuda-graph", "--profile"], ["--cuda-graph", "--trace"], ["--kernel-times", "--save"], ["--kernel-times", "--checkpoint"],
                  ["--kernel-times", "--save-best"], ["--kernel-times", "--calibrate"]]
                 + [["--eval-only", other] for other in ("--steps", "--eval-every", "--check-replicas", "--every", "--every-minutes",
                                                        "--save-gradients", "--profile", "--digest", "--calibrate", "--trace")],
    "piper-plan show": [["--svg", "--html", "--json"], ["--svg", "--columns"], ["--svg", "--all"], ["--svg", "--color"], ["--html", "--columns"],
                        ["--html", "--all"], ["--html", "--color"], ["--json", "--columns"], ["--json", "--all"], ["--json", "--color"],
                        ["--target", "--profile"], ["--target", "--forward"], ["--target", "--backward"]],
    "piper-plan diff": [["--json", "--markdown", "--lines"], ["--target", "--forward"], ["--target", "--backward"]],
    "piper-plan simulate": [["--target", "--profile"], ["--target", "--latency-us"], ["--target", "--bytes-per-second"], ["--profile", "--kernel-times"],
                            ["--target", "--forward"], ["--profile", "--forward"], ["--kernel-times", "--forward"]],
    "piper-plan explain": [["--instruction", "--buffer"]],
    "piper-plan report": [["--json", "--markdown"], ["--target", "--forward"], ["--target", "--backward"]],
    "piper-plan verify": [["--json", "--verbose"]],
}
# Words that the options' own checks take.
VALUES = {"--resume": "latest-valid", "--init": "normal:0.02", "--emit": "plan", "--expand": "yaml", "--stop-after": "emit", "--color": "never",
          "--print-ir-after": "*", "--trace-steps": "1", "--digest-steps": "1"}
INTERNAL = {"piper-launch": ["--lease", "--store-socket", "--attempt"], "piperc": ["--fail-in"], "piper-opt": ["--fail-in"]}


def called(words, environment=None):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env=os.environ | (environment or {}))
    return done.returncode, done.stdout


class Option:
    def __init__(self, entry):
        names = re.match(r"\s*(?:-\w,)?(--[\w-]+|[\w]+)\S*(.*)", entry)
        self.name, head = names[1], names[2]
        said = {key: re.search(rf"{key}:((?: (?!Needs|Excludes)[\w-]+)+)", head) for key in ("Excludes", "Needs")}
        self.excludes, self.needs = (said[key][1].split() if said[key] else [] for key in ("Excludes", "Needs"))
        self.required = " REQUIRED" in head
        self.takes = bool(re.match(r" \[?(TEXT|INT|UINT|FLOAT|BYTES|[A-Z]+)", head))


def options_of(text):
    """What a help has: the options by their long names, and the positionals that are required."""
    options, positionals, section = {}, [], ""
    for line in text.splitlines():
        if re.match(r"\w.*:$", line):
            section = line
        elif re.match(r"  \S", line):
            option = Option(line)
            if section == "Options:":
                options[option.name] = option
            elif section == "Positionals:" and option.required:
                positionals.append("x")
    return options, positionals


def words_of(option):
    if option.name in VALUES:
        return [option.name, VALUES[option.name]]
    return [option.name, "1"] if option.takes else [option.name]


def a_command(program, command):
    name, title = program.name, " ".join([program.name, *command])
    code, text = called([program, *command, "--help"])
    check(f"{title} --help", code == 0 and "Usage:" in text, f"{code} {text}")
    options, positionals = options_of(text)
    check(f"{title}: nothing internal is in the help", not set(INTERNAL.get(name, [])) & set(options))
    for option in sorted((o for o in options if len(o) > 8), key=len)[-2:]:
        wrong = option[:-2] + "zz"
        code, text = called([program, *command, wrong, "3"])
        first = text.splitlines()[0] if text else ""
        meant = re.search(r"did you mean '(--[\w-]+)'\?", first)
        check(f"{title} {wrong}: said once, with an option that there is",
              code == 2 and text.count(wrong) == 1 and f"unknown option '{wrong}'" in first and meant and meant[1] in options, f"{code} {text}")
    groups = ALTERNATIVES.get(title, [])
    for option in {option for group in groups for option in group}:
        check(f"{title}: {option} is an option", option in options)
    pairs = {frozenset(pair) for group in groups for pair in itertools.combinations(group, 2)}
    pairs |= {frozenset((option.name, other)) for option in options.values() for other in option.excludes if other in options}
    for pair in sorted(sorted(pair) for pair in pairs if pair <= set(options)):
        given = [options[name] for name in pair]
        needed = [options[other] for option in given for other in option.needs if other in options and other not in pair]
        needed += [option for option in options.values() if option.required and option not in given]
        words = [word for option in dict.fromkeys(given + needed) for word in words_of(option)]
        code, text = called([program, *command, *positionals, *words])
        check(f"{title} {' '.join(words)}: refused, with both names", code == 2 and all(name in text for name in pair), f"{code} {text}")


def a_program(program, commands):
    code, text = called([program, "--version"])
    check(f"{program.name} --version", code == 0 and re.fullmatch(rf"{program.name} \d+\.\d+\.\d+\n", text), f"{code} {text}")
    for command in commands:
        a_command(program, command)


def once_per_run(run):
    """One of several ranks says it."""
    told = [called([run, "plans", "--stepz", "3"], {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}) for rank in range(2)]
    check("rank 0 tells the misspelt option", told[0][0] == 2 and "did you mean '--steps'?" in told[0][1], told)
    check("rank 1 says nothing of it", told[1] == (2, ""), told)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, help="not used: what runs here writes nothing")
    arguments = parser.parse_args()
    for title in ALTERNATIVES:
        check(f"{title} is a command", title.split()[1:] in COMMANDS.get(title.split()[0], []))
    for name, commands in COMMANDS.items():
        program = arguments.bin.resolve() / name
        if program.exists():    # piperd and piper-torchscript are built where their libraries are
            a_program(program, commands)
    once_per_run(arguments.bin.resolve() / "piper-run")
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
