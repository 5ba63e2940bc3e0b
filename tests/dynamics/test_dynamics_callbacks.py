"""The Lightning and the Hugging Face callbacks in real trainings: they record the same as a bare loop."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from hardsight import Dynamics, avh
from hardsight.dynamics.head_hook import HeadWatch, labels_and_ids
from hardsight.errors import InputError
from hardsight.files.epochs import moments
from hardsight.losses import LGMLoss

pytestmark = pytest.mark.filterwarnings("default")  # other people's libraries warn as they like

N, D, C, BATCH, EPOCHS = 50, 6, 3, 16, 3


class Net(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.Tanh())
        self.classifier = torch.nn.Linear(8, C)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.body(x))


class Samples(torch.utils.data.Dataset):  # type: ignore[name-defined]
    def __init__(self, n: int, first_id: int = 0) -> None:
        generator = torch.Generator().manual_seed(n)
        self.x, self.first_id = torch.randn(n, D, generator=generator), first_id
        self.y = torch.randint(0, C, (n,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Any:
        return self.x[i], self.y[i], self.first_id + i


class Named(Samples):
    def __getitem__(self, i: int) -> Any:
        return {"x": self.x[i], "labels": self.y[i], "ids": self.first_id + i}


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def bare_loop(folder: Path, val: bool = True) -> None:
    """SGD in order, the features and the head of each forward pass recorded by hand."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    train, held_out = Samples(N), Samples(20, first_id=1000)
    with Dynamics(folder) as tracker:
        for epoch in range(1, EPOCHS + 1):
            for start in range(0, N, BATCH):
                at = torch.arange(start, min(start + BATCH, N))
                features = model.body(train.x[at])
                tracker.update(epoch, features, model.classifier, train.y[at], at)
                loss = torch.nn.functional.cross_entropy(model.classifier(features), train.y[at])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if val:
                with torch.no_grad():
                    features = model.body(held_out.x)
                tracker.update(epoch, features, model.classifier, held_out.y, np.arange(1000, 1020), split="val")


def same(one: Path, other: Path) -> None:
    assert len(moments(one)) == len(moments(other)) == EPOCHS
    for (_, mine), (_, theirs) in zip(moments(one), moments(other), strict=True):
        a, b = pq.read_table(mine), pq.read_table(theirs)
        for name in a.column_names:
            left, right = a.column(name).to_pylist(), b.column(name).to_pylist()
            assert left == (right if name in ("id", "split", "label", "correct") else pytest.approx(right, rel=1e-4, abs=1e-5))


# ---- Lightning ----


def lightning() -> Any:
    from hardsight.models.libraries import import_with_torchvision

    return import_with_torchvision("lightning.pytorch", "this test")


