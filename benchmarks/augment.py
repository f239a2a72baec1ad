"""How fast images are augmented, beside a pipeline that takes them one at a time with PIL; and sheets to look at.

    python benchmarks/augment.py                     # a table: images per second and the ratio to PIL
    python benchmarks/augment.py --json speed.json   # the same as JSON
    python benchmarks/augment.py --device cuda       # on a GPU: eager and as a captured graph
    python benchmarks/augment.py --sheet operations.png --policy-sheet policy.png

Both sides get the same images and the same random numbers and must give the same pixels, which is checked first. They
are timed in turn, round by round, so that other work on the machine hits both; the best round of each counts. PIL gets
its images in its own layout (height, width, channel), and one thread per process is used throughout.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_sample_images

from fedvls.augment import draws, get_augmentation
from fedvls.augment.operations import CODES, OPERATIONS, operate
from fedvls.augment.policy import CIFAR10, magnitude

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "augment"))
import pil_reference

SIDE = 32
RECIPE = get_augmentation("cifar")
ONE_BY_ONE = "PIL, one image at a time"
BATCHES = (64, 1024, 5000)
Timed = Callable[[], None]


def photographs(samples: int) -> np.ndarray:
    """Cut-outs of scikit-learn's two sample photographs, scaled down to uint8 `[samples, 32, 32, 3]`."""
    scenes = [Image.fromarray(scene) for scene in load_sample_images().images]
    random = np.random.RandomState(0)
    cut = []
    for sample in range(samples):
        scene = scenes[sample % 2]
        side = random.randint(60, 400)
        left, top = random.randint(0, scene.width - side), random.randint(0, scene.height - side)
        cut.append(np.asarray(scene.crop((left, top, left + side, top + side)).resize((SIDE, SIDE))))
    return np.stack(cut)


def one_by_one(images: np.ndarray, u: list[list[float]]) -> np.ndarray:
    """The whole recipe with PIL; uint8 `[samples, 3, 32, 32]`."""
    out = np.empty((len(images), 3, SIDE, SIDE), np.uint8)
    for b, (array, row) in enumerate(zip(images, u, strict=True)):
        image = Image.fromarray(array)
        image = pil_reference.crop_flip(image, int(row[0] * 9), int(row[1] * 9), row[2] < 0.5)
        for slot, (name, probability, start, stretch) in enumerate(PLAN[int(row[3] * 25)]):
            if row[4 + slot] < probability:
                size = start - stretch if row[6 + slot] < 0.5 else start + stretch
                image = pil_reference.OPERATIONS[name](image, size)
        out[b] = np.asarray(image).transpose(2, 0, 1)
    return out


PLAN = [[(o, p, *magnitude("torchvision", o, m, SIDE, SIDE)) for o, p, m in pair] for pair in CIFAR10]


