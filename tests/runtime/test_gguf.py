"""The GGUF reader: agrees with the gguf package, and refuses what is broken with its place."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import quants
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.runtime.errors import WeightsError
from espalier.runtime.gguf import PARSE_MULTIPLE, GGUFFile
from espalier.runtime.gguf_types import SUPPORTED

from .gguf_files import (
    description,
    file_bytes,
    key_array,
    key_text,
    key_u32,
    string,
    values,
    written,
)

TYPES = [gguf.GGMLQuantizationType[name] for name in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tensor of each type, and each kind of value."""

    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_string("a.text", "Grüße, 世界")
        writer.add_bool("a.flag", True)
        writer.add_int8("a.i8", -3)
        writer.add_uint16("a.u16", 65535)
        writer.add_int64("a.i64", -(2**40))
        writer.add_float64("a.f64", 0.1)
        writer.add_array("a.texts", ["x", "yy", "Ġz"])
        writer.add_array("a.ints", [1, -2, 3])
        writer.add_array("a.floats", [0.5, 1.5])
        for kind in TYPES:
            data = quants.quantize(values((3, 2, 64), kind.value), kind)
            writer.add_tensor(f"t.{kind.name}", data, raw_dtype=kind)

    return written(tmp_path_factory.mktemp("gguf") / "small.gguf", fill)


def test_values_and_tensors_agree_with_the_gguf_package(small: Path) -> None:
    ours, oracle = GGUFFile.open(small), gguf.GGUFReader(small)
    for key, field in oracle.fields.items():
        if not key.startswith("GGUF."):
            value = ours.metadata[key]
            plain = value.tolist() if isinstance(value, np.ndarray) else value
            assert (list(plain) if isinstance(plain, tuple) else plain) == field.contents()
    for tensor in oracle.tensors:
        info = ours.info(tensor.name)
        assert info.shape == tuple(reversed(tensor.shape.tolist())) == (3, 2, 64)
        assert (info.offset, info.nbytes, info.type.name) == (
            tensor.data_offset, tensor.n_bytes, tensor.tensor_type.name)
        assert ours.raw(tensor.name).tobytes() == tensor.data.tobytes()
        expected = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        np.testing.assert_array_equal(ours.tensor(tensor.name), expected.reshape(info.shape))


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00000])
def test_a_tensor_that_is_not_finite_is_refused(bits: int) -> None:
    file = GGUFFile(file_bytes([], [description("t", [2], 0, 0)], struct.pack("<II", 0, bits)))
    with pytest.raises(WeightsError, match="not finite"):
        file.tensor("t")


def test_raw_bytes_cannot_be_written_and_a_tensor_owns_its_memory(small: Path) -> None:
    file = GGUFFile.open(small)
    assert not file.raw("t.F32").flags.writeable
    first = file.tensor("t.F32")
    first[:] = 0
    assert file.tensor("t.F32").any()


def test_version_2_reads_like_version_3() -> None:
    file = GGUFFile(file_bytes([key_text("a", "b")], [description("t", [2], 0, 0)], bytes(8), version=2))
    assert (file.version, file.text("a"), file.tensor("t").tolist()) == (2, "b", [0.0, 0.0])


