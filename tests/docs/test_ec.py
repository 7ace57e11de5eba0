"""docs/methods/ec.md tells the presets as they are."""

from __future__ import annotations

from sfl import experiments

from .pages import read
from .test_agents import options, text

PAGE = "docs/methods/ec.md"

ELSEWHERE = {
    "retrieval.near": ("", "5"),
    "retrieval.far": ("", "25"),
    "retrieval.hidden": ("", "512"),
    "retrieval.layers": ("", "4"),
    "retrieval.batch-size": ("", "64"),
    "retrieval.learning-rate": ("", "0.0001"),
    "updates-per-step": ("", ""),
    "replay-size": ("", "20,000 each"),
    "extra-negatives": ("", "0"),
    "train-every": ("", "20,000 each"),
    "bonus.scale": ("alpha 0.03", "0.03"),
    "bonus.shift": ("beta 0.5", "0.5"),
    "bonus.capacity": ("400", "200"),
    "bonus.novelty-threshold": ("b_novelty 0.1", "0"),
    "bonus.percentile": ("F 90", "90"),
    "ppo.horizon": ("", "256"),
    "ppo.epochs": ("", "4"),
    "ppo.minibatches": ("", "4"),
    "ppo.gamma": ("", "0.99"),
    "ppo.trace": ("", "0.95"),
    "ppo.learning-rate": ("0.00025", "0.00025"),
    "ppo.clip": ("", "0.1"),
    "ppo.decay-steps": ("", "the run"),
    "ppo.entropy": ("0.01", "0.01"),
    "ppo.dim": ("", "512"),
}
"""What the paper and the original code have; nothing where they do not say or where it is not the same thing."""


def test_the_settings_table_is_that_of_the_presets() -> None:
    ours = [
        {word: text(value) for word, value in options(experiments.get(name).agent)}
        for name in ("test-1-fixed-spawn-ec", "fourroom-ec")
    ]
    rows = [
        f"| `{word}` | {paper} | {original} | {' | '.join(values[word] for values in ours)} |\n"
        for word, (paper, original) in ELSEWHERE.items()
    ]
    table = "".join(rows)
    found = read(PAGE).partition("|---|---|---|---|---|\n")[2].partition("\n\n")[0] + "\n"
    assert found == table, f"put this table into {PAGE}:\n{table}"
