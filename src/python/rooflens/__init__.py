"""Captures of GPU profilers as Python objects: metrics, findings, and tables as Arrow.

    import rooflens

    capture = rooflens.open("run/")
    capture.findings[0].statement
    capture.tables["kernels"].to_polars()
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Union

from . import _rooflens
from ._rooflens import Error

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = [
    "Account",
    "Capture",
    "Comparison",
    "Error",
    "Finding",
    "Metric",
    "Table",
    "Tables",
    "compare",
    "open",
]

StrPath = Union[str, "os.PathLike[str]"]

#: Rows that a notebook shows of a table.
SHOWN = 10


@dataclass(frozen=True)
class Metric:
    """A number with its unit and formula, or the reason why there is none."""

    id: str
    value: float | None
    unit: str
    polarity: str
    basis: str
    reason: str | None = None
    pass_: str | None = None
    stage: str | None = None
    gpu: int | None = None
    rank: int | None = None
    kernel_class: str | None = None


@dataclass(frozen=True)
class Finding:
    """What is slow, why, and what to do. `saved_ns` is an upper bound; bounds of several findings overlap."""

    rule: str
    title: str
    severity: str
    statement: str
    advice: str | None
    pass_: str | None
    stage: str | None
    rank: int | None
    saved_ns: float | None
    of_ns: float | None
    share: float | None


@dataclass
class Account:
    """A part of the captured time. Its children divide it."""

    kind: str
    label: str
    ns: int
    share: float
    children: list[Account] = field(default_factory=list, repr=False)

    def walk(self) -> Iterator[Account]:
        """This part and all parts below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def _repr_html_(self) -> str:
        name = escape(f"{self.kind} {self.label}".strip())
        line = f"{name}: {self.ns / 1e6:.4g} ms, {self.share:.2%} of captured time"
        if not self.children:
            return f"<div style='margin-left:1.5em'>{line}</div>"
        children = "".join(child._repr_html_() for child in self.children)
        is_open = " open" if self.share >= 0.1 else ""
        return f"<details{is_open} style='margin-left:1em'><summary>{line}</summary>{children}</details>"