def contenders() -> dict[str, tuple[int, Timed]]:
    """Name, number of images and what is timed; made in the process that runs it."""
    torch.set_num_threads(1)
    made: dict[str, tuple[int, Timed]] = {}
    few = photographs(500)
    rows = draws(RECIPE, len(few), seed=0, round=0, client=0, epoch=0)
    numbers = rows.double().tolist()
    x = torch.from_numpy(few).permute(0, 3, 1, 2).contiguous()
    assert np.array_equal(one_by_one(few, numbers), RECIPE(x, rows).numpy()), "the two sides give different pixels"

    def pil() -> None:
        one_by_one(few, numbers)

    def batched(size: int) -> Timed:
        many = x.repeat(-(-size // len(x)), 1, 1, 1)[:size].contiguous()
        u = draws(RECIPE, size, seed=1, round=0, client=0, epoch=0)
        times = max(1, 1024 // size)

        def run() -> None:
            for _ in range(times):
                RECIPE(many, u)

        return run

    made[ONE_BY_ONE] = len(few), pil
    for size in BATCHES:
        made[f"fedvls, batches of {size}"] = max(size, 1024 // size * size), batched(size)
    return made


def worker(connection: Connection) -> None:
    """Run what the parent names, and answer with the number of images, start and end."""
    known = contenders()
    connection.send("ready")
    while name := connection.recv():
        samples, run = known[name]
        start = time.perf_counter()
        run()
        connection.send((samples, start, time.perf_counter()))


def measure(processes: int, rounds: int) -> dict[str, float]:
    """Best images per second of each contender, with this many processes at once."""
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(processes)]
    workers = [context.Process(target=worker, args=(theirs,), daemon=True) for _, theirs in pairs]
    for one in workers:
        one.start()
    ours = [mine for mine, _ in pairs]
    for mine in ours:
        mine.recv()
    names = [ONE_BY_ONE, *(f"fedvls, batches of {size}" for size in BATCHES)]
    best = dict.fromkeys(names, 0.0)
    for _ in range(rounds):
        for name in names:
            for mine in ours:
                mine.send(name)
            answers = [mine.recv() for mine in ours]
            span = max(end for _, _, end in answers) - min(start for _, start, _ in answers)
            best[name] = max(best[name], sum(samples for samples, _, _ in answers) / span)
    for mine, one in zip(ours, workers, strict=True):
        mine.send("")
        one.join()
    return best


def measure_device(device: str, rounds: int) -> dict[str, float]:
    """Images per second on an accelerator: call by call, and replayed as a captured graph."""
    best: dict[str, float] = {}
    some = torch.from_numpy(photographs(500)).permute(0, 3, 1, 2)
    for variant in ("torchvision", "binned"):
        recipe = get_augmentation("cifar", variant=variant)
        for size in BATCHES:
            x = some.repeat(-(-size // len(some)), 1, 1, 1)[:size].contiguous()
            u = draws(recipe, size, seed=0, round=0, client=0, epoch=0)
            expected, x, u = recipe(x, u), x.to(device), u.to(device)
            assert torch.equal(recipe(x, u).cpu(), expected), "host and device give different pixels"
            graph, later = torch.cuda.CUDAGraph(), torch.zeros_like(u)
            with torch.cuda.graph(graph):
                y = recipe(x, later)
            later.copy_(u)
            graph.replay()
            assert torch.equal(y.cpu(), expected), "a replay gives different pixels"
            for way, run in (("call by call", functools.partial(recipe, x, u)), ("captured graph", graph.replay)):
                label = f"{variant}, batches of {size}, {way}"
                best[label] = max(_device_speed(run, size) for _ in range(rounds))
    return best


def _device_speed(run: Callable[[], object], size: int, times: int = 20) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    return times * size / (time.perf_counter() - start)


def table(results: dict[int, dict[str, float]]) -> str:
    """The measurements as a Markdown table."""
    lines = ["| images per second | " + " | ".join(f"{n} process{'es' * (n > 1)} | ratio" for n in results) + " |"]
    lines.append("|---|" + "---:|" * (2 * len(results)))
    for name in results[1]:
        cells = (f"{best[name]:,.0f} | {best[name] / best[ONE_BY_ONE]:.1f}" for best in results.values())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# --- sheets

TILE = 64


def tile(image: torch.Tensor) -> Image.Image:
    """One image, enlarged without smoothing."""
    return Image.fromarray(image.permute(1, 2, 0).numpy()).resize((TILE, TILE), Image.Resampling.NEAREST)


def sheet(rows: list[tuple[str, list[torch.Tensor | None]]], label_width: int) -> Image.Image:
    """Rows of tiles with a label in front; None leaves a gap."""
    step = TILE + 4
    width = label_width + max(sum(step if t is not None else 12 for t in tiles) for _, tiles in rows)
    canvas = Image.new("RGB", (width + 4, step * len(rows) + 4), "white")
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(15)
    for number, (label, tiles) in enumerate(rows):
        left, top = label_width, number * step + 4
        pen.multiline_text((8, top + TILE / 2), label, "black", font, anchor="lm", spacing=4)
        for one in tiles:
            if one is not None:
                canvas.paste(tile(one), (left, top))
            left += step if one is not None else 12
    return canvas


def some_images() -> torch.Tensor:
    """Four views of the sample photographs that are easy to recognise."""
    china, flower = (Image.fromarray(scene) for scene in load_sample_images().images)
    boxes = [(flower, (150, 0, 577, 427)), (china, (170, 60, 530, 420)), (china, (0, 0, 427, 427))]
    views = [np.asarray(scene.crop(box).resize((SIDE, SIDE), Image.Resampling.BOX)) for scene, box in boxes]
    return torch.from_numpy(np.stack(views)).permute(0, 3, 1, 2).contiguous()


def operations_sheet() -> Image.Image:
    """Every operation at magnitude index 2, 5 and 9, the second view with negative sign, beside the original."""
    views = some_images()[:2]
    rows: list[tuple[str, list[torch.Tensor | None]]] = []
    for name in OPERATIONS:
        # What has no magnitude looks the same at all of them.
        values = list(dict.fromkeys(magnitude("torchvision", name, m, SIDE, SIDE) for m in (2, 5, 9)))
        tiles: list[torch.Tensor | None] = []
        for view, sign in zip(views, (1, -1), strict=True):
            sizes = torch.tensor([start + sign * stretch for start, stretch in values], dtype=torch.float64)
            code = torch.full((len(values),), CODES[name])
            done = operate(view.expand(len(values), -1, -1, -1), [(code, sizes)])
            blank = [torch.full_like(view, 255)] * (3 - len(values))
            tiles += [view, *done, *blank, None]
        rows.append((f"{name}\n{_described(name, values)}", tiles[:-1]))
    return sheet(rows, 190)


def _described(name: str, values: list[tuple[float, float]]) -> str:
    if len(values) == 1:
        return ""
    unit = {"Rotate": "°", "TranslateX": " px", "TranslateY": " px", "Posterize": " bits"}.get(name, "")
    if values[0][1] == 0:
        return ", ".join(f"{start:.0f}" for start, _ in values) + unit
    numbers = ", ".join(f"{int(size) if unit == ' px' else round(size, 2):g}" for _, size in values)
    return f"{'1 ' if values[0][0] else ''}± {numbers}{unit}"


def policy_sheet() -> Image.Image:
    """The recipe for CIFAR in both variants: each view in twelve epochs."""
    rows: list[tuple[str, list[torch.Tensor | None]]] = []
    for variant in ("torchvision", "binned"):
        recipe = get_augmentation("cifar", variant=variant)
        epochs = [recipe(some_images(), draws(recipe, 3, seed=0, round=0, client=0, epoch=e)) for e in range(12)]
        for number, view in enumerate(some_images()):
            rows.append((variant if number == 1 else "", [view, None, *(epoch[number] for epoch in epochs)]))
    return sheet(rows, 110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds; the best counts")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2], help="how many at once")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for the accelerator's own table")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    parser.add_argument("--sheet", type=Path, help="draw every operation into this PNG and measure nothing")
    parser.add_argument("--policy-sheet", type=Path, help="draw the whole recipe into this PNG and measure nothing")
    options = parser.parse_args()
    if options.sheet or options.policy_sheet:
        for path, draw in ((options.sheet, operations_sheet), (options.policy_sheet, policy_sheet)):
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                draw().save(path)
        return
    where = {"torch": torch.__version__, "pillow": PIL.__version__, "processor": platform.processor() or "unknown"}
    where |= {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    if options.device == "cpu":
        results = {n: measure(n, options.rounds) for n in options.processes}
        print(table(results))
    else:
        where["device"] = torch.cuda.get_device_name(options.device)
        results = measure_device(options.device, options.rounds)
        print("\n".join(f"| {name} | {speed:,.0f} |" for name, speed in results.items()))
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    if options.json:
        options.json.write_text(json.dumps({"where": where, "images_per_second": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
