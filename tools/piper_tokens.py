#!/usr/bin/env python3
"""Text to tokens: writes the token file that `piper-run --data` reads, one document after the other, each with a token that ends it.

    python piper_tokens.py corpus.jsonl more.jsonl.gz -o corpus.bin --tokenizer DIR
    python piper_tokens.py book.txt -o book.bin --tokenizer tokenizer.json --document-end "<|endoftext|>"
    python piper_tokens.py corpus.jsonl -o train.bin --held-out held_out.bin --every 100 --tokenizer DIR

--tokenizer: a `tokenizer.json`, a folder that has one (as `save_pretrained` writes it), or what `AutoTokenizer` of transformers takes:
another folder, or a name of the hub.

Inputs are read in the order in which they are named, a few documents at a time. A line of `.jsonl` is an object whose `--field` is a
document; blank lines are passed over. Any other file is text: one document, or with `--documents lines` one a line, or with
`--documents paragraphs` what blank lines part. `.gz` after either is read, too. Documents without text are left out and counted.

The file's name says what its tokens are: uint16, or uint32 for `*.u32.bin`, little-endian. A vocabulary that needs more bits is
refused. The same inputs and tokenizer give the same bytes. What is written is there as a whole or not at all.

It needs the library `tokenizers`, and transformers where AutoTokenizer is to find the tokenizer.
"""
from __future__ import annotations

import argparse
import array
import contextlib
import gzip
import json
import os
import pathlib
import sys

BATCH_CHARACTERS, BATCH_DOCUMENTS = 1 << 22, 4096    # of documents that are held at a time
LONGEST_FILE = 1 << 30      # bytes of a text file that is one document


class TokensError(ValueError):
    """What is wrong with an input, with its place."""


# ------------------------------------------------------------------ documents
def lines_of(path):
    """(number from 1, text with its end) of each line."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise TokensError(f"{path}:{number}: byte {error.start + 1} of the line is not UTF-8") from error
    except (OSError, EOFError) as error:      # EOFError: a .gz that is cut off
        raise TokensError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def json_documents(path, field):
    for number, line in lines_of(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            raise TokensError(f"{where}:{error.colno}: not JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise TokensError(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise TokensError(f"{where}: a line is an object with the field '{field}', not {type(row).__name__}")
        if field not in row:
            raise TokensError(f"{where}: there is no field '{field}', only {', '.join(map(repr, row)) or 'none'}: name it with --field")
        if not isinstance(row[field], str):
            raise TokensError(f"{where}: the field '{field}' is no text but {type(row[field]).__name__}")
        yield where, row[field]


def text_documents(path, parted_by):
    if parted_by == "file" and path.suffix != ".gz" and path.stat().st_size > LONGEST_FILE:
        raise TokensError(f"{path}: one document of {path.stat().st_size} bytes: --documents lines or paragraphs says what parts it")
    held, first = [], 1
    for number, line in lines_of(path):
        if parted_by == "lines":
            yield f"{path}:{number}", line.rstrip("\r\n")
        elif parted_by == "file" or line.strip():
            first = first if held else number
            held.append(line)
        elif held:
            yield f"{path}:{first}", "".join(held).rstrip("\r\n")
            held = []
    if held:
        yield f"{path}:{first}", "".join(held) if parted_by == "file" else "".join(held).rstrip("\r\n")


def documents_of(path, arguments):
    """(place, text) of each document of a file."""
    name = path.name.removesuffix(".gz")
    if not path.is_file():
        raise TokensError(f"{path}: there is no such file")
    if name.endswith((".parquet", ".arrow", ".pt", ".pt2", ".safetensors", ".npy", ".bin")):
        raise TokensError(f"{path}: this holds no text; write a line of JSON for each document first, as `datasets` does with to_json()")
    if name.endswith((".jsonl", ".ndjson")):
        return json_documents(path, arguments.field)
    if name.endswith(".json"):
        raise TokensError(f"{path}: name it .jsonl where each line is an object; a single JSON value is not read")
    return text_documents(path, arguments.documents)


def batches(documents):
    """Lists of documents, so large that the tokenizer's threads have work."""
    held, characters = [], 0
    for document in documents:
        held.append(document)
        characters += len(document[1])
        if characters >= BATCH_CHARACTERS or len(held) >= BATCH_DOCUMENTS:
            yield held
            held, characters = [], 0
    if held:
        yield held


# ------------------------------------------------------------------ the tokenizer
def open_tokenizer(name):
    """The tokenizer of the library, and the spelling of its end of a text where its folder names one."""
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise TokensError("this needs the library tokenizers: pip install tokenizers") from error
    path = pathlib.Path(name)
    file = path / "tokenizer.json" if path.is_dir() else path
    if file.is_file():
        try:
            opened = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:      # the library raises Exception itself
            raise TokensError(f"{file}: no tokenizer that the library tokenizers reads: {error}") from error
        return opened, end_of_text(file.parent / "tokenizer_config.json")
    try:
        from transformers import AutoTokenizer
    except ModuleNotFoundError as error:
        raise TokensError(f"'{name}' has no tokenizer.json; for AutoTokenizer to look for it: pip install transformers") from error
    try:
        found = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise TokensError(f"AutoTokenizer finds no tokenizer '{name}': {str(error).splitlines()[0]}") from error
    backend = getattr(found, "backend_tokenizer", None)
    if backend is None:
        raise TokensError(f"the tokenizer '{name}' is not one of the library tokenizers (a fast one)")
    return backend, found.eos_token