class Table:
    """A table in memory. Any library that knows the PyCapsule interface of Arrow reads it without a copy."""

    def __init__(self, name: str, table: _rooflens.Table) -> None:
        self.name = name
        self._table = table
        self.title = table.title
        self.columns = table.columns()
        #: The meaning of each column.
        self.about = {column: about for column, about, _ in table.about}
        #: The unit of each column that has one.
        self.units = {column: unit for column, _, unit in table.about if unit}

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<Table {self.name}: {len(self)} rows, {len(self.columns)} columns>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """The table as a frame of polars, which shares its memory."""
        import polars

        return polars.DataFrame(self)

    def to_arrow(self) -> pyarrow.Table:
        """The table as a table of PyArrow, which shares its memory."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a frame of pandas, by way of PyArrow."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        try:
            frame = self.to_polars()
        except ImportError:
            return f"<code>{escape(repr(self))}</code>"
        rows = [[_shown(cell) for cell in row] for row in frame.head(SHOWN).iter_rows()]
        return _html_table(f"{self.title or self.name}: {len(self)} rows", self.columns, rows)


class Tables(Mapping[str, Table]):
    """Tables by name. Each is made when it is first asked for."""

    def __init__(self, names: Sequence[str], table: Callable[[str], _rooflens.Table]) -> None:
        self._names = list(names)
        self._make = table
        self._made: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Table:
        if name not in self._made:
            self._made[name] = Table(name, self._make(name))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<Tables {', '.join(self._names)}>"


class _Report:
    """What captures and comparisons share."""

    def __init__(self, report: _rooflens.Report) -> None:
        self._report = report
        meta = json.loads(report.meta())
        #: The conclusion, or the name of the workload.
        self.title: str = meta["title"]
        #: Name of the bundle.
        self.name: str = meta["bundle"]
        #: SHA-256 that identifies the bundle.
        self.id: str = meta["bundle_id"]
        #: Lines of the cover, such as GPU and model.
        self.facts: dict[str, str] = dict(meta["facts"])
        self.metrics: list[Metric] = [_metric(fields) for fields in json.loads(report.metrics())]
        #: Data sets, as in the CSV files of a report.
        self.tables = Tables(report.tables(), report.table)

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        """What the input lacks or got wrong."""
        diagnostics: list[dict[str, Any]] = json.loads(self._report.data_quality())
        return diagnostics

    def metric(self, id: str, **scope: object) -> Metric:
        """The only metric of that name and scope: `metric("mfu", stage="decode")`.

        Raises KeyError if there is none, or more than one.
        """
        known = [metric for metric in self.metrics if metric.id == id]
        matching = [one for one in known if all(getattr(one, key) == scope[key] for key in scope)]
        if len(matching) == 1:
            return matching[0]
        scopes = sorted({f"pass_={one.pass_!r}, stage={one.stage!r}" for one in known})
        raise KeyError(f"{len(matching)} metrics {id!r} match {scope}; there are: {'; '.join(scopes)}")

    def to_html(self, kind: str = "report") -> str:
        """The document as one HTML file; `kind` is `summary`, `report` or `appendix`."""
        return self._report.render("html", kind).decode()

    def to_pdf(self, kind: str = "report") -> bytes:
        """The document as PDF; `kind` is `summary`, `report` or `appendix`."""
        return self._report.render("pdf", kind)

    def to_json(self) -> dict[str, Any]:
        """The document as `report.json` has it."""
        document: dict[str, Any] = json.loads(self._report.render("json", "report"))
        return document

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.title}>"

    def _cover(self) -> str:
        facts = _html_table("", [], list(self.facts.items()))
        return f"<h3>{escape(self.title)}</h3>{facts}"


class Capture(_Report):
    """A capture: its report, and the rows that it was made of."""

    def __init__(self, capture: _rooflens.Capture, report: _rooflens.Report) -> None:
        super().__init__(report)
        self._capture = capture
        self.findings: list[Finding] = [_finding(row) for row in report.rows("findings")]
        #: Tables of single launches, copies, calls, ranges: all that was read.
        self.rows = Tables(capture.tables(), capture.table)

    @property
    def account(self) -> list[Account]:
        """All captured time by pass, GPU, stage and cause."""
        parts: dict[int, Account] = {}
        roots: list[Account] = []
        for row in self._report.rows("account"):
            part = Account(row["kind"], row["label"] or "", row["ns"], row["captured_share"])
            parts[row["id"]] = part
            siblings = roots if row["parent"] is None else parts[row["parent"]].children
            siblings.append(part)
        return roots

    def _repr_html_(self) -> str:
        head = ["severity", "finding", "statement", "what to do"]
        rows = []
        for finding in self.findings[:SHOWN]:
            rows.append((finding.severity, finding.title, finding.statement, finding.advice or ""))
        return self._cover() + _html_table(f"Findings: {len(self.findings)}", head, rows)


class Comparison(_Report):
    """What differs between captures before and after a change."""

    def _repr_html_(self) -> str:
        names = ["compare_times", "compare_explanations"]
        return self._cover() + "".join(self.tables[name]._repr_html_() for name in names)


def open(
    paths: StrPath | Sequence[StrPath],
    *,
    gpu: str | None = None,
    model: StrPath | None = None,
    workload: StrPath | None = None,
    notes: StrPath | None = None,
    stages: Sequence[str] = (),
    merge: bool = False,
    lang: str = "en",
) -> Capture:
    """Reads and analyzes a bundle, an archive, or files of one run.

    The options are those of `rooflens report`; `stages` are `NAME=REGEX`.

    Raises Error if the paths hold nothing to report, or several runs.
    """
    files = (_path(model), _path(workload), _path(notes))
    capture, report = _rooflens.open(_paths(paths), gpu, files, list(stages), merge, lang)
    return Capture(capture, report)


def compare(
    before: Capture | Sequence[Capture],
    after: Capture | Sequence[Capture],
    *,
    least: float = 0.01,
    allow: Sequence[str] = (),
    lang: str = "en",
) -> Comparison:
    """Compares captures before and after a change; several of one side are repeats.

    A stage is faster or slower from the factor `least` on. `allow` names conditions that may differ, as `--allow` does.

    Raises Error if the captures are not of the same work on the same machine.
    """
    sides = _captures(before), _captures(after)
    return Comparison(_rooflens.compare(*sides, least, list(allow), lang))


def _captures(side: Capture | Sequence[Capture]) -> list[_rooflens.Capture]:
    captures = [side] if isinstance(side, Capture) else side
    return [capture._capture for capture in captures]


def _path(path: StrPath | None) -> str | None:
    return None if path is None else os.fspath(path)


def _paths(paths: StrPath | Sequence[StrPath]) -> list[str]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    return [os.fspath(path) for path in paths]


def _metric(fields: dict[str, Any]) -> Metric:
    value, scope = fields["value"], fields.get("scope", {})
    return Metric(
        id=fields["id"],
        value=value.get("value"),
        unit=fields["unit"],
        polarity=fields["polarity"],
        basis=fields["basis"],
        reason=value.get("reason"),
        pass_=scope.get("pass"),
        stage=scope.get("stage"),
        gpu=scope.get("gpu"),
        rank=scope.get("rank"),
        kernel_class=scope.get("class"),
    )


def _finding(row: dict[str, Any]) -> Finding:
    return Finding(
        rule=row["rule"],
        title=row["finding"],
        severity=row["severity"],
        statement=row["statement"],
        advice=row["advice"],
        pass_=row["pass"],
        stage=row["stage"],
        rank=row["rank"],
        saved_ns=row["saved_ns"],
        of_ns=row["of_ns"],
        share=row["share"],
    )


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        texts = (f"<{tag} style='text-align:left'>{escape(cell)}</{tag}>" for cell in cells)
        return f"<tr>{''.join(texts)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><caption>{escape(caption)}</caption>{line(head, 'th')}{body}</table>"