def fit(folder: Path, callback: Any, **more: Any) -> None:
    pl = lightning()

    class Module(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = net()

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def validation_step(self, batch: Any, index: int) -> None:
            self.model(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.5)

    arguments = {
        "max_epochs": EPOCHS, "accelerator": "cpu", "devices": 1, "callbacks": [callback], "logger": False,
        "default_root_dir": folder, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
    }  # fmt: skip
    trainer = pl.Trainer(**(arguments | more))
    loader = torch.utils.data.DataLoader
    trainer.fit(Module(), loader(Samples(N), batch_size=BATCH), loader(Samples(20, first_id=1000), batch_size=7))


# ---- Hugging Face ----


def train(folder: Path, callback: Any, **more: Any) -> None:
    from hardsight.models.libraries import import_with_torchvision

    transformers = import_with_torchvision("transformers", "this test")

    class Model(Net):
        def forward(self, x: Any, labels: Any = None) -> Any:  # type: ignore[override]
            logits = super().forward(x)
            loss = torch.nn.functional.cross_entropy(logits, labels)
            return {"loss": loss, "logits": logits}

    class InOrder(transformers.Trainer):  # type: ignore[misc, name-defined]
        def _get_train_sampler(self, *args: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    torch.manual_seed(0)
    arguments = {
        "per_device_train_batch_size": BATCH, "per_device_eval_batch_size": 7, "num_train_epochs": EPOCHS, "learning_rate": 0.5,
        "optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "report_to": "none", "save_strategy": "no",
        "use_cpu": True, "disable_tqdm": True, "eval_strategy": "epoch", "remove_unused_columns": False,
    }  # fmt: skip
    settings = transformers.TrainingArguments(str(folder / "hf"), **(arguments | more))
    InOrder(
        model=Model(), args=settings, train_dataset=Named(N), eval_dataset=Named(20, first_id=1000), callbacks=[callback]
    ).train()


# ---- both ----

TRAINERS: dict[str, Any] = {"lightning": fit, "transformers": train}
HEADS = {"lightning": "model.classifier", "transformers": "classifier"}


def callback(kind: str, folder: Path, **options: Any) -> Any:
    return importlib.import_module(f"hardsight.dynamics.{kind}").DynamicsCallback(folder, **options)


@pytest.mark.parametrize("kind", TRAINERS)
def test_a_callback_records_what_a_bare_loop_does(kind: str, tmp_path: Path) -> None:
    tracking = callback(kind, tmp_path / kind, head=HEADS[kind])
    TRAINERS[kind](tmp_path, tracking)
    bare_loop(tmp_path / "bare")
    same(tmp_path / kind, tmp_path / "bare")
    assert moments(tmp_path / kind, steps=True) == []
    assert kind != "lightning" or tracking.watch is None  # the hooks are gone


@pytest.mark.parametrize(
    ("kind", "how_often", "expected"),
    [
        ("lightning", {"val_check_interval": 2}, [(1, 2), (2, 6), (3, 10)]),
        ("transformers", {"eval_strategy": "steps", "eval_steps": 3}, [(1, 3), (2, 6), (3, 9), (3, 12)]),
    ],
)
def test_an_evaluation_inside_an_epoch_is_a_step(kind: str, how_often: Any, expected: Any, tmp_path: Path) -> None:
    TRAINERS[kind](tmp_path, callback(kind, tmp_path), **how_often)
    assert [(one.epoch, one.step) for one, _ in moments(tmp_path, steps=True)] == expected
    bare_loop(tmp_path / "bare", val=kind == "lightning")
    same(tmp_path, tmp_path / "bare")


def test_batches_without_ids(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\(inputs, labels, ids\).*a list of 2"):
        fit(tmp_path, callback("lightning", tmp_path, labels_and_ids=lambda batch: labels_and_ids(batch[:2])))
    with pytest.raises(InputError, match="remove_unused_columns=False"):
        train(tmp_path, callback("transformers", tmp_path), remove_unused_columns=True)
    assert moments(tmp_path) == []


# ---- two processes ----

IN_TWO: dict[str, Any] = {"lightning": {"devices": 2, "strategy": "ddp"}, "transformers": {"ddp_backend": "gloo"}}


def in_two_processes(kind: str, folder: Path) -> None:
    """The script that torchrun starts twice."""
    torch.set_num_threads(1)
    TRAINERS[kind](folder, callback(kind, folder), **IN_TWO[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRAINERS)
def test_two_processes_record_every_sample_once(kind: str, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*torchrun, __file__, kind, str(tmp_path)], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(moments(tmp_path)) == EPOCHS
    for _, path in moments(tmp_path):
        table = pq.read_table(path)
        seen = list(zip(table.column("split").to_pylist(), table.column("id").to_pylist(), strict=True))
        assert seen == [("train", i) for i in range(N)] + [("val", i) for i in range(1000, 1020)]


# ---- the watch that both use ----


def test_the_last_linear_layer_is_the_head_unless_named(tmp_path: Path) -> None:
    tracker = Dynamics(tmp_path)
    assert HeadWatch(net(), None, tracker).name == "classifier"
    assert HeadWatch(net(), "body.0", tracker).name == "body.0"
    for model, name, words in (
        (net(), "fc", "Net has no layer 'fc'; it has body.0, classifier"),
        (net(), "body.1", "'body.1' is a Tanh"),
        (torch.nn.ReLU(), None, "no nn.Linear and no head loss"),
    ):
        with pytest.raises(InputError, match=words):
            HeadWatch(model, name, tracker)


def test_a_second_forward_pass_is_not_of_these_samples(tmp_path: Path) -> None:
    model, tracker = net(), Dynamics(tmp_path)
    watch = HeadWatch(model, None, tracker)
    watch.expect(1, torch.zeros(2, dtype=torch.int64), [0, 1], split="train")
    model(torch.ones(2, D))
    model(torch.ones(5, D))  # nobody said whose these are
    watch.expect(1, [0, 1], [2, 3], split="train")
    with pytest.raises(InputError, match=r"the head 'classifier' .* got shape \(2, 5, 8\)"):
        model(torch.ones(2, 5, D))  # not rows of features
    watch.remove()
    path = tracker.finish(1)
    assert path is not None and pq.read_table(path).column("id").to_pylist() == [0, 1]


def test_where_labels_and_ids_are() -> None:
    assert labels_and_ids({"x": 1, "label": 2, "id": 3}) == (2, 3)
    assert labels_and_ids((1, 2, 3)) == (2, 3)
    with pytest.raises(InputError, match="a dictionary with x, labels"):
        labels_and_ids({"x": 1, "labels": 2})
    with pytest.raises(InputError, match="a Tensor of 2"):
        labels_and_ids(torch.ones(2))


def test_a_metric_in_a_collection() -> None:
    lightning()  # which loads torchmetrics, seconds of it: the reason why this test is here
    import torchmetrics

    from hardsight.torchmetrics import AngularVisualHardness

    layer, labels = torch.nn.Linear(3, 3), np.arange(60) % 3
    rows = np.eye(3)[labels] * 3 + np.random.default_rng(0).normal(size=(60, 3))
    features, target = torch.tensor(rows, dtype=torch.float32), torch.tensor(labels)
    expected = avh(features.numpy(), layer.weight.detach().numpy(), labels)
    collection = torchmetrics.MetricCollection({
        "accuracy": torchmetrics.classification.MulticlassAccuracy(3, average="micro"),
        "each": AngularVisualHardness(layer, reduction="none"),
        "avh": AngularVisualHardness(layer),
    })  # fmt: skip
    for part in (slice(0, 25), slice(25, 60)):
        collection.update(preds=layer(features[part]), features=features[part], target=target[part])
    found = collection.compute()
    assert found["each"].numpy() == pytest.approx(expected, abs=1e-6) and float(found["avh"]) == pytest.approx(
        expected.mean(), abs=1e-6
    )
    assert float(found["accuracy"]) == pytest.approx((layer(features).argmax(1) == target).float().mean().item())
    collection.reset()
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert collection["each"].compute().shape == (0,)
    assert not list(AngularVisualHardness(layer).parameters())  # the layer stays the network's
    gaussian = LGMLoss(3, 3)  # around the mean of its means, as everywhere
    around = avh(features.numpy(), gaussian.head, labels)
    for head in (gaussian, gaussian.head):
        metric = AngularVisualHardness(head, reduction="none")
        metric.update(features, target)
        assert metric.compute().numpy() == pytest.approx(around, abs=1e-6)
    with pytest.raises(InputError, match="reduction must be mean, sum or none"):
        AngularVisualHardness(layer, reduction="max")  # type: ignore[arg-type]


if __name__ == "__main__":
    in_two_processes(sys.argv[1], Path(sys.argv[2]))
