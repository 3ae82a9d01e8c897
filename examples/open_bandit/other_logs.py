"""Logs that others keep: the Open Bandit data set, and logs in the style of obp.

Each of their rows is one place on a page with the probability of the item in that place. So a row
becomes a page of one slot, and the place becomes the feature `position` of the visitor: a mix by
`position` is a policy that knows where it is shown. Revenue is the reward.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from slotwise.errors import InvalidInput, MissingData
from slotwise.evaluation.candidates import LinkMix
from slotwise.evaluation.link_tallies import Tallies
from slotwise.evaluation.log_files import Source
from slotwise.evaluation.log_reader import LogReader
from slotwise.page_log import VISITOR_PREFIX, log_schema

CAMPAIGNS = ("all", "men", "women")
POLICIES = ("random", "bts")
NEEDED = ("timestamp", "item_id", "position", "click", "propensity_score")


def open_bandit_log(
    directory: str | Path, policy: str = "random", campaign: str = "all"
) -> list[io.BytesIO]:
    """Return one log of the Open Bandit data set as a log to evaluate.

    `directory` is where its archive was unpacked: it holds random/all/all.csv and five more
    (Saito et al. 2020, CC BY 4.0). Items are links, and the features of users those of visitors.
    """
    if policy not in POLICIES:
        raise InvalidInput.of("policy", f"one of {', '.join(POLICIES)}", policy)
    if campaign not in CAMPAIGNS:
        raise InvalidInput.of("campaign", f"one of {', '.join(CAMPAIGNS)}", campaign)
    path = Path(directory) / policy / campaign / f"{campaign}.csv"
    if not path.is_file():
        raise MissingData(f"`directory` must hold {policy}/{campaign}/{campaign}.csv, got none")
    with path.open(encoding="utf-8") as file:
        names = [name.strip('"\n') for name in file.readline().split(",")]
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise MissingData(
            f"{path.name}: must have the columns {', '.join(NEEDED)}, got none named {missing[0]}"
        )
    features = [name for name in names if name.startswith("user_feature")]
    table = pyarrow.csv.read_csv(
        path,
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=[*NEEDED, *features],
            column_types={"item_id": pa.string(), "timestamp": pa.string()},
        ),
    )
    moments = pc.strptime(
        pc.utf8_slice_codeunits(table["timestamp"], 0, 19), format="%Y-%m-%d %H:%M:%S", unit="s"
    )
    table = table.append_column("moment", moments).sort_by("moment")
    seconds = table["moment"].cast(pa.int64()).to_numpy()
    return obp_log(
        table["item_id"].to_pylist(),
        table["click"].to_numpy(),
        table["propensity_score"].to_numpy(),
        table["position"].to_numpy(),
        times_us=1_000_000 * seconds,
        features={name: table[name].to_pylist() for name in features},
    )


def obp_log(
    action: Sequence[object] | np.ndarray,
    reward: ArrayLike,
    pscore: ArrayLike,
    position: ArrayLike | None = None,
    *,
    times_us: ArrayLike | None = None,
    features: dict[str, Sequence[object]] | None = None,
) -> list[io.BytesIO]:
    """Return logged bandit feedback, as obp's data sets give it, as a log to evaluate.

    Rewards lie in [0, 1]; a reward above 0 counts as a click. Where all probabilities are the same
    and as many links were shown as they allow, the log is known to be uniform.

    >>> from slotwise.evaluation import LinkMix, EvaluationSettings, evaluate
    >>> log = obp_log(action=[0, 1, 1, 0], reward=[1, 0, 1, 0], pscore=[0.5, 0.5, 0.5, 0.5])
    >>> evaluate(log, LinkMix.of({"1": 1.0}), EvaluationSettings("ips")).clicks.value
    0.5
    """
    links = [str(link) for link in action]
    n_rows = len(links)
    probabilities = np.asarray(pscore, np.float64)
    rewards = np.asarray(reward, np.float64)
    for name, column in (("reward", rewards), ("pscore", probabilities)):
        if column.shape != (n_rows,):
            raise InvalidInput.of(name, f"one number for each action ({n_rows})", column.shape)
    slots = np.ones(n_rows, np.int32) if position is None else np.asarray(position, np.int32)
    if slots.min(initial=1) == 0:
        slots = slots + 1  # obp counts from 0
    is_uniform = (
        n_rows > 0
        and np.ptp(probabilities) < 1e-12
        and len(set(links)) * probabilities[0] > 1 - 1e-9
    )
    columns = {
        "page_id": np.arange(n_rows).astype(str),
        "time_us": np.arange(n_rows) if times_us is None else np.asarray(times_us, np.int64),
        "slot": slots,
        "link": links,
        "probability": probabilities,
        "clicked": rewards > 0,
        "revenue": rewards,
        "min_probability": np.where(is_uniform, probabilities, 0.0),
        "slot_probability": probabilities,
    }
    given = dict(features or {})
    if position is not None:
        given["position"] = slots.tolist()
    for name, values in given.items():
        columns[VISITOR_PREFIX + name] = [None if v is None else str(v) for v in values]
    schema = log_schema(["min_probability", "slot_probability"], list(given))
    file = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), file)
    file.seek(0)
    return [file]


def shown_mix(log: Source, features: Sequence[str] = ()) -> LinkMix:
    """Return how often the pages of a log showed each link, by segment, as a mix.

    That is the average policy of that log, to be evaluated on another one.
    """
    reader, tallies = LogReader(log, features), Tallies()
    n_pages = np.zeros(0)
    for pages in reader:
        tallies.make_room(max(1, len(reader.segments)), len(reader.links))
        tallies.add(pages, by_slot=False)
        n_pages = np.pad(n_pages, (0, max(0, len(tallies.views) - len(n_pages))))
        n_pages += np.bincount(pages.segments, minlength=len(n_pages))
    links = reader.links.values
    return LinkMix(
        {
            segment: dict(zip(links, (views / max(n, 1.0)).tolist(), strict=True))
            for segment, views, n in zip(reader.segments, tallies.views, n_pages, strict=True)
        },
        features,
    )
