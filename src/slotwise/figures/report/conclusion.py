"""The conclusion of a report, composed from the verdicts alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slotwise.figures.look.style import readable
from slotwise.figures.report.claims import CLAIMS, Claim, Finding, scale_phrase
from slotwise.figures.report.verdicts import Verdict
from slotwise.figures.results.setting import Setting

__all__ = ["conclude"]

VERBS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.FAILS: ("fails", "fail"),
    Verdict.UNKNOWN: ("is undecided", "are undecided"),
}


def conclude(findings: Sequence[Finding], settings: Sequence[Setting]) -> list[str]:
    """Return the paragraphs of the conclusion."""
    if not findings:
        return ["Con-UCB was not run, so none of the paper's claims can be judged."]
    scales = sorted({finding.scale for finding in findings}, reverse=True)
    return [
        _about_ordering(scales, findings),
        *(_about_scale(scale, findings) for scale in scales),
        _about_bound(settings),
        *_about_data(settings),
    ]


def _about_scale(scale: float, findings: Sequence[Finding]) -> str:
    """State which claims hold everywhere, which nowhere, and where the others hold."""
    ours = [finding for finding in findings if finding.scale == scale]
    verdicts = {
        claim: {
            finding.setting.short_heading: finding.verdict
            for finding in ours
            if finding.claim is claim
        }
        for claim in CLAIMS
    }
    n_settings = len({finding.setting.short_heading for finding in ours})
    where = (
        f"on all {n_settings} data sets"
        if n_settings > 1
        else f"on {ours[0].setting.short_heading}"
    )
    parts = []
    for verdict, (of_one, of_many) in VERBS.items():
        agreed = [claim.name for claim, said in verdicts.items() if set(said.values()) == {verdict}]
        if agreed:
            verb = of_one if len(agreed) == 1 else of_many
            parts.append(f"{len(agreed)} {verb} {where} ({'; '.join(agreed)})")
    mixed = [
        _about_mixed(claim, said) for claim, said in verdicts.items() if len(set(said.values())) > 1
    ]
    if not parts:
        parts = ["none has the same verdict on all data sets"]
    opening = f"Of the {len(CLAIMS)} claims, with {scale_phrase(scale)}, {_listed(parts)}."
    return " ".join([opening, *mixed])


def _about_mixed(claim: Claim, said: Mapping[str, Verdict]) -> str:
    parts = []
    for verdict in Verdict:
        titles = [title for title, one in said.items() if one is verdict]
        if titles:
            parts.append(f"{verdict.value} on {_listed(titles)}")
    return f"The claim of {claim.name} {', '.join(parts[:-1])} and {parts[-1]}."


def _about_ordering(scales: Sequence[float], findings: Sequence[Finding]) -> str:
    """State where Con-UCB is better than the others, as the paper reports."""
    parts = []
    for scale in scales:
        ordering = [
            finding for finding in findings if finding.scale == scale and finding.claim.is_ordering
        ]
        settings = list({id(finding.setting): finding.setting for finding in ordering}.values())
        whole = _titles(
            setting
            for setting in settings
            if all(
                finding.verdict is Verdict.HOLDS
                for finding in ordering
                if finding.setting is setting
            )
        )
        if len(whole) == len(settings):
            where = f"on all {len(whole)} data sets" if len(whole) > 1 else f"on {whole[0]}"
        else:
            where = f"on {_listed(whole)} only" if whole else "on no data set"
        parts.append(f"with {scale_phrase(scale)} {where}")
    return f"The paper's ordering of the algorithms is fully reproduced {'; '.join(parts)}."


def _about_bound(settings: Sequence[Setting]) -> str:
    empty = [setting for setting in settings if setting.theorem_bound >= setting.trivial_bound]
    if not empty:
        return "The theorem's bound is below L·T on every data set, so it is informative here."
    numbers = [
        f"{setting.short_heading}: {readable(setting.theorem_bound)} "
        f"against {readable(setting.trivial_bound)}"
        for setting in empty
    ]
    return (
        "The theorem's bound, made explicit, is above L·T, which no policy can exceed, so it is "
        f"not informative at this horizon ({'; '.join(numbers)})."
    )


def _about_data(settings: Sequence[Setting]) -> list[str]:
    look_alikes = _titles(setting for setting in settings if setting.is_look_alike)
    unkept = _titles(setting for setting in settings if setting.is_floor_infeasible)
    slack = _titles(
        setting for setting in settings if setting.config["optimum"].get("status") == "slack"
    )
    said = []
    if look_alikes:
        said.append(
            f"Look-alike data ({_listed(look_alikes)}) resemble the paper's in size and shape; "
            "what holds on them need not hold on the originals."
        )
    if slack:
        said.append(
            f"On {_listed(slack)} the floor is slack: it costs nothing, so these results do not "
            "test the floor program."
        )
    if unkept:
        said.append(
            f"On {_listed(unkept)} no page reaches the floor: regret is relative to the most "
            "clicked page, and violation and shortfall grow for every policy."
        )
    return said


def _titles(settings: Iterable[Setting]) -> list[str]:
    return [setting.short_heading for setting in settings]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
