#!/usr/bin/env python3
"""People read plain English: words that make a reader go back have a better word, and this is the list.

  check_words.py ROOT

Read are every page (Markdown, but for code in it), every text in the sources of the programs (errors, `--help`, what a run
prints), the comments of strategies, and the comments of the sources in the folders of COMMENTS.
Names in code are not prose, nor is what lies between backticks. Without git the files of the folders are read.
"""
import io
import pathlib
import re
import sys
import tokenize
from typing import Iterator, NamedTuple

from check_house import tracked

# Folders and files whose comments are plain. Everything below them is read.
COMMENTS = (
    "strategies", "cmake", "compiler", "launcher", "runtime", "schemas", "tests", "tools",
)
OWN = {"tests/layering/check_words.py", "tests/layering/words_planted.py"}    # the patterns are spelt there
PRODUCT = ("compiler", "schemas", "runtime", "launcher", "tools")
C_LIKE = (".cc", ".h", ".def", ".cu", ".cuh", ".inc")
HASHED = (".py", ".sh", ".yaml", ".cmake", "CMakeLists.txt")


class Pattern(NamedTuple):
    words: str       # a regular expression
    better: str
    sample: str      # a sentence that has it
    of: str = "any"  # where it is read: "any", or one kind of prose: "page", "text", "comment"


PATTERNS = (
    Pattern(r"\bbehind\b(?<!left behind)(?<!nothing behind)(?<!leaves behind)(?<!leave behind)(?<!falls behind)(?<!fall behind)(?<!lags behind)(?<!hide behind)(?<!hides behind)(?<!hidden behind)",
            "after (time), next to, of, underlying", "a reduction waits behind the last pass"),
    Pattern(r"\bin front of\b", "before", "the norm in front of clipping"),
    Pattern(r"\bseldom\b", "rarely", "it is seldom the culprit"),
    Pattern(r"\btold\b(?! apart)", "reported, given, known; in all", "all errors are told together"),
    Pattern(r"\btells\b(?!(?: [\w-]+){0,4} apart)", "says, reports, shows", "the log tells the loss"),
    Pattern(r"\btell of\b", "report", "they tell of their progress"),
    Pattern(r"\b(?:stands?|stood)\b(?!-| for\b| out\b| alone\b)", "is, are, lies, appears", "the name stands in the manifest"),
    Pattern(r"\bin vain\b", "without result, for nothing", "a rank that waits in vain"),
    Pattern(r"\bbut for\b", "except", "all ranks but for the first"),
    Pattern(r"\b(?:that|what|which) there (?:is|are) not\b", "that does not exist", "a node names what there is not"),
    Pattern(r"(?<!are )(?<!is )(?<!were )(?<!be )\ball the same\b", "anyway, nevertheless", "it is checked all the same"),
    Pattern(r"\blest\b", "so that ... not", "it waits, lest a rank is lost"),
    Pattern(r"\bmeddles?\b", "interferes, changes", "an evaluation meddles with it"),
    Pattern(r"\b(?:has|have) not(?=[.,;:)]|$)", "lacks, does not have", "a key that the file has not."),
    Pattern(r"\bdo well to\b", "should", "ranks with many peers do well to wait"),
    Pattern(r"\b(?:is|are) believed\b", "is trusted, is taken as it is", "what the file says is believed"),
    Pattern(r"\b(?:where|there|here)(?:of|upon)\b", "of it, of which; after that", "the ranks whereof it consists"),
    Pattern(r"\bbeside\b", "next to, together with, in addition to", "a mask beside a window", "text"),
    Pattern(r"\binside of\b", "inside", "a list inside of a list", "text"),
    Pattern(r"\bgo(?:es)? on\b", "continues", "the run goes on", "text"),
    Pattern(r"^Of (?!course\b)", "begin with the noun that it is about", "Of the bucket's team.", "comment"),
)


class Prose(NamedTuple):
    line: int
    text: str
    kind: str  # "page", "text", "comment"


C_TOKEN = re.compile(r'//(?P<comment>[^\n]*(?:\n[ \t]*//[^\n]*)*)|R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"'
                     r'|(?P<text>"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*)|\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL)
JOIN = re.compile(r'"(\s*)"')


def of_c(source: str) -> Iterator[Prose]:
    for found in C_TOKEN.finditer(source):
        line = source.count("\n", 0, found.start()) + 1
        if found["comment"] is not None:
            yield Prose(line, re.sub(r"\n[ \t]*//+", "\n", found["comment"]), "comment")
        elif found["raw"] is not None:
            yield Prose(line, found["raw"], "text")
        elif found["text"] is not None:
            yield Prose(line, JOIN.sub(r"\1", found["text"])[1:-1].replace("\\n", "  "), "text")


def of_python(source: str) -> Iterator[Prose]:
    """A docstring is a comment, other strings are texts, comments on lines one after the other are one."""
    block: list[str] = []
    begin, last, before = 0, -1, tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1 and block:
                yield Prose(begin, "\n".join(block), "comment")
                block = []
            if not block:
                begin = token.start[0]
            block.append(token.string.lstrip("# "))
            last = token.start[0]
        elif token.type == tokenize.STRING:
            text = re.sub(r"\{[^{}]*\}", "{}", token.string)  # what an f-string computes
            docstring = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.NL, tokenize.ENCODING)
            yield Prose(token.start[0], text.strip("rbfRBF\"'"), "comment" if docstring else "text")
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    if block:
        yield Prose(begin, "\n".join(block), "comment")


