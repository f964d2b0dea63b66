#!/usr/bin/env python3
"""Sources of one library can be compiled as one (PIPER_QUICK_BUILD, which tools/demo.sh uses), whichever of them meet in a batch: of
what is in their unnamed namespaces no name is declared in two of them, except overloads, and an alias of one type. Nor is an
alias of another type outside of these.

    check_unity.py ROOT
"""
import collections
import itertools
import pathlib
import re
import sys

# Sources with flags of their own, which CMake compiles by themselves; flags under an `if` (indented) are not those of every build.
APART = re.compile(r"^(?:piper_element_loops\(([^)]*)\)|set_(?:source_files_properties\(|property\(SOURCE )([^)]*?)\s(?:PROPERTIES|APPEND PROPERTY)\s+COMPILE_)",
                   re.MULTILINE)
LIBRARY = re.compile(r"^piper_library\(\s*(\w+)([^)]*)\)", re.MULTILINE)
# Comments, strings and lines of the preprocessor, in which braces mean nothing.
SILENT = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
TYPE = re.compile(r"\b(?:class|struct|enum(?: class)?|union)\s+(\w+)[^;()]*$")
ALIAS = re.compile(r"\busing\s+(\w+)\s*=\s*(.*)$", re.DOTALL)
VALUE = re.compile(r"\b(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=[^=]|\{|;|$)")
FUNCTION = re.compile(r"([\w~]+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*(?:const|noexcept|\s)*$")


def declared(text: str) -> dict[str, str]:
    """What a source declares in unnamed namespaces: name -> a function's parameters as they are written, what an alias is for, else ""."""
    text = SILENT.sub(lambda match: '""' if match.group(0).startswith(('"', "R")) else " ", text)
    names, opened, begin = {}, [], 0
    for at, char in enumerate(text):
        if char not in "{};":
            continue
        head = text[begin:at].strip()
        inside = bool(opened) and opened[-1] == "unnamed"
        if char == "{" and re.search(r"\bnamespace$", head):
            opened.append("unnamed")
        elif char == "{":
            named = re.search(r"\bnamespace\s+[\w:]+$", head)
            if inside and not named:
                declare(head, names)
            opened.append("namespace" if named else "body")
        else:
            if inside and char == ";" and not head.startswith(("using namespace", "template <>")):
                declare(head, names)
            if char == ";" and head.startswith("using ") and all(scope == "namespace" for scope in opened):
                declare(head, names)
            if char == "}" and opened:
                opened.pop()
        begin = at + 1
    return names


def one_call_means_both(a: str, b: str) -> bool:
    """Whether parameters begin alike and the rest has defaults."""
    a, b = sorted((kinds.strip("()").split(", ") for kinds in (a, b)), key=len)
    common = [kind.rstrip("=") for kind in a] == [kind.rstrip("=") for kind in b[:len(a)]]
    return common and all(kind.endswith("=") for kind in b[len(a):])


def declare(head: str, names: dict[str, str]):
    head = re.sub(r"^\s*template\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>", "", head)
    if match := ALIAS.search(head):
        names[match.group(1)] = "= " + " ".join(match.group(2).split())
    elif (match := VALUE.search(head)) and re.search(r"^[^(]*\b(?:constexpr|const|inline|thread_local|std::atomic)\b[^(]*=[^=]", head):
        names[match.group(1)] = ""
    elif match := FUNCTION.search(re.sub(r"\s*->.*$", "", head)):
        kinds = []
        for one in match.group(2).split(","):
            one, equals, _ = (part.strip() for part in one.partition("="))
            kinds.append(re.sub(r"\bconst |\w+::", "", re.sub(r"[\s&*]*\b\w+$", "", one) or one) + equals)
        names[match.group(1)] = "(" + ", ".join(kinds) + ")"
    elif match := TYPE.search(head):
        names[match.group(1)] = ""
    elif re.search(r"\b(?:constexpr|const|inline|thread_local|std::atomic)\b", head) and (match := VALUE.search(head)):
        names[match.group(1)] = ""


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    faults, libraries = [], 0
    for lists in sorted(root.glob("*/**/CMakeLists.txt")):
        if "build" in lists.relative_to(root).parts or "tests" in lists.relative_to(root).parts:
            continue
        text = lists.read_text()
        apart = {source for sources in APART.findall(text) for source in " ".join(sources).split()}
        for library in LIBRARY.finditer(text):
            libraries += 1
            where = collections.defaultdict(list)
            for source in sorted(set(re.findall(r"(?<=\s)\w[\w./]*\.cc\b", library.group(2))) - apart):
                for name, parameters in declared((lists.parent / source).read_text()).items():
                    where[name].append((source, parameters))
            for name, places in sorted(where.items()):
                kinds = [kind for _, kind in places]
                functions = [kind for kind in kinds if kind.startswith("(")]
                overloads = len(functions) == len(kinds) and not any(one_call_means_both(a, b) for a, b in itertools.combinations(functions, 2))
                one_alias = kinds[0].startswith("=") and len(set(kinds)) == 1
                if len(places) > 1 and not overloads and not one_alias:
                    faults.append(f"{lists.parent.relative_to(root)}: {library.group(1)}: {name} is declared in {', '.join(source for source, _ in places)}")
    print("\n".join(faults))
    print(f"{libraries} libraries, {len(faults)} faults")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
