"""Text of strangers on a terminal: control characters in names and symbols never get there as they are."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import transformers
from click.testing import CliRunner, Result
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import kdcode
from kdcode import printable
from kdcode.cli import main
from kdcode.cli.shell import command_line
from kdcode.codec import CodewordSpec, make_codec

STEERING = "".join(
    [
        "\x07\x08\t\r\x1b\x7f\x85\x90\x9b\x9d",  # bell, escape, and the C1 controls that do the same in one character
        "\xad\u061c\u200b\u200c\u200d\u200e\u200f\u2060\ufeff",  # not seen
        "\u2028\u2029",  # line breaks to some programs
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",  # text runs the other way
        "\U000e0001\U000e0041\U000e007f\U000e0100",  # tags and selectors that hide text
    ]
)
"""Characters that steer a terminal, or that are there and not seen."""

OWN_STYLES = re.compile("\x1b\\[(?:0|1|2|31|32|33|36)m")
"""What our own bold and coloured words are made of."""

COMMANDS = main.list_commands(click.Context(main))


def forbidden(text: str) -> set[str]:
    """The characters of a text that may not be in output."""
    hidden = {character for character in text if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return (hidden - {"\n"}) | {character for character in text if "\U000e0000" <= character <= "\U000e0fff"}


def names(more: str = "") -> st.SearchStrategy[str]:
    """Two characters that steer, those of `more` among them, with letters around them."""
    steering = st.sampled_from(STEERING + more) | st.characters(categories=["Cc", "Cf"], exclude_characters="\0\n")
    letters = st.text("abz'\"\\ $[72;mJK=é", max_size=4)  # enough of them to complete an escape sequence
    return st.tuples(letters, steering, letters, steering, letters).map("".join)


@dataclass(frozen=True)
class Files:
    """Files that are full of one name.

    Args:
        folder: where they are.
        name: the name of symbols, tensors and columns, the value of flags, and what a file says of itself.
        file_name: the name of the files, which may hold bytes that are not UTF-8.
    """

    folder: Path
    name: str
    file_name: str

    def path(self, suffix: str) -> str:
        return str(self.folder / f"{self.file_name}{suffix}")

    @property
    def kdc(self) -> str:
        return self.path(".kdc")

    @property
    def symbols(self) -> list[str]:
        return [f"s{self.name}", f"t{self.name}", "monday", f"u{self.name}", "x\ny", f"v{self.name}"]

    def write(self) -> None:
        random, name = np.random.default_rng(0), self.name
        codes = np.array([[0, 0, 0], [0, 0, 0], [1, 2, 3], [1, 2, 3], [0, 0, 0], [3, 3, 3]])
        spec = CodewordSpec.named("linear", 4, 4, 3, codebook_dtype="float32")
        codec = make_codec(spec, {"codebook": random.normal(size=(3, 4, 4)).astype(np.float32)})
        provenance = {name: name, "options": {"seed": name}, "learner": name}
        coded = kdcode.CodedTable.from_codes(self.symbols, codes, codec, provenance)
        kdcode.save(coded, self.kdc)
        table = coded.to_table()
        kdcode.write(table, self.path(".parquet"))
        other = kdcode.VectorTable([*self.symbols[:3], *(f"{name}{row}" for row in range(3))], table.matrix)
        kdcode.write(other, self.path(".other.parquet"))
        line = "{} 1 2 3 4\n".format
        lines = "".join(map(line, ["one", "two", "three"])).encode()
        bad = f"{name} {name} 2 3 4\n".encode("utf-8", "surrogateescape")
        Path(self.path(".txt")).write_bytes(lines + bad)
        Path(self.path(".weights")).write_bytes(f"{name} 1\n".encode("utf-8", "surrogateescape"))
        Path(self.path(".bad.kdc")).write_bytes(lines)
        tensors, wte = [f"{name}0", f"{name}1"], [f"a.{name}", f"{name}.wte.weight"]
        for suffix, several in ((".safetensors", tensors), (".wte.safetensors", wte)):
            Path(self.path(suffix)).write_bytes(safetensors.numpy.save(dict.fromkeys(several, table.matrix)))
        columns = {name: ["a", "b"], f"{name}v": pa.array([[1.0, 2.0], [3.0]])}
        with Path(self.path(".ragged.parquet")).open("wb") as stream:
            pq.write_table(pa.table(columns), stream)
        Path(self.path(".csv")).write_text(f"word,x{name}\na,one\n", encoding="utf-8")


Lines = list[list[str]]


def of_reading(files: Files) -> Lines:
    """What every command that reads a .kdc file is asked for: one that is not there, no .kdc file, a folder."""
    return [[files.path(".none.kdc")], [files.path(".bad.kdc")], [str(files.folder)], [files.kdc, f"--{files.name}"]]


def of_tables(files: Files) -> Lines:
    """Tables for `plan` and `compress`: some that are refused, each for its own reason, and some that are not."""
    sized = ["--size", "2x", "--quiet"]
    refused = [".txt", ".safetensors", ".ragged.parquet", ".csv", ".none", ".bad.kdc"]
    return [
        *([files.path(suffix), *sized] for suffix in refused),
        [files.path(".txt"), *sized, "--on-bad-line", "skip", "--weights", files.path(".weights")],
        [files.path(".parquet"), *sized, "--weights", files.path(".weights")],
        [files.path(".parquet"), *sized, "--weights", files.path(".none")],
        *([files.path(".parquet"), *sized, flag, files.name] for flag in ("--format", "--device", "--effort")),
        [files.path(".parquet"), *sized, "--symbol-column", files.name],
        [files.path(".safetensors"), *sized, "--tensor", files.name],
        [files.path(".safetensors"), *sized, "--tensor", f"{files.name}0", "--symbols", files.path(".none")],
        *([files.path(".parquet"), "--quiet", goal, files.name] for goal in ("--size", "--bits", "--max-error")),
        [files.path(".wte.safetensors"), "--bits", "2", "--quiet"],
    ]


def compress_lines(files: Files) -> Lines:
    out, learned = files.path(".out.kdc"), ["-K", "2", "-D", "2", "--effort", "fast"]
    [*tables, chosen] = of_tables(files)
    return [
        *([source, files.path(".new.kdc"), *flags] for source, *flags in tables),
        [chosen[0], out, *learned],
        [files.path(".parquet"), out, *learned],
        [files.path(".parquet"), out, *learned, "--force", "--json"],
        [files.path(".parquet"), files.path(".parquet"), *learned],
        [files.path(".parquet"), files.path("/none/out.kdc"), *learned],
        [files.path(".parquet"), str(files.folder), *learned],
    ]


def model_lines(files: Files) -> Lines:
    """Models: one that is not there, several that are none, and one that is compressed."""
    model, learned = files.path(".model"), ["-K", "2", "-D", "2", "--effort", "fast", "--min-rows", "9", "--quiet"]
    shape = {"vocab_size": 40, "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1}
    transformers.BertModel(transformers.BertConfig(**shape, num_attention_heads=1)).save_pretrained(model)
    broken, coded = Path(files.path(".broken")), Path(files.path(".coded"))
    for place, config in ((broken, files.name), (coded, {"quantization_config": {"quant_method": files.name}})):
        place.mkdir()
        (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    out, new = files.path(".out-model"), files.path(".new-model")
    return [
        *([source, new, *learned] for source in (files.kdc, files.path(".none"), str(broken), str(coded))),
        *([model, new, *learned, flag, files.name] for flag in ("--only", "--size", "--heads", "--gguf-file")),
        [model, files.path("/none/model"), *learned],
        [model, model, *learned, "--force"],
        [model, out, *learned],
        [model, out, *learned],
        [model, out, *learned, "--force", "--json"],
    ]


def codebook_lines(files: Files) -> Lines:
    """Codebooks: of tables that are refused, and of one that is not."""
    out, learned = files.path(".cb.kdc"), ["-K", "2", "-D", "2", "--effort", "fast"]
    [*tables, _] = of_tables(files)
    return [
        *([source, files.path(".new.kdc"), *flags] for source, *flags in tables),
        *([files.path(".parquet"), out, *learned, *flags] for flags in ([], [], ["--force", "--json"])),
        [files.path(".parquet"), files.path("/none/out.kdc"), *learned],
        [files.path(".parquet"), out, *learned, "--force", "--memory", files.name],
    ]


def encode_lines(files: Files) -> Lines:
    """Parts that are encoded, that are there already, and that cannot be."""
    out, codebook = files.path(".codes"), ["--codebook", files.kdc, "--threads", "1"]
    return [
        *([files.path(suffix), out, *codebook] for suffix in (".parquet", ".parquet", ".other.parquet", ".none")),
        *([files.path(suffix), files.path(".new"), *codebook] for suffix in (".txt", ".csv", ".ragged.parquet")),
        [files.path(".parquet"), out, *codebook, "--json", "--quiet"],
        [files.path(".parquet"), out, "--codebook", files.path(".bad.kdc")],
        [files.path(".parquet"), out, *codebook, "--engine", files.name],
        [files.path(".parquet"), files.path("/none/codes"), *codebook],
    ]


def assemble_lines(files: Files) -> Lines:
    codes, codebook = files.path(".assembled"), ["--codebook", files.kdc]
    kdcode.encode_parts(files.path(".parquet"), codes, files.kdc)
    return [
        *([codes, files.path(".whole.kdc"), *codebook, *flags] for flags in ([], [], ["--force", "--json"])),
        [files.path(".none"), files.path(".new.kdc"), *codebook],
        [str(files.folder), files.path(".new.kdc"), *codebook],
        [codes, files.path("/none/out.kdc"), *codebook],
        [codes, files.path(".new.kdc"), "--codebook", files.path(".bad.kdc")],
        [codes, files.path(".new.kdc"), f"--{files.name}"],
    ]


def append_lines(files: Files) -> Lines:
    """Rows whose symbols are there already, rows that are new, and rows that cannot be read."""
    fresh = kdcode.VectorTable([f"{files.name}new"], np.ones((1, 4), dtype=np.float32))
    kdcode.write(fresh, files.path(".fresh.parquet"))
    return [
        [files.kdc, files.path(".parquet")],
        [files.kdc, files.path(".fresh.parquet"), "--output", files.path(".larger.kdc")],
        [files.kdc, files.path(".fresh.parquet"), "--output", files.path(".larger.kdc")],
        [files.kdc, files.path(".fresh.parquet"), "--json"],
        [files.kdc, files.path(".txt")],
        [files.path(".none.kdc"), files.path(".parquet")],
        [files.path(".bad.kdc"), files.path(".parquet")],
        [files.kdc, files.path(".fresh.parquet"), "--beam", files.name],
    ]


def get_lines(files: Files) -> Lines:
    missing, symbols = f"w{files.name}", [files.symbols[0], files.symbols[3]]
    return [
        *of_reading(files),
        *([files.kdc, *flags, "--", *symbols] for flags in ([], ["--codes"], ["--json"], ["--json", "--codes"])),
        [files.kdc, missing],
        [files.kdc, missing, f"{missing}2"],
        [files.kdc, "--skip-missing", missing, *symbols],
    ]


def expand_lines(files: Files) -> Lines:
    return [
        *([*words, files.path(".out.txt")] for words in of_reading(files)),
        *([files.kdc, files.path(suffix)] for suffix in (".out.parquet", ".out.parquet", ".out.txt", "", ".kdc", ".n")),
        *([files.kdc, files.path(".npy")] for _ in range(2)),
        [files.kdc, files.path(".out.csv"), "--format", files.name],
        [files.kdc, files.path("/none/out.csv")],
    ]


def evaluate_lines(files: Files) -> Lines:
    pairs = files.path(".pairs")
    words = [symbol for symbol in files.symbols if not set(symbol) & set("\t,; \n")]
    Path(pairs).write_text("".join(f"{word} {word} 1\n" for word in words), encoding="utf-8")
    return [
        *([files.kdc, *words] for words in of_reading(files)),
        *([files.path(".parquet"), files.kdc, *flags] for flags in ([], ["--json"], ["--weights", "rank"])),
        [files.path(".parquet"), files.kdc, "--min-cosine", "0.99999"],
        [files.path(".parquet"), files.kdc, "--similarity", pairs, "--max-drop", "0"],
        [files.path(".parquet"), files.kdc, "--similarity", pairs, "--json"],
        [files.path(".parquet"), files.kdc, "--analogies", pairs],
        [files.path(".parquet"), files.kdc, "--weights", files.path(".none")],
        [files.path(".other.parquet"), files.kdc],
        [files.kdc, files.kdc, "--min-cosine", files.name],
    ]


LINES: dict[str, Callable[[Files], Lines]] = {
    "demo": lambda files: [
        ["--out", files.kdc],
        ["--out", files.path("/none/out.kdc")],
        ["--out", str(files.folder)],
        ["--report", files.kdc],
        ["--report", str(files.folder)],
        [files.name],
        [f"--{files.name}"],
    ],
    "plan": of_tables,
    "compress": compress_lines,
    "compress-model": model_lines,
    "learn-codebook": codebook_lines,
    "encode": encode_lines,
    "assemble": assemble_lines,
    "append": append_lines,
    "info": lambda files: [*of_reading(files), [files.kdc], [files.kdc, "--json"]],
    "get": get_lines,
    "neighbors": lambda files: [
        *([files.kdc, *words] for words in ([], ["--metric", files.name, "a"], ["--vector", files.name])),
        [files.kdc, "--vector", "1 2 3 4"],
        [files.kdc, "--", *files.symbols],
        *(words for words in get_lines(files) if "--codes" not in words),
    ],
    "codes": lambda files: [
        *of_reading(files),
        *([files.kdc, *flags] for flags in ([], ["--json"], ["--prefix", files.name], ["--prefix", "0-0"])),
        [files.kdc, "--limit", files.name],
    ],
    "expand": expand_lines,
    "export": lambda files: [
        *([*words, files.path(".out.onnx")] for words in of_reading(files)),
        *([files.kdc, files.path(suffix)] for suffix in (".onnx", ".onnx", ".txt", ".kdc", "/none/out.onnx")),
        *([files.kdc, files.path(".b.onnx"), "--symbols", files.path(".names"), "--check"] for _ in range(2)),
        [files.kdc, files.path(".c.onnx"), "--symbols", files.path("/none/names")],
        [files.kdc, files.path(".c.onnx"), "--rank", files.name],
    ],
    "verify": lambda files: [
        *of_reading(files),
        [files.kdc],
        *(
            [files.kdc, files.path(f"{suffix}.parquet"), *flags]
            for suffix in ("", ".other")
            for flags in ([], ["--json"])
        ),
        [files.kdc, files.path(".txt")],
        [files.kdc, files.path(".none")],
        [files.kdc, files.path(".parquet"), "--format", files.name],
    ],
    "evaluate": evaluate_lines,
    "compare": lambda files: [
        *([files.kdc, *words] for words in of_reading(files)),
        [files.path(".parquet"), files.kdc, files.path(".parquet"), "--baselines", "int8"],
        [files.path(".parquet"), files.kdc, "--json"],
        [files.path(".parquet"), files.kdc, "--figure", files.path(".svg")],
        [files.path(".parquet"), files.kdc, "--figure", files.path(".svg")],
        [files.path(".parquet"), files.kdc, "--figure", files.path(".none")],
        [files.path(".parquet"), files.kdc, "--baselines", files.name or "?"],
        [files.path(".parquet"), files.path(".txt")],
    ],
    "report": lambda files: [
        *([files.path(".parquet"), *words, "-o", files.path(".html"), "--force"] for words in of_reading(files)),
        *(
            [files.path(".parquet"), files.kdc, "-o", files.path(".html"), *flags]
            for flags in ([], [], ["--force", "--json"])
        ),
        [files.path(".other.parquet"), files.kdc, "-o", files.path(".b.html")],
        [files.path(".parquet"), files.kdc, "-o", files.path("/none/page.html")],
        [files.path(".parquet"), files.kdc, "-o", str(files.folder)],
        [files.path(".txt"), files.kdc, "-o", files.path(".c.html")],
        [files.path(".parquet"), files.kdc, "-o", files.path(".c.html"), "--weights", files.path(".weights")],
        [files.path(".parquet"), files.kdc, "-o", files.path(".c.html"), "--rows", files.name],
        [files.path(".parquet"), files.kdc, "-o", files.path(".c.html"), "--format", files.name],
    ],
    "formats": lambda files: [[], ["--json"], [files.name], [f"--{files.name}"]],
    "completion": lambda files: [["bash"], [files.name], [f"--{files.name}"], ["zsh", files.name]],
}
"""What each command is asked to do with files full of a name, in ways that it does and ways that it refuses."""


def run(*words: str, stdin: str | None = None, color: bool = True) -> Result:
    """Run a command as on a terminal that shows colours, where escape sequences are not taken out."""
    result = CliRunner().invoke(main, words, input=stdin, color=color)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def check(result: Result, words: list[str]) -> None:
    for text in (result.stdout, result.stderr):
        plain = OWN_STYLES.sub("", text).replace("\n\t", "\n")  # a tab before each choice is click's own
        assert not forbidden(plain), (words, plain)


def in_a_folder(name: str, file_name: str) -> tuple[TemporaryDirectory, Files]:
    folder = TemporaryDirectory()
    files = Files(Path(folder.name), name, file_name)
    files.write()
    return folder, files


def test_every_command_is_here():
    assert list(LINES) == COMMANDS


FILE_NAMES = names("\udc80\udcff").map(lambda name: name.replace("/", "")[:60])


@pytest.mark.parametrize("command", COMMANDS)
@settings(
    max_examples=int(os.environ.get("KDCODE_EXAMPLES", "6")), deadline=None, phases=[Phase.explicit, Phase.generate]
)
@given(name=names(), file_name=FILE_NAMES)
def test_no_command_prints_a_character_that_steers_a_terminal(command, name, file_name):
    folder, files = in_a_folder(name, file_name)
    with folder:
        codes = set()
        for words in LINES[command](files):
            result = run(command, *words)
            check(result, [command, *words])
            codes.add(result.exit_code)
    assert codes >= ({1, 2} if command == "demo" else {0, 2})  # a demo would take long


@pytest.mark.parametrize("command", ["kdcode", *COMMANDS])
def test_no_help_prints_one_either(command):
    for words in [[], ["--help"], ["--help-all"], ["--version"], ["\x1b[7m"], ["--\u202e"]]:
        if command != "demo" or words:
            check(run(*([] if command == "kdcode" else [command]), *words), [command, *words])


HOSTILE = "s\x1b[7m\x9b\u202e\U0001f600é"


@pytest.fixture
def files(tmp_path):
    made = Files(tmp_path, HOSTILE, "plain")
    made.write()
    return made


JSON_LINES = [
    ["info"],
    ["get", *(f"{letter}{HOSTILE}" for letter in "su")],
    ["neighbors", f"s{HOSTILE}"],
    ["codes"],
    ["verify", "{original}"],
]


def strings(value: object) -> list[str]:
    """All texts in a JSON value."""
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in strings(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("line", JSON_LINES, ids=lambda line: line[0])
def test_json_is_exact_in_any_encoding(files, line, encoding):
    """What is escaped in JSON is the same to whoever reads it."""
    name, *rest = line
    words = [name, files.kdc, *(word.replace("{original}", files.path(".other.parquet")) for word in rest), "--json"]
    result = CliRunner(charset=encoding).invoke(main, words)
    text = result.stdout_bytes.decode(encoding)
    assert not forbidden(text)
    assert any(HOSTILE in found for found in strings(json.loads(text)))
    if encoding == "utf-8":
        assert "\\u001b[7m\\u009b\\u202e😀é" in text


def split_by_bash(*lines: str) -> list[list[str]]:
    """The words that a shell makes of commands."""
    script = "kdcode() { printf '%s\\0' kdcode \"$@\"; printf '\\0'; }\n" + "\n".join(lines)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    ended = done.stdout.decode("utf-8", "surrogateescape").split("\0\0")
    return [line.split("\0") for line in ended if line]


ARGUMENTS = st.lists(names("\udc80\udcff\n") | st.text("ab'\"\\-$é \n", min_size=1, max_size=6), min_size=1, max_size=3)


@settings(deadline=None)
@given(ARGUMENTS)
def test_a_command_to_copy_is_safe_and_exact(arguments):
    line = command_line("get", arguments, ["--tensor", "a b"])
    assert not forbidden(line)
    assert "\n" not in line
    [words] = split_by_bash(line)
    assert [word for word in words if word != "--"] == (
        ["kdcode", "get", *arguments, "--tensor", "a b"]
        if not any(word.startswith("-") for word in arguments)
        else ["kdcode", "get", "--tensor", "a b", *arguments]
    )


@pytest.mark.parametrize("symbols", [[f"{HOSTILE}1", f"{HOSTILE}2"], ["-", "--help"], ["-", "\0"], ["a\nb", "'"]])
def test_the_next_commands_can_be_copied(tmp_path, monkeypatch, symbols):
    monkeypatch.chdir(tmp_path)
    source, target = f"-{HOSTILE}'.parquet", f"-{HOSTILE}\udcff.kdc"
    kdcode.write(kdcode.VectorTable(symbols, np.eye(2, dtype=np.float32)), source)
    result = run("compress", "-K", "2", "-D", "1", "--effort", "fast", "--quiet", "--", source, target)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.split("next\n")[1].strip("\n").split("\n")
    assert not forbidden("".join(lines))
    for words in split_by_bash(*lines):
        assert run(*words[1:]).exit_code == 0, words
    asked = {line.split()[1] for line in lines}
    assert asked == {"info", "verify"} | ({"neighbors"} if set(symbols) != {"-", "\0"} else set())


SURPRISES = {
    "error": "raise RuntimeError('first \\x1b[7m\\x9b\\nsecond \\u202e')",
    "warning": "warnings.warn('first \\x1b[7m\\x9b\\nsecond \\u202e', stacklevel=1)",
}


@pytest.mark.parametrize("kind", SURPRISES)
def test_what_nobody_expected_is_safe_too(files, kind):
    script = (
        "import warnings, kdcode.storage\nfrom kdcode.cli import main\nload = kdcode.storage.load\n"
        f"def surprise(path):\n    {SURPRISES[kind]}\n    return load(path)\n"
        f"kdcode.storage.load = surprise\nmain(['info', {files.kdc!r}])\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert not forbidden(result.stderr)
    if kind == "error":
        assert result.returncode == 1
        assert result.stderr.startswith("Traceback (most recent call last):\n")
        assert result.stderr.endswith("\nRuntimeError: first \\x1b[7m\\x9b\nsecond \\u202e\n")
    else:
        assert result.returncode == 0
        assert result.stderr == "warning: first \\x1b[7m\\x9b\\nsecond \\u202e\n"


def on_a_terminal(*words: str) -> tuple[int, str]:
    """The exit code of a command whose output is a terminal, and what that shows, stderr included."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-m", "kdcode", *words], stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # what a terminal says at its end
            while piece := os.read(ours, 1 << 16):
                shown += piece
    os.close(ours)
    return process.returncode, shown.decode().replace("\r\n", "\n")


def test_a_table_expanded_to_a_terminal(tmp_path):
    files = Files(tmp_path, HOSTILE, "plain")
    files.write()
    table = kdcode.load(files.kdc)
    kept = [row for row, symbol in enumerate(files.symbols) if "\n" not in symbol]
    coded = kdcode.CodedTable.from_codes([files.symbols[row] for row in kept], table.codes[kept], table.codec)
    kdcode.save(coded, files.kdc)
    code, text = on_a_terminal("expand", files.kdc, "-", "--quiet", "--format", "tsv")
    assert code == 0, text
    assert not forbidden(text)
    assert [line.split()[0] for line in text.splitlines()] == ["symbol", *map(printable.shown, coded.symbols)]
    code, text = on_a_terminal("expand", files.kdc, "-", "--quiet", "--format", "parquet")
    assert (code, forbidden(OWN_STYLES.sub("", text))) == (1, set())
    assert "is not for a terminal" in text
