"""Remote snapshots and scores, on a local S3 server and a local web server."""

from __future__ import annotations

import functools
import io
import logging
import pickle
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from PIL import Image

import hardsight
from hardsight.checking.check import default_output
from hardsight.data import BrokenImage, open_data
from hardsight.errors import FileError, InputError
from hardsight.files import places
from hardsight.files.heads import save_head
from hardsight.files.places import address, place
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.files.writing import replacing
from hardsight.head import Head
from hardsight.models import Preprocessing
from hardsight.snapshot import Snapshot
from refusals import refused

server = pytest.importorskip("moto.server", reason="moto's S3 server is not installed")
N, D, C = 500, 8, 4


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"{host}:{port}"
    running.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A file system with an empty bucket, and the environment variables to reach it."""
    for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "ENDPOINT_URL": f"http://{endpoint}"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    places._remote.cache_clear()  # it remembers the endpoint of an earlier test
    store = pafs.S3FileSystem(endpoint_override=endpoint, scheme="http", region="us-east-1", allow_bucket_creation=True)
    store.create_dir("bucket")
    store.delete_dir_contents("bucket")
    yield store
    places._remote.cache_clear()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The same snapshot in every format."""
    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal((N, D), dtype=np.float32), rng.integers(0, C, N)
    head = Head("linear", rng.standard_normal((C, D), dtype=np.float32), rng.standard_normal(C, dtype=np.float32))
    folder = tmp_path / "here"
    folder.mkdir()
    Snapshot(features, head, labels).save(folder / "all.npz")
    np.save(folder / "features.npy", features)
    np.save(folder / "labels.npy", labels)
    save_head(folder / "head.safetensors", head)
    flat = pa.FixedSizeListArray.from_arrays(features.reshape(-1), D)
    pq.write_table(pa.table({"label": labels, "features": flat}), folder / "samples.parquet", row_group_size=200)
    run = Run(folder / "run", "test", {}, {})
    parts = [run.folder("samples") / f"part-0000{number}.parquet" for number in range(2)]
    write_samples(parts[0], features[:300], {"id": np.arange(300), "label": labels[:300]})
    write_samples(parts[1], features[300:], {"id": np.arange(300, N), "label": labels[300:]})
    save_head(run.directory / "head.safetensors", head)
    run.finish(parts, {})
    return folder


def upload(store: Any, folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            name = f"bucket/{file.relative_to(folder).as_posix()}"
            pafs.copy_files(str(file), name, source_filesystem=pafs.LocalFileSystem(), destination_filesystem=store)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("all.npz", "scores.parquet"),
        ("all.npz", "scores.csv"),
        ("all.npz", "deep/scores.json"),
        ("features.npy", "scores.parquet"),
        ("samples.parquet", "scores.parquet"),
        ("run", "run/scores.parquet"),
    ],
)
def test_reading_and_writing(bucket: Any, files: Path, cli: Callable[..., Any], name: str, table: str) -> None:
    (files / "deep").mkdir()
    upload(bucket, files)
    apart = {"features.npy": ["head", "labels"], "samples.parquet": ["head"]}.get(name, [])
    ending = {"head": ".safetensors", "labels": ".npy"}

    def score(base: str) -> Any:
        options = [word for what in apart for word in (f"--{what}", f"{base}/{what}{ending[what]}")]
        return cli("score", f"{base}/{name}", *([] if name == "run" else ["-o", f"{base}/{table}"]), *options)

    far, near = score("s3://bucket"), score(str(files))
    assert far.code == 0, far.err
    assert "next: hardsight explore" in near.out and "next:" not in far.out  # which reads no s3:// tables
    assert far.out.replace("s3://bucket", str(files)) == near.out.partition("next:")[0]
    with bucket.open_input_stream(f"bucket/{table}") as stream:
        assert stream.read() == (files / table).read_bytes()


def test_the_endpoint_in_the_uri(bucket: Any, endpoint: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(bucket, files)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    uri = f"s3://test:test@bucket/all.npz?endpoint_override={endpoint}&scheme=http&region=us-east-1"
    assert len(Snapshot.load(uri)) == N
    assert str(place(uri)) == "s3://bucket/all.npz"  # no secrets in messages
    assert address(uri) == uri
    assert address(place(uri).with_name("run") / "run.json") == uri.replace("all.npz", "run/run.json")


def test_an_error_leaves_nothing_in_the_store(bucket: Any) -> None:
    with pytest.raises(ZeroDivisionError), replacing("s3://bucket/half.txt") as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert not place("s3://bucket/half.txt").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["s3://bucket/absent.npz"], "s3://bucket/absent.npz does not exist"),
        (["s3://nowhere/all.npz"], "s3://nowhere/all.npz does not exist"),
        (["s3://bucket/absent"], "s3://bucket/absent does not exist"),
        (["s3:///all.npz"], "the bucket is missing"),
        (["s3://bucket/all.npz?color=red"], "Unexpected query parameter"),
        (["s3://bucket/all.npz", "-o", "s3://nowhere/scores.parquet"], "Check the bucket's name"),
        (["s3://bucket/all.npz", "-o", "s3://bucket/all.npz.txt"], "the extension of a table must be one of"),
        (["s3://bucket/damaged.parquet"], "not a readable Parquet file"),
        (["hdfs://127.0.0.1:1/all.npz"], "not hdfs://"),
    ],
)
def test_mistakes_are_one_line(bucket: Any, files: Path, cli: Callable[..., Any], words: list[str], message: str) -> None:
    (files / "damaged.parquet").write_bytes(b"PAR1 no PAR1")
    upload(bucket, files)
    refused(cli("score", *words), message)


