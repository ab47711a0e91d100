#!/usr/bin/env python3
"""Samples with the p-value, factor, and interval that SciPy gives: writes src/base/stats/testdata/shift.txt.

The interval is an inversion of the test: quotients r for which `second ÷ r` does not differ from `first` at 5 %.
The exact test has no ties and no approximation up to 8 values; beyond, the normal one without ties in the deviation.
"""
import pathlib

import numpy
from scipy.stats import mannwhitneyu

SAMPLES = 100
LEVEL = 0.05


def interval(first, second):
    """Between two neighboring quotients the ranks do not change, so one point of each gap is tested."""
    quotients = numpy.sort((second[None, :] / first[:, None]).ravel())
    edges = numpy.unique(quotients)
    exact = min(len(first), len(second)) <= 8
    accepted = []
    for low, high in zip(edges, edges[1:]):
        shifted = second / ((low + high) / 2)
        p = mannwhitneyu(first, shifted, method="exact" if exact else "asymptotic").pvalue
        if p > LEVEL:
            accepted += [low, high]
    outside = edges[0] * 0.5
    p = mannwhitneyu(first, second / outside, method="exact" if exact else "asymptotic").pvalue
    return [] if p > LEVEL else [min(accepted), max(accepted)]


def main():
    random = numpy.random.default_rng(7)
    lines = ["# first;second;p, factor, interval of 95 %: tests/reference/shift.py"]
    for number in range(SAMPLES):
        sizes = random.integers(3, 9 if number % 2 else 25, 2)
        factor = random.choice([1, 1.02, 1.5])
        first = numpy.round(random.lognormal(3, 0.1, sizes[0]), 4)
        second = numpy.round(random.lognormal(3, 0.1, sizes[1]) * factor, 4)
        p = mannwhitneyu(first, second, method="auto").pvalue
        ratio = numpy.median((second[None, :] / first[:, None]).ravel())
        figures = [p, ratio, *interval(first, second)]
        lines.append(";".join(" ".join(repr(float(x)) for x in part) for part in (first, second, figures)))
    target = pathlib.Path(__file__).parents[2] / "src/base/stats/testdata/shift.txt"
    target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