ONE = [description("t", [8], 0, 0)]
F32_DATA = bytes(32)
BROKEN = {
    "empty": (b"", "byte 0"),
    "short magic": (b"GG", "byte 0"),
    "other magic": (b"GGML" + bytes(20), "byte 0"),
    "version 1": (file_bytes(version=1), "byte 4"),
    "version 4": (file_bytes(version=4), "byte 4"),
    "big endian": (file_bytes(version=3 << 24), "byte 4"),
    "header cut": (file_bytes()[:20], "byte 16"),
    "a billion keys": (file_bytes(key_count=10**9), "byte 16"),
    "2^64 - 1 tensors": (file_bytes(tensor_count=2**64 - 1), "byte 8"),
    "key longer than the file": (file_bytes([struct.pack("<Q", 2**63) + b"k" * 20]), "byte 24"),
    "key that is not UTF-8": (file_bytes([key_text(b"\xff", "x")]), "byte 24"),
    "value that is not UTF-8": (file_bytes([key_text("k", b"\xc3(")]), "byte 37"),
    "empty key": (file_bytes([key_text("", "long enough")]), "byte 24"),
    "key over 65535 bytes": (file_bytes([key_text("k" * 65536, "x")]), "byte 24"),
    "unknown type": (file_bytes([string("k") + struct.pack("<II", 13, 0)]), "k, byte 33"),
    "bool of 2": (file_bytes([string("k") + struct.pack("<IB", 7, 2)]), "k, byte 33"),
    "array of 2^60 strings": (file_bytes([key_array("k", 8, 2**60, b"")]), "byte 41"),
    "array of 2^61 u64": (file_bytes([key_array("k", 10, 2**61, bytes(8))]), "byte 41"),
    "array of arrays": (file_bytes([key_array("k", 9, 1, bytes(12))]), "k, byte 33"),
    "array of unknown type": (file_bytes([key_array("k", 99, 0, b"")]), "k, byte 33"),
    "same key twice": (file_bytes([key_u32("k", 1), key_u32("k", 1)]), "byte 41"),
    "split": (file_bytes([key_u32("split.count", 3)]), "split.count"),
    "split into an array": (file_bytes([key_array("split.count", 4, 2, bytes(8))]), "split.count"),
    "alignment of an array": (file_bytes([key_array("general.alignment", 4, 2, bytes(8))]), "general.alignment"),
    "alignment 0": (file_bytes([key_u32("general.alignment", 0)]), "general.alignment"),
    "alignment 48": (file_bytes([key_u32("general.alignment", 48)]), "general.alignment"),
    "alignment 2^31": (file_bytes([key_u32("general.alignment", 2**31)]), "general.alignment"),
    "same tensor twice": (file_bytes([], ONE * 2, F32_DATA), "byte 57"),
    "no dimensions": (file_bytes([], [description("t", [], 0, 0)], bytes(40)), "tensor t"),
    "five dimensions": (file_bytes([], [description("t", [1] * 5, 0, 0)], F32_DATA), "tensor t"),
    "dimension of zero": (file_bytes([], [description("t", [0, 2**63], 0, 0)], F32_DATA), "tensor t"),
    "product past 2^64": (file_bytes([], [description("t", [2**32, 2**32, 4], 0, 0)], F32_DATA), "tensor t"),
    "product that wraps to zero": (file_bytes([], [description("t", [2**63, 2, 4], 0, 0)], F32_DATA), "tensor t"),
    "row that is no whole block": (file_bytes([], [description("t", [16, 2], 2, 0)], bytes(64)), "tensor t"),
    "offset off the alignment": (file_bytes([], [description("t", [1], 0, 4)], F32_DATA), "tensor t"),
    "offset past the end": (file_bytes([], [description("t", [8], 0, 32)], F32_DATA), "tensor t"),
    "offset of 2^64 - 32": (file_bytes([], [description("t", [8], 0, 2**64 - 32)], F32_DATA), "tensor t"),
    "data cut by one byte": (file_bytes([], ONE, F32_DATA[:-1]), "tensor t"),
    "overlap": (file_bytes([], [*ONE, description("u", [9], 0, 0)], bytes(64)), "tensor u"),
    "name over 64 bytes": (file_bytes([], [description("t" * 65, [8], 0, 0)], F32_DATA), "byte 24"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_its_place(case: str) -> None:
    data, where = BROKEN[case]
    with pytest.raises(WeightsError) as caught:
        GGUFFile(data)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("code", "name"), [(9, "Q8_1"), (16, "IQ2_XXS"), (39, "MXFP4"), (24, "I8"), (4242, "number 4242")]
)
def test_an_unsupported_tensor_type_is_refused_by_name(code: int, name: str) -> None:
    with pytest.raises(WeightsError, match=f"type {name} is not supported") as caught:
        GGUFFile(file_bytes([], [description("t", [256], code, 0)], bytes(1024)))
    assert all(kind.name in str(caught.value.fix) for kind in SUPPORTED.values())


def test_a_big_endian_file_is_refused_by_name() -> None:
    with pytest.raises(WeightsError, match="big-endian"):
        GGUFFile(BROKEN["big endian"][0])


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "empty", tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(WeightsError) as caught:
            GGUFFile.open(path)
        assert caught.value.where == str(path)


def test_accessors_refuse_other_types_and_missing_keys() -> None:
    file = GGUFFile(file_bytes([key_text("s", "x"), key_u32("n", 7)]))
    assert (file.text("s"), file.integer("n"), file.number("n")) == ("x", 7, 7.0)
    for read, key in [(file.text, "n"), (file.integer, "s"), (file.number, "s"), (file.flag, "n"), (file.texts, "s"),
                      (file.integers, "n"), (file.text, "missing"), (lambda key: file.integer(key, 8), "n")]:
        with pytest.raises(WeightsError) as caught:
            read(key)
        assert caught.value.where == key


def _tree(letters: int) -> bytes:
    return b"".join(string(f"{i:0{letters}x}") for i in range(20_000))


GREEDY = {
    "short strings": file_bytes([key_array("k", 8, 20_000, _tree(5))]),
    "empty strings": file_bytes([key_array("k", 8, 50_000, string("") * 50_000)]),
    "one wide character each": file_bytes([key_array("k", 8, 20_000, b"".join(
        string(chr(0x4E00 + i)) for i in range(20_000)))]),
    "a long text with one wide character": file_bytes([key_text("k", "x" * 500_000 + "😀")]),
    "tiny keys": file_bytes([string(f"{i:x}") + struct.pack("<IB", 0, i % 256) for i in range(20_000)]),
    "keys of 64-bit numbers": file_bytes([string(f"{i:x}") + struct.pack("<IQ", 10, 2**40 + i) for i in range(20_000)]),
    "many tensors": file_bytes([], [description(f"{i:x}", [1], 0, 32 * i) for i in range(5_000)], bytes(160_000)),
    "numbers": file_bytes([key_array("k", 5, 200_000, bytes(800_000))]),
}


@pytest.mark.parametrize("case", GREEDY)
def test_parsing_takes_at_most_the_stated_multiple_of_the_metadata(case: str) -> None:
    data = GREEDY[case]
    metadata = len(data) - (160_000 if case == "many tensors" else 0)
    tracemalloc.start()
    file = GGUFFile(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert file.version == 3
    assert peak <= PARSE_MULTIPLE * metadata


def _read_or_refuse(content: bytes) -> None:
    """Fails with anything but a WeightsError that names its place."""
    refusals: list[WeightsError] = []
    try:
        file = GGUFFile(content)
        for name, info in file.tensors.items():
            shape = file.tensor(name).shape
            assert shape == info.shape
    except WeightsError as error:
        refusals.append(error)
    assert all(error.where for error in refusals)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_file_is_read_or_refused_and_nothing_else(small: Path, data: st.DataObject) -> None:
    content = bytearray(small.read_bytes())
    metadata_end = GGUFFile(bytes(content)).info("t.F32").offset
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, metadata_end - 1))
        content[place : place + data.draw(st.sampled_from([0, 1, 1, 1, 8]))] = data.draw(
            st.one_of(st.binary(max_size=8), st.sampled_from([b"\xff" * 8, bytes(8), b"\0\0\0\0\0\0\0\x80"])))
    content = content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content
    _read_or_refuse(bytes(content))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_after_the_magic_are_read_or_refused(tail: bytes) -> None:
    _read_or_refuse(b"GGUF\x03\0\0\0" + tail)

@pytest.mark.slow
def test_a_hundred_thousand_broken_headers_are_refused_in_bounded_memory(small: Path) -> None:
    content = small.read_bytes()
    end = GGUFFile(content).info("t.F32").offset
    random = np.random.default_rng(0)
    for _ in range(100_000):
        broken = bytearray(content[: random.integers(0, len(content))] if random.random() < 0.3 else content)
        for place in random.integers(0, end, random.integers(1, 6)):
            broken[place : place + 1] = random.integers(0, 256, random.integers(0, 3), np.uint8).tobytes()
        _read_or_refuse(bytes(broken))
    tracemalloc.start()
    for count in (2**16, 2**31, 2**32, 2**62, 2**63, 2**64 - 1):
        for place in range(8, end - 8):
            _read_or_refuse(content[:place] + struct.pack("<Q", count) + content[place + 8 :])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20  # the file has 5 kB; it claims up to 2^64 of everything
