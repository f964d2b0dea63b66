#!/usr/bin/env python3
"""tools/piper_tokens.py: the tokens that it writes are those of the library for each document by itself, with the token that ends
one after them, whatever the inputs look like; what is wrong with an input is reported with its line and leaves no file.

  tokens.py --bin BIN --work DIR
"""
import argparse
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import tokenizers

from checks import check, faults

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "piper_tokens.py"
END = "<|endoftext|>"
DOCUMENTS = ["The quick brown fox.\nTwo lines.", "", f"spelt out: {END} is text", "Grüße, 漢字 and \U0001f600", "  spaces  ", "a", "last"]


def trained_tokenizer(folder, alphabet=()):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    bytes_ = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(DOCUMENTS * 3, tokenizers.trainers.BpeTrainer(
        vocab_size=400 + len(alphabet), special_tokens=[END, "<s>"], initial_alphabet=[*bytes_, *alphabet], show_progress=False))
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    work = parser.parse_args().work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    tokenizer = trained_tokenizer(work / "tokenizer")
    tokenizer.encode_special_tokens = True
    (work / "tokenizer" / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": END}}))
    end = tokenizer.token_to_id(END)

    def tool(*words, environment=None):
        return subprocess.run([sys.executable, TOOL, *map(str, words)], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env={**os.environ, **(environment or {})})

    def tokens(name, dtype="<u2"):
        return numpy.fromfile(work / name, dtype).tolist()

    def joined(documents):
        return [token for text in documents if text for token in [*tokenizer.encode(text, add_special_tokens=False).ids, end]]

    rows = [json.dumps({"id": i, "body": text}, ensure_ascii=i % 2 == 0) for i, text in enumerate(DOCUMENTS)]
    (work / "first.jsonl").write_text("\ufeff" + "\n".join([*rows[:3], "", *rows[3:5]]) + "\n", encoding="utf-8")
    (work / "second.jsonl.gz").write_bytes(gzip.compress("\r\n".join(rows[5:]).encode()))
    both = ("first.jsonl", "second.jsonl.gz", "--field", "body", "--tokenizer", "tokenizer")
    done = tool(*both, "-o", "all.bin")
    check("the tokens of each document and its end", tokens("all.bin") == joined(DOCUMENTS), done.stdout)
    check("its counts are said", done.stdout.splitlines() == [
        f"all.bin: 6 documents, {len(joined(DOCUMENTS))} tokens, uint16", "1 documents without text are left out",
        f"vocabulary {tokenizer.get_vocab_size()}; a document ends with token {end}: run: {{document_end: {end}}} "
        "where the model takes positions or documents"],
        done.stdout)
    check("what a document spells like its end is text", tokens("all.bin").count(end) == 6, tokens("all.bin").count(end))
    first = (work / "all.bin").read_bytes()
    tool(*both, "-o", "all.bin", environment={"RAYON_NUM_THREADS": "1"})
    check("one thread writes the same bytes", (work / "all.bin").read_bytes() == first)
    tool(*both, "-o", "all.u32.bin")
    check("the name asks for 32 bits", tokens("all.u32.bin", "<u4") == joined(DOCUMENTS))
    tool(*both, "-o", "train.bin", "--held-out", "held_out.bin", "--every", 3, "--document-begin", "<s>")
    texts, begin = [text for text in DOCUMENTS if text], tokenizer.token_to_id("<s>")
    check("each third document is held out, the others are trained on", [tokens("train.bin"), tokens("held_out.bin")] == [
        [token for text in part for token in [begin, *joined([text])]]
        for part in ([t for i, t in enumerate(texts) if i % 3 != 2], texts[2::3])])

    text = "one\ntwo\n\n\nthree\r\n\r\n"
    (work / "plain.txt").write_bytes(text.encode())
    for parted, expected in (("file", [text]), ("lines", ["one", "two", "three"]), ("paragraphs", ["one\ntwo", "three"])):
        done = tool("plain.txt", "-o", "plain.bin", "--tokenizer", "tokenizer/tokenizer.json", "--documents", parted)
        check(f"documents of text: {parted}", done.returncode == 0 and tokens("plain.bin") == joined(expected), done.stdout)

    # More than is held at a time, in lines of which each is a document.
    many = [f"document {i} {'word ' * (i % 50)}" for i in range(9000)]
    (work / "many.txt").write_text("\n".join(many))
    tool("many.txt", "-o", "many.bin", "--tokenizer", "tokenizer", "--documents", "lines")
    check("9,000 documents in their order", tokens("many.bin") == joined(many))

    trained_tokenizer(work / "wide", [chr(0x20000 + i) for i in range(66000)])
    named = ("first.jsonl", "--field", "body", "--document-end", END)
    refused = {
        "not JSON": (b'{"text": "a"}\n{"text": "b"\n', "wrong.jsonl:2:13: not JSON: Expecting ',' delimiter"),
        "no object": (b'{"text": "a"}\n\n[1]\n', "wrong.jsonl:3: a line is an object with the field 'text', not list"),
        "no such field": (b'{"id": 3, "body": "a"}', "wrong.jsonl:1: there is no field 'text', only 'id', 'body'"),
        "no text": (b'{"text": null}', "wrong.jsonl:1: the field 'text' is no text but NoneType"),
        "not UTF-8": (b'{"text": "a"}\n{"text": "\xff"}', "wrong.jsonl:2: byte 11 of the line is not UTF-8"),
        "half of a pair": (b'{"text": "a"}\n{"text": "a \\ud800"}', "wrong.jsonl:2: character 3 of the document is half of a pair"),
        "deep": (b'{"text": ' + b"[" * 100000, "wrong.jsonl:1"),
        "empty": (b"\n\n", "wrong.bin: there are no documents for it"),
    }
    for what, (content, told) in refused.items():
        (work / "wrong.jsonl").write_bytes(content)
        done = tool("wrong.jsonl", "-o", "wrong.bin", "--tokenizer", "tokenizer")
        check(f"refused: {what}", done.returncode == 1 and told in done.stdout and "Traceback" not in done.stdout, done.stdout)
    (work / "model.pt2").write_bytes(b"PK")
    (work / "short.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}')[:-4])
    others = {
        "a vocabulary of more than 16 bits": ((*named, "-o", "wrong.bin", "--tokenizer", "wide"), "name the file wrong.u32.bin"),
        "another ending": ((*named, "-o", "wrong.tokens", "--tokenizer", "wide"), "ends in .bin (uint16) or .u32.bin"),
        "no end": (("first.jsonl", "-o", "wrong.bin", "--tokenizer", "wide"), "does not say which token ends a text"),
        "no such token": (("first.jsonl", "-o", "wrong.bin", "--tokenizer", "wide", "--document-end", "</s>"), "has no token '</s>'"),
        "no tokenizer": ((*named, "-o", "wrong.bin", "--tokenizer", "first.jsonl"), "no tokenizer that the library"),
        "no file": (("none.jsonl", "-o", "wrong.bin", "--tokenizer", "tokenizer"), "none.jsonl: there is no such file"),
        "no text file": (("model.pt2", "-o", "wrong.bin", "--tokenizer", "tokenizer"), "model.pt2: this holds no text"),
        "cut off": (("short.jsonl.gz", "-o", "wrong.bin", "--tokenizer", "tokenizer"), "short.jsonl.gz: Compressed file ended"),
    }
    for what, (words, told) in others.items():
        done = tool(*words)
        check(f"refused: {what}", done.returncode == 1 and told in done.stdout and "Traceback" not in done.stdout, done.stdout)
    left = [path.name for path in work.iterdir() if "wrong" in path.name and path.name != "wrong.jsonl" or "partial" in path.name]
    check("what is refused leaves no file", not left, left)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