def end_of_text(config):
    if not config.is_file():
        return None
    token = json.loads(config.read_text(encoding="utf-8")).get("eos_token")
    return token.get("content") if isinstance(token, dict) else token


def token_id(tokenizer, text, flag):
    """The number of a token's spelling, or a number in its place."""
    found = tokenizer.token_to_id(text)
    if found is None and text.isdecimal() and tokenizer.id_to_token(int(text)) is not None:
        found = int(text)
    if found is None:
        raise TokensError(f"{flag}: the tokenizer has no token '{text}'")
    return found


# ------------------------------------------------------------------ files of tokens
class TokenFile:
    """Tokens of documents, beside its place until all are written."""

    def __init__(self, path, most):
        self.path, self.partial = path, path.with_name(f"{path.name}.partial-{os.getpid()}")
        if not path.name.endswith(".bin"):
            raise TokensError(f"{path}: a token file's name ends in .bin (uint16) or .u32.bin (uint32)")
        self.code = "I" if path.name.endswith(".u32.bin") else "H"
        if most >= 1 << 8 * array.array(self.code).itemsize:
            raise TokensError(f"the vocabulary has tokens up to {most}, which uint16 does not hold: "
                              f"name the file {path.name.removesuffix('.bin')}.u32.bin")
        self.documents = self.tokens = 0
        try:
            self.file = open(self.partial, "wb")
        except OSError as error:
            raise TokensError(f"{path}: {error.strerror}") from error

    def write(self, tokens):
        values = array.array(self.code, tokens)
        if sys.byteorder == "big":
            values.byteswap()
        self.file.write(values.tobytes())
        self.documents += 1
        self.tokens += len(values)

    def finish(self):
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.partial, self.path)

    def drop(self):
        self.file.close()
        with contextlib.suppress(FileNotFoundError):
            self.partial.unlink()


def encoded(tokenizer, batch):
    texts = [text for _, text in batch]
    try:
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    except (UnicodeEncodeError, TypeError):      # half of a pair of surrogates: JSON may hold it, text may not
        for where, text in batch:
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise TokensError(f"{where}: character {error.start + 1} of the document is half of a pair, and no text") from error
        raise


def convert(arguments):
    tokenizer, named_end = open_tokenizer(arguments.tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True      # what a document spells like a special token is text
    end = arguments.document_end if arguments.document_end is not None else named_end
    if end is None:
        raise TokensError(f"'{arguments.tokenizer}' does not say which token ends a text: name it with --document-end")
    end = token_id(tokenizer, end, "--document-end")
    begin = [] if arguments.document_begin is None else [token_id(tokenizer, arguments.document_begin, "--document-begin")]
    most = max(tokenizer.get_vocab(with_added_tokens=True).values())
    files, empty, inside = [], 0, 0
    try:
        files += [TokenFile(arguments.output, most)]
        if arguments.held_out:
            files += [TokenFile(arguments.held_out, most)]
        for path in arguments.inputs:
            for batch in batches(documents_of(path, arguments)):
                for (_, text), tokens in zip(batch, encoded(tokenizer, batch), strict=True):
                    if not tokens:
                        empty += 1
                        continue
                    inside += end in tokens
                    number = sum(file.documents for file in files) + 1
                    held_out = arguments.held_out and number % arguments.every == 0
                    files[1 if held_out else 0].write([*begin, *tokens, end])
        for file in files:
            if file.tokens == 0:
                raise TokensError(f"{file.path}: there are no documents for it")
        for file in files:
            file.finish()
    except BaseException:
        for file in files:
            file.drop()
        raise
    for file in files:
        print(f"{file.path}: {file.documents} documents, {file.tokens} tokens, {'uint32' if file.code == 'I' else 'uint16'}")
    if empty:
        print(f"{empty} documents without text are left out")
    if inside:
        print(f"warning: {inside} documents have the token {end} in their text, and end there for `documents` and `positions`", file=sys.stderr)
    print(f"vocabulary {most + 1}; a document ends with token {end}: run: {{document_end: {end}}} where the model takes positions or documents")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", type=pathlib.Path, metavar="INPUT", help=".jsonl, or text; .gz of either")
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path, help="the token file: NAME.bin, or NAME.u32.bin")
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json, a folder, or a name for AutoTokenizer")
    parser.add_argument("--field", default="text", help="that of the objects of .jsonl which is the document; default: text")
    parser.add_argument("--documents", choices=("file", "lines", "paragraphs"), default="file", help="what a document of a text file is")
    parser.add_argument("--document-end", metavar="TOKEN", help="spelling or number; default: the end of text that the tokenizer's folder names")
    parser.add_argument("--document-begin", metavar="TOKEN", help="a token before each document; default: none")
    parser.add_argument("--held-out", type=pathlib.Path, help="a second token file, for evaluation")
    parser.add_argument("--every", type=int, default=100, metavar="N", help="each N-th document is held out; default: 100")
    arguments = parser.parse_args()
    if arguments.every < 2:
        parser.error("--every N: N is at least 2")
    if arguments.held_out and arguments.held_out.resolve() == arguments.output.resolve():
        parser.error("--held-out and --output are the same file")
    try:
        convert(arguments)
    except TokensError as error:
        print(f"piper_tokens: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
