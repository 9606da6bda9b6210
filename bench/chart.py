"""`python -m luminal.bench.chart [RESULTS.json] [-o docs/bench.svg]`: the chart of the README, from the newest kept results."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from ..search.bench.chart import Bar, chart

RESULTS = Path(__file__).with_name("results")


def bars(results: list[dict[str, object]]) -> list[Bar]:
    """One bar a family: the geometric mean of its ratios."""
    families: dict[str, list[float]] = {}
    for row in results:
        ratio = row.get("ratio")
        if isinstance(ratio, float):
            families.setdefault(str(row["family"]), []).append(ratio)
    return [
        Bar(family, statistics.geometric_mean(ratios), f"(mean of {len(ratios)})" if len(ratios) > 1 else "") for family, ratios in families.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m luminal.bench.chart", description="kept results as a chart")
    parser.add_argument("results", nargs="?", help="a .json of bench/results (default: the newest)")
    parser.add_argument("-o", "--output", default="docs/bench.svg")
    given = parser.parse_args()
    found = sorted(RESULTS.glob("*.json"))
    if given.results is None and not found:
        parser.error("no results are kept: run `python -m luminal.bench --out bench/results` first")
    path = Path(given.results) if given.results else found[-1]
    kept = json.loads(path.read_text(encoding="utf-8"))
    Path(given.output).write_text(chart("luminal beside the best of its peers", kept["heading"][0], bars(kept["results"])), encoding="utf-8")
    print(f"wrote {given.output} from {path}")


if __name__ == "__main__":
    main()