def test_a_server_that_does_not_answer(bucket: Any) -> None:
    with pytest.raises(FileError, match="AWS_ENDPOINT_URL"):
        Snapshot.load("s3://bucket/all.npz?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1")


def test_a_cluster_reads_and_writes_the_store(bucket: Any, files: Path, endpoint: str) -> None:
    distributed = pytest.importorskip("distributed", reason="the cluster extra is not installed")
    upload(bucket, files)
    sources = ("s3://bucket/samples.parquet", "s3://bucket/head.safetensors")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tcp", "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as running:
        hardsight.score(*sources, output="s3://bucket/out/scores.parquet", cluster=running.scheduler_address)
    with bucket.open_input_file("bucket/out/scores.parquet") as file:
        assert pq.read_table(file).equals(hardsight.score(*sources).table)
    left = bucket.get_file_info(pafs.FileSelector("bucket/out", recursive=True))
    assert [info.path for info in left] == ["bucket/out/scores.parquet"]


def encoded(shade: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), (shade, 0, 0)).save(stream, "png")
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["folder", "tar", "parquet"])
def test_images_in_a_store(bucket: Any, tmp_path: Path, kind: str) -> None:
    """The same ids, labels and pixels as from the disk."""
    here = tmp_path / "here"
    for name, shade in (("cat/1.png", 10), ("cat/2.png", 20), ("dog/1.png", 30)):
        (here / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "photos" / name).write_bytes(encoded(shade))
    with tarfile.open(here / "photos.tar", "w") as archive:
        archive.add(here / "photos", "photos")
    cells = [{"bytes": encoded(shade), "path": None} for shade in (10, 20, 30)]
    (here / "shards").mkdir()
    pq.write_table(pa.table({"image": cells, "label": ["cat", "cat", "dog"]}), here / "shards" / "test.parquet", row_group_size=2)
    upload(bucket, here)
    name = {"folder": "photos", "tar": "photos.tar", "parquet": "shards"}[kind]
    far, near = open_data(f"s3://bucket/{name}"), open_data(here / name)
    assert far.ids == near.ids and far.class_names == near.class_names == ["cat", "dog"] and far.columns == near.columns
    assert far.labels is not None and far.labels.tolist() == [0, 0, 1]
    worker = pickle.loads(pickle.dumps(far))
    assert [worker.image(row).getpixel((0, 0)) for row in range(3)] == [(10, 0, 0), (20, 0, 0), (30, 0, 0)]
    assert far.fingerprint() == open_data(f"s3://bucket/{name}").fingerprint()
    if kind == "folder":
        bucket.delete_file("bucket/photos/cat/2.png")
        with pytest.raises(BrokenImage, match="missing"):
            far.image(1)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("photos", "got s3://bucket/photos, which does not exist"),
        ("list.csv", "s3://bucket/list.csv: images in a store are a folder, a .tar or a .parquet"),
        ("notes", "s3://bucket/notes: a data folder must hold images"),
    ],
)
def test_images_in_a_store_that_are_not_there(bucket: Any, name: str, match: str) -> None:
    for file in ("list.csv", "notes/readme.txt"):
        with bucket.open_output_stream(f"bucket/{file}") as stream:
            stream.write(b"path,label\n")
    with pytest.raises(InputError, match=match):
        open_data(f"s3://bucket/{name}")


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what a command prints is compared."""


def test_photographs_in_a_bucket_are_checked(bucket: Any, tmp_path: Path) -> None:
    torch, rng = pytest.importorskip("torch"), np.random.default_rng(0)
    for name, light in (("day", 200), ("night", 40)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            pixels = (light + rng.integers(-30, 30, (8, 8, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    upload(bucket, tmp_path / "photos")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
    net.preprocessing = Preprocessing(size=(8, 8))
    found = hardsight.check("s3://bucket", output=tmp_path / "run", model=net)
    assert len(found) == 16 and found.counts["unreadable"] == 0 and (tmp_path / "run" / "report.html").is_file()
    assert default_output("s3://bucket/my/photos/") == "hardsight-photos"


@pytest.fixture
def website(files: Path) -> Iterator[str]:
    """The files on a web server that, like many, sends them only whole."""
    handler = functools.partial(Silent, directory=str(files))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_file_of_the_web_is_read_as_a_local_one(website: str, files: Path, cli: Callable[..., Any], tmp_path: Path) -> None:
    for source, target in ((website, "far.parquet"), (str(files), "near.parquet")):
        assert cli("score", f"{source}/all.npz", "-o", str(tmp_path / target)).code == 0
    assert (tmp_path / "far.parquet").read_bytes() == (tmp_path / "near.parquet").read_bytes()
    refused(cli("score", f"{website}/absent.npz"), "absent.npz does not exist")
    refused(cli("score", f"{website}/all.npz?key=1"), "?...")
    refused(cli("score", str(files / "all.npz"), "-o", f"{website}/scores.parquet"), "not written to")