def of_hashed(source: str) -> Iterator[Prose]:
    """Shell, YAML, CMake: comments, and texts of a line between quotes."""
    block: list[str] = []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        comment = re.search(r"(?:^|\s)#(?!!)\s*(.*)", line)
        if comment and line.lstrip().startswith("#"):
            block.append(comment[1])
            continue
        if block:
            yield Prose(number - len(block), "\n".join(block), "comment")
            block = []
        if comment:
            yield Prose(number, comment[1], "comment")
        yield from (Prose(number, text[1:-1], "text") for text in re.findall(r'"[^"]*"|\'[^\']*\'', line[:comment.start()] if comment else line))


FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"``.+?``|`[^`]*`", re.DOTALL)
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s")


def blanked(found: re.Match) -> str:
    """Only its ends of lines, and comments after a `#`, which are prose in code as well."""
    lines = found[0].split("\n")
    return "\n".join(comment[1] if (comment := re.search(r"\s#\s+(.*)", line)) else "" for line in lines)


def of_page(source: str) -> Iterator[Prose]:
    source = FENCE.sub(blanked, source)
    lines, in_list = source.split("\n"), False
    for number, line in enumerate(lines):
        indented = line.startswith("    ") and not ITEM.match(line)
        if ITEM.match(line):
            in_list = True
        elif line.strip() and not line.startswith(" "):
            in_list = False
        opens = number == 0 or not lines[number - 1].strip() or lines[number - 1] == "\0"
        if indented and opens and (not in_list or line.startswith("        ")):
            rest = number
            while rest < len(lines) and (lines[rest].startswith("    ") or not lines[rest].strip()):
                lines[rest] = "\0" + blanked(re.match(r".*", lines[rest]))
                rest += 1
    text = CODE.sub(lambda found: "`" + "\n" * found[0].count("\n") + "`", "\n".join(lines))
    begin = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        yield Prose(begin, paragraph, "page")
        begin += paragraph.count("\n")


def prose_of(root: pathlib.Path, path: str) -> list[Prose]:
    suffix = pathlib.Path(path).suffix
    if suffix == ".md":
        return list(of_page((root / path).read_text()))
    under = lambda folders: any(path == folder or path.startswith(folder + "/") for folder in folders)
    wanted = {kind for kind, folders in (("text", PRODUCT), ("comment", COMMENTS)) if under(folders)}
    if not wanted:
        return []
    if path.endswith(C_LIKE):
        found = of_c((root / path).read_text(errors="replace"))
    elif suffix == ".py":
        found = of_python((root / path).read_text())
    elif path.endswith(HASHED):
        found = of_hashed((root / path).read_text(errors="replace"))
    else:
        return []
    return [prose for prose in found if prose.kind in wanted and (prose.kind == "comment" or " " in prose.text)]


def faults_of(root: pathlib.Path, path: str) -> list[str]:
    faults = []
    for prose in prose_of(root, path):
        text = CODE.sub("``", prose.text) if prose.kind != "page" else prose.text
        joined = re.sub(r"[ \t]*\n[ \t]*", "\v", text)
        flat = joined.lstrip(" \t\v")
        begin = prose.line + joined.count("\v", 0, len(joined) - len(flat))
        for pattern in PATTERNS:
            if pattern.of not in ("any", prose.kind):
                continue
            for found in re.finditer(pattern.words.replace(" ", r"[ \v]") if pattern.of != "comment" else pattern.words, flat,
                                     re.IGNORECASE if pattern.of != "comment" else 0):
                line = begin + flat.count("\v", 0, found.start())
                words = found[0].replace("\v", " ").strip()
                faults.append(f"{path}:{line}: \"{words}\" in {prose.kind}: better {pattern.better}")
    return faults


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    files = sorted({*tracked(root), *(page.name for page in root.glob("*.md"))} - OWN)
    read = [path for path in files if prose_of(root, path)]
    faults = [fault for path in read for fault in faults_of(root, path)]
    faults += [f"tests/layering/check_words.py: COMMENTS names {path}, which does not exist" for path in COMMENTS if not (root / path).exists()]
    for line in faults:
        print(line)
    print(f"{len(read)} files with prose, {len(faults)} faults")
    return 1 if faults or not read else 0


if __name__ == "__main__":
    sys.exit(main())
